"""Tensors on an application's GPU device, the buffers under them, and kernels in WGSL.

Needs the package wgpu.  The guides are docs/guide/raw-access.md and docs/guide/custom-kernels.md.
"""

from pyrite.runtime.wgpu.adapter import FEATURES as FEATURES
from pyrite.wgpu.device import init_device as init_device
from pyrite.wgpu.device import required_features as required_features
from pyrite.wgpu.kernel import WGSLKernel as WGSLKernel
from pyrite.wgpu.kernel import kernel as kernel
from pyrite.wgpu.memory import buffer_of as buffer_of
from pyrite.wgpu.memory import from_buffer as from_buffer

__all__ = [
    "FEATURES", "WGSLKernel", "buffer_of", "from_buffer", "init_device", "kernel",
    "required_features",
]  # fmt: skip
