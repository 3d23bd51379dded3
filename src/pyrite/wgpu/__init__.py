"""Tensors on an application's GPU device, the buffers under them, and kernels in WGSL.

Needs the package wgpu.  The guides are docs/guide/raw-access.md and docs/guide/custom-kernels.md.
"""

from importlib import import_module as _import_module
from types import ModuleType as _Module

from pyrite.runtime.wgpu.adapter import FEATURES as FEATURES
from pyrite.wgpu.device import init_device as init_device
from pyrite.wgpu.device import required_features as required_features
from pyrite.wgpu.kernel import WGSLKernel as WGSLKernel
from pyrite.wgpu.kernel import kernel as kernel
from pyrite.wgpu.memory import buffer_of as buffer_of
from pyrite.wgpu.memory import from_buffer as from_buffer
from pyrite.wgpu.texture import copy_to_texture as copy_to_texture
from pyrite.wgpu.texture import from_texture as from_texture
from pyrite.wgpu.timeline import TimedPass as TimedPass
from pyrite.wgpu.timeline import Timeline as Timeline
from pyrite.wgpu.timeline import timeline as timeline

__all__ = [
    "FEATURES", "TimedPass", "Timeline", "WGSLKernel", "buffer_of", "copy_to_texture",
    "from_buffer", "from_texture", "init_device", "kernel", "required_features", "timeline",
]  # fmt: skip


def __getattr__(name: str) -> _Module:
    """Import `pyrite.wgpu.gfx` when it is first named: it needs pygfx."""
    if name != "gfx":
        raise AttributeError(f"module 'pyrite.wgpu' has no attribute {name!r}")
    return _import_module("pyrite.wgpu.gfx")
