"""Backends: those that compute, and the decorators that delay or record."""

from pyrite.backend.device import Device as Device
from pyrite.backend.device import DeviceLike as DeviceLike
from pyrite.backend.device import default_device as default_device
from pyrite.backend.device import device as device
from pyrite.backend.device import device_names as device_names
from pyrite.backend.device import set_default_device as set_default_device
from pyrite.backend.protocol import Backend as Backend
from pyrite.backend.protocol import implements as implements

__all__ = [
    "Backend",
    "Device",
    "DeviceLike",
    "default_device",
    "device",
    "device_names",
    "implements",
    "set_default_device",
]
