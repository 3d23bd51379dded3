"""The backend of every GPU that WebGPU reaches: Vulkan, Metal, Direct3D 12.  Needs wgpu."""

from __future__ import annotations

from typing import Any

from pyrite.backend.cube.backend import CubeBackend
from pyrite.runtime.wgpu.adapter import open_device
from pyrite.runtime.wgpu.guarded import new_runtime


class Wgpu(CubeBackend):
    """Kernels as WGSL on the adapter of a number, the best one if none is given.

    Raises DeviceError when there is no such adapter, or its driver refuses.
    """

    keeps_constants = True

    def __init__(self, number: str = "0") -> None:
        # wgpu and wgpu:0 are one device.
        name = f"wgpu:{int(number)}" if int(number) else "wgpu"
        device = open_device(int(number))
        # Its methods take its own buffers only, which no Protocol can say.
        runtime: Any = new_runtime(device, name)
        super().__init__(runtime)
        self.is_software = device.is_software
        self.details = device.name + (", on the processors" if device.is_software else "")
