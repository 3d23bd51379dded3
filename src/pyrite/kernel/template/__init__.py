"""Kernels of which the shape is known and the details are not: contractions and pools.

A template is a function from a problem (sizes and where elements lie), a frozen config record (how
the work is cut up) and callbacks for what is fused onto it, to a `Kernel`.  It knows no tensor.
Each template's file lists its configs in ``candidates`` and picks one in ``select``: no kernel has
a tile of its own.
"""
