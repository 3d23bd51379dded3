"""Kernels on the CPU: compiled by LLVM, run by native threads, their code cached on disk.

Needs llvmlite.  `runtime` is the way in; below it `module` compiles and loads, `executor` runs,
`memory` allocates.
"""
