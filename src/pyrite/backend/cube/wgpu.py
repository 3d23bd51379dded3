"""The backend of every GPU that WebGPU reaches: Vulkan, Metal, Direct3D 12.  Needs wgpu."""

from __future__ import annotations

import importlib.util
from collections.abc import Hashable
from typing import Any

from pyrite.backend.cube.backend import CubeBackend, Replay
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
        code = _host_code()
        device = open_device(int(number))
        # Its methods take its own buffers only, which no Protocol can say.
        runtime: Any = new_runtime(device, name)
        self.code = None if code is None else code.result()
        self._calls = calls = None if self.code is None else _calls(self.code, runtime)
        super().__init__(runtime, None if calls is None else calls.executor)
        self.is_software = device.is_software
        self.details = device.name + (", on the processors" if device.is_software else "")

    def keep_replay(self, key: Hashable, replay: Replay) -> None:
        """Keep what calls of a plan do, so that machine code can do it."""
        calls = self._calls
        super().keep_replay(key, calls.replay(replay) if calls and self.is_native else replay)


def _host_code() -> Any:
    """Return machine code for the host, which is made meanwhile; None without LLVM."""
    if importlib.util.find_spec("llvmlite") is None:
        return None
    from pyrite.backend.cube.host_code import HostCodeAhead  # here, for it needs that

    return HostCodeAhead()


def _calls(code: Any, runtime: Any) -> Any:
    """Return how calls are made by machine code, which is in use from now on."""
    from pyrite.backend.cube.native_wgpu_call import WgpuCalls

    code.use()
    return WgpuCalls(code.compiler, runtime)
