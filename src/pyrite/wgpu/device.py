"""An application's own ``wgpu.GPUDevice`` as a device of Pyrite."""

from __future__ import annotations

import threading
from typing import Any
from weakref import WeakValueDictionary

import wgpu

from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import Device
from pyrite.errors import DeviceError
from pyrite.op import public
from pyrite.runtime import wgpu as runtime
from pyrite.runtime.wgpu.adapter import FEATURES
from pyrite.runtime.wgpu.guarded import new_runtime


class SharedWgpu(CubeBackend):
    """The backend of tensors on an application's device."""

    def __init__(self, gpu: Any) -> None:
        self.shared = runtime.init_device(gpu)
        # Its methods take its own buffers only, which no Protocol can say.
        made: Any = new_runtime(self.shared, "wgpu:shared")
        super().__init__(made)


#: By the identity of the GPUDevice, which the backend keeps alive.
_backends: WeakValueDictionary[int, SharedWgpu] = WeakValueDictionary()
_lock = threading.Lock()


@public
def init_device(gpu: Any) -> Device:
    """Return the device of tensors that live on an application's ``wgpu.GPUDevice``.

    The same one again for as long as somebody holds it, or a tensor of it.  Pyrite submits its work
    to the queue of that GPUDevice and never destroys it; the features and limits are those that it
    was made with: `required_features` lists what to request.  Raises DeviceError if it is something
    else, or destroyed.
    """
    with _lock:
        backend = _backends.get(id(gpu))
        if backend is None or backend.shared.is_destroyed:
            backend = _backends[id(gpu)] = SharedWgpu(gpu)
    return Device(backend)


@public
def required_features(adapter: Any) -> list[str]:
    """Return the features that Pyrite can use and a ``wgpu.GPUAdapter`` has, of `FEATURES`.

    For ``adapter.request_device_sync(required_features=...)``: without ``shader-int64`` a device
    has no tensors of int64 and uint64, without ``shader-f64`` none of float64; the others make
    kernels faster.  Raises DeviceError for what is no adapter.
    """
    if not isinstance(adapter, wgpu.GPUAdapter):
        raise DeviceError(
            f"required_features requires a wgpu.GPUAdapter, got {type(adapter).__name__}"
        )
    return [feature for feature in FEATURES if feature in adapter.features]


def device_of(gpu: Any) -> Device | None:
    """Return the device that `init_device` made of a GPUDevice, if it is in use."""
    with _lock:
        backend = _backends.get(id(gpu))
    return None if backend is None else Device(backend)
