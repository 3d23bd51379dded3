"""Printers: a kernel as the text that a compiler of the target reads.  One file for each language.

`llvm` serves x86 and Arm processors; `wgsl` every GPU.  A printer walks the kernel once, in order.
"""
