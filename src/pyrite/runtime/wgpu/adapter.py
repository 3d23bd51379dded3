"""Which GPU: adapters by number, what is asked of them, and the device that comes of it.

``wgpu`` and ``wgpu:0`` are the first adapter of the list: hardware before software, each by its
best driver (Metal, Vulkan, Direct3D 12; OpenGL only where there is nothing else), since one GPU may
be seen through several.  A software adapter (lavapipe, WARP) is marked: it is right, and slow.

Every limit and feature that Pyrite can use is asked for; ``limits="default"`` asks for WebGPU's
default limits and no feature, which is what a browser grants, and what tests do; a dictionary
changes some of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import wgpu

from pyrite.errors import DeviceError
from pyrite.kernel.machine import MOST_JOINED, Machine
from pyrite.runtime.wgpu.native import Pointer, opening
from pyrite.types import DType, float16, float64, int64, uint64

#: What kernels use where an adapter has it.  Subgroup operations, half floats, 64-bit numbers,
#: sums of floats at once, arguments without a buffer, and times of a pass.
FEATURES = (
    "immediates", "shader-f16", "shader-f64", "shader-float32-atomic", "shader-int64", "subgroup",
    "timestamp-query",
)  # fmt: skip

#: The dtypes of 16 and 64 bits, and what a device must have to compute with them.
DTYPE_FEATURES = {
    float16: "shader-f16", float64: "shader-f64", int64: "shader-int64", uint64: "shader-int64",
}  # fmt: skip

#: What every WebGPU device grants: https://www.w3.org/TR/webgpu/#limits.
DEFAULT_LIMITS = {
    "max-bind-groups": 4,
    "max-bindings-per-bind-group": 1000,
    "max-buffer-size": 268_435_456,
    "max-compute-invocations-per-workgroup": 256,
    "max-compute-workgroup-size-x": 256,
    "max-compute-workgroup-size-y": 256,
    "max-compute-workgroup-size-z": 64,
    "max-compute-workgroup-storage-size": 16_384,
    "max-compute-workgroups-per-dimension": 65_535,
    "max-dynamic-storage-buffers-per-pipeline-layout": 4,
    "max-dynamic-uniform-buffers-per-pipeline-layout": 8,
    "max-immediate-size": 0,
    "max-storage-buffer-binding-size": 134_217_728,
    "max-storage-buffers-per-shader-stage": 8,
    "max-uniform-buffer-binding-size": 65_536,
    "max-uniform-buffers-per-shader-stage": 12,
    "min-storage-buffer-offset-alignment": 256,
    "min-uniform-buffer-offset-alignment": 256,
}

#: Buffers of a kernel, where a device binds any number of them.
MOST_BUFFERS = 32

#: Rounds after which Mesa's llvmpipe ends the loops of an invocation (LP_MAX_TGSI_LOOP_ITERATIONS).
LLVMPIPE_ROUNDS = 65_535

_DRIVERS = ("Metal", "Vulkan", "D3D12", "D3D11", "OpenGL", "OpenGLES")
_KINDS = ("DiscreteGPU", "IntegratedGPU", "Unknown", "CPU")

#: All that the adapter has, WebGPU's defaults, or the defaults with some limits changed.
Limits = Literal["adapter", "default"] | Mapping[str, int]


@dataclass(frozen=True)
class Adapter:
    """One way to one GPU: what `pyrite doctor` shows."""

    gpu: Any = field(repr=False)
    name: str
    driver: str
    is_software: bool

    @property
    def features(self) -> frozenset[str]:
        """The features that Pyrite can use and this adapter has."""
        return frozenset(FEATURES) & frozenset(self.gpu.features)


@dataclass(frozen=True, eq=False)
class Device:
    """A device, Pyrite's own or an application's, and what it grants."""

    gpu: Any = field(repr=False)
    name: str
    is_software: bool
    limits: dict[str, int] = field(repr=False)
    features: frozenset[str]
    is_external: bool = False

    @property
    def raw(self) -> Pointer:
        """The C pointer."""
        return self.gpu._internal

    @property
    def queue(self) -> Pointer:
        """The C pointer of its one queue."""
        return self.gpu.queue._internal

    @property
    def max_binding(self) -> int:
        """The most bytes of a buffer that a kernel can see through one binding."""
        largest = min(
            self.limits["max-storage-buffer-binding-size"], self.limits["max-buffer-size"]
        )
        return largest & -256

    @property
    def lacking(self) -> dict[DType, str]:
        """The dtypes that it has no tensors of, with what to do; 16-bit floats are widened."""
        return {
            dtype: f"request its feature {feature!r}: see pyrite.wgpu.required_features"
            if self.is_external
            else f"this GPU has no feature {feature!r}"
            for dtype, feature in DTYPE_FEATURES.items()
            if dtype.itemsize > 4 and feature not in self.features
        }

    @property
    def machine(self) -> Machine:
        """What the choice of a kernel needs to know of it."""
        return Machine.gpu(
            self.limits["max-compute-workgroup-storage-size"],
            self.limits["max-compute-invocations-per-workgroup"],
            most_workgroups=self.limits["max-compute-workgroups-per-dimension"],
            buffers=min(self.limits["max-storage-buffers-per-shader-stage"], MOST_BUFFERS),
            rounds=LLVMPIPE_ROUNDS if "llvmpipe" in self.name else None,
            argument_bytes=self.limits["max-immediate-size"] if self.has_immediates else 1 << 12,
            # A software GPU runs the branches that a workgroup does not take.  On an H200 a launch
            # of a compiled step takes the host 9 to 17 µs, and the device 6 at least.
            most_joined=1 if self.is_software else MOST_JOINED,
            adds_floats="shader-float32-atomic" in self.features,
            bound_bytes=self.max_binding,
        )

    @property
    def has_immediates(self) -> bool:
        """Whether arguments can travel with the launch rather than in a buffer."""
        return "immediates" in self.features and self.limits["max-immediate-size"] >= 64

    @property
    def is_destroyed(self) -> bool:
        """Whether somebody called ``destroy()`` on it; then a submit would abort the process."""
        return self.gpu._internal is None or self.gpu._poller is None


@cache
def adapters() -> tuple[Adapter, ...]:
    """Return the adapters of this machine, best first, one for each GPU."""
    found = sorted((_adapter(gpu) for gpu in wgpu.gpu.enumerate_adapters_sync()), key=_rank)
    # Under OpenGL the same GPU has another name, so that it would not be known as the same.
    found = [a for a in found if not a.driver.startswith("OpenGL")] or found
    best: dict[tuple[str, int], Adapter] = {}
    seen: dict[tuple[str, str], int] = {}
    for adapter in found:
        # Two equal cards are two adapters of one driver; one card under two drivers is one.
        twin = seen[adapter.name, adapter.driver] = seen.get((adapter.name, adapter.driver), 0) + 1
        best.setdefault((adapter.name, twin), adapter)
    return tuple(best.values())


def choose(index: int, among: Sequence[Adapter]) -> Adapter:
    """Return the adapter of that number.  Raises DeviceError when there is none."""
    if not among:
        raise DeviceError(
            "wgpu requires a WebGPU adapter, none was found; use device 'cpu', or install a driver "
            "(on Linux without a GPU: mesa-vulkan-drivers)"
        )
    if not 0 <= index < len(among):
        names = ", ".join(f"wgpu:{i} ({a.name})" for i, a in enumerate(among))
        raise DeviceError(f"wgpu:{index} requires that many adapters, got {len(among)}: {names}")
    return among[index]


def open_device(index: int = 0, *, limits: Limits = "adapter") -> Device:
    """Return a new device of the adapter of that number.

    Raises DeviceError when there is no such adapter, or its driver refuses.
    """
    adapter = choose(index, adapters())
    changed = {} if isinstance(limits, str) else limits
    required = {} if limits == "adapter" else {**DEFAULT_LIMITS, **changed}
    features = adapter.features if limits == "adapter" else frozenset[str]()
    try:
        with opening:
            gpu = adapter.gpu.request_device_sync(
                label="pyrite", required_features=sorted(features), required_limits=required
            )
    except (RuntimeError, wgpu.GPUError) as error:
        raise DeviceError(
            f"wgpu:{index} requires a device of {adapter.name}, got: {error}"
        ) from None
    return Device(gpu, adapter.name, adapter.is_software, dict(gpu.limits), features)


def init_device(gpu: Any) -> Device:
    """Return an application's own ``wgpu.GPUDevice`` as a device of Pyrite, which never closes it.

    Raises DeviceError if it is something else, or destroyed.
    """
    if not isinstance(gpu, wgpu.GPUDevice):
        raise DeviceError(f"init_device requires a wgpu.GPUDevice, got {type(gpu).__name__}")
    adapter = _adapter(gpu.adapter)
    features = frozenset(FEATURES) & frozenset(gpu.features)
    device = Device(
        gpu, adapter.name, adapter.is_software, dict(gpu.limits), features, is_external=True
    )
    if device.is_destroyed:
        raise DeviceError("init_device requires a device that lives, got a destroyed one")
    return device


def _adapter(gpu: Any) -> Adapter:
    info = gpu.info
    return Adapter(gpu, info["device"], info["backend_type"], info["adapter_type"] == "CPU")


def _rank(adapter: Adapter) -> tuple[int, int]:
    kind, driver = adapter.gpu.info["adapter_type"], adapter.driver
    return (
        _KINDS.index(kind) if kind in _KINDS else len(_KINDS),
        _DRIVERS.index(driver) if driver in _DRIVERS else len(_DRIVERS),
    )
