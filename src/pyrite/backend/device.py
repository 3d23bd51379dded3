"""Devices by name: where tensors live and who computes there.

``"numpy"`` is the reference, everywhere.  The others come with their backends.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from importlib import import_module

from pyrite.backend.protocol import Backend
from pyrite.config import config
from pyrite.errors import DeviceError

#: Class of each backend by device name.  Its module is imported when the name is first used.
BACKENDS: dict[str, str] = {
    "numpy": "pyrite.backend.numpy:NumPy",
}

#: Device names in the order in which the default is sought.
PREFERENCE = ("numpy",)


@dataclass(frozen=True, slots=True, eq=False)
class Device:
    """A backend seen as a place.  Equality ignores the autodiff level: it is the same memory."""

    backend: Backend

    @property
    def name(self) -> str:
        """Its name, as given to ``pyrite.device``."""
        return self.backend.root.name

    @property
    def level(self) -> int:
        """How many times gradients are taken here; 0 on a plain device."""
        return self.backend.level

    def synchronize(self) -> None:
        """Wait until all work submitted to this device is done."""
        self.backend.synchronize()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return self.name == other
        return isinstance(other, Device) and self.backend.root is other.backend.root

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Device({self.name!r})" if not self.level else f"Device({self.name!r}, +grad)"

    def __str__(self) -> str:
        return self.name


DeviceLike = Device | Backend | str | None

_lock = threading.Lock()
_opened: dict[str, Backend] = {}
_default: Device | None = None


def device(of: DeviceLike = None) -> Device:
    """Return the device that is meant: a name, a backend, a Device, or None for the default.

    Raises DeviceError for an unknown name, or when the device does not work here.

    >>> device("numpy")
    Device('numpy')
    """
    if isinstance(of, Device):
        return of
    if of is None:
        return default_device()
    return Device(of if isinstance(of, Backend) else _open(of))


def default_device() -> Device:
    """Return the default device: as set, else as PYRITE_DEVICE says, else the best that works."""
    if _default is not None:
        return _default
    return device(config.device or PREFERENCE[0])


def set_default_device(of: DeviceLike) -> None:
    """Make a device the default of this process; None goes back to the automatic choice."""
    global _default
    _default = None if of is None else device(of)


def device_names() -> list[str]:
    """Return the names of all devices that Pyrite knows, whether or not they work here."""
    return list(BACKENDS)


def _open(name: str) -> Backend:
    if not isinstance(name, str) or name not in BACKENDS:
        known = ", ".join(BACKENDS)
        raise DeviceError(f"device requires one of {known}, got {name!r}; try 'pyrite devices'")
    with _lock:
        if name not in _opened:
            module, _, cls = BACKENDS[name].partition(":")
            _opened[name] = getattr(import_module(module), cls)()
        return _opened[name]
