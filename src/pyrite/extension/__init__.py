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
from pyrite.extension.structure import Struct as Struct
from pyrite.extension.structure import u32 as u32
from pyrite.extension.structure import vec2f as vec2f
from pyrite.extension.structure import vec2i as vec2i
from pyrite.extension.structure import vec2u as vec2u
from pyrite.extension.structure import vec3f as vec3f
from pyrite.extension.structure import vec3i as vec3i
from pyrite.extension.structure import vec3u as vec3u
from pyrite.extension.structure import vec4f as vec4f
from pyrite.extension.structure import vec4i as vec4i
from pyrite.extension.structure import vec4u as vec4u
from pyrite.extension.vector import Matrix as Matrix
from pyrite.extension.vector import Vector as Vector

__all__ = [
    "KernelScope", "KernelStages", "Matrix", "PythonKernel", "Scratch", "Struct", "TensorArgument",
    "Vector", "kernel", "stages", "u32", "vec2f", "vec2i", "vec2u", "vec3f", "vec3i", "vec3u",
    "vec4f", "vec4i", "vec4u",
]  # fmt: skip
