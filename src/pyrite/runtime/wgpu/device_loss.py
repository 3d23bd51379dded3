"""Whether a runtime's device still works, and why not: asked before each use of it.

It ends when it is closed, destroyed or lost, and in a fork of its process.  Every later call is a
DeviceError that says which; nothing brings it back.

To submit to a lost device, or to look at memory of it that was mapped, aborts the process, and the
loss shows only in an attempt to use it: `Life.probe` makes one that does no harm.
"""

from __future__ import annotations

from threading import RLock

from pyrite.errors import DeviceError
from pyrite.runtime.wgpu.adapter import Device
from pyrite.runtime.wgpu.native import NativeError, captured, ffi, lib


class Life:
    """The life of a runtime called ``name``, and the lock under which its parts do their work."""

    __slots__ = ("__weakref__", "device", "failure", "lock", "name")

    def __init__(self, device: Device, name: str) -> None:
        self.device = device
        self.name = name
        self.lock = RLock()
        #: Why the device works no more.
        self.failure: str | None = None

    def check(self) -> None:
        """Raise DeviceError if it is known not to work."""
        if self.failure is None:
            if not self.device.is_destroyed:
                return
            self.fail("it was destroyed")
        if self.failure is not None:
            raise DeviceError(f"{self.name} requires a device that works, got: {self.failure}")

    def probe(self) -> None:
        """Raise DeviceError if it does not work, which the device itself is asked."""
        self.check()
        try:
            _use(self.device)
        except NativeError as error:
            self.check_loss(error)

    def check_loss(self, error: NativeError) -> None:
        """Raise DeviceError if the error says that the device is lost, or it works no more."""
        if error.is_loss:
            self.fail(f"it was lost ({str(error).splitlines()[-1].strip()})")
        self.check()

    def fail(self, reason: str) -> None:
        """Note that it works no more, and why, if that is news."""
        if self.failure is None:
            self.failure = reason


def _use(device: Device) -> None:
    """Raise NativeError if the device is lost.

    It is asked for the cheapest object whose making checks that.  A command encoder would do too,
    but one that is never submitted costs 93 KiB that lavapipe does not give back.
    """
    with captured():
        layout = lib.wgpuDeviceCreateBindGroupLayout(device.raw, _NO_ENTRIES)
    lib.wgpuBindGroupLayoutRelease(layout)


_NO_ENTRIES = ffi.new("WGPUBindGroupLayoutDescriptor *")
