"""Kernels of an application, written in Python: they run on every runtime.

They are given to `pyrite.custom_op`; `pyrite.wgpu.kernel` makes such of WGSL.  The guide is
docs/guide/custom-kernels.md.
"""

from pyrite.extension.argument import TensorArgument as TensorArgument
from pyrite.extension.declaration import kernel as kernel
from pyrite.extension.kernel import PythonKernel as PythonKernel
from pyrite.extension.scope import KernelScope as KernelScope
from pyrite.extension.scratch import Scratch as Scratch
from pyrite.extension.stages import KernelStages as KernelStages
from pyrite.extension.stages import stages as stages
from pyrite.extension.vector import Matrix as Matrix
from pyrite.extension.vector import Vector as Vector

__all__ = [
    "KernelScope", "KernelStages", "Matrix", "PythonKernel", "Scratch", "TensorArgument", "Vector",
    "kernel", "stages",
]  # fmt: skip
