"""Backends: those that compute, and the decorators that delay or record."""

from pyrite.backend.device import Device as Device
from pyrite.backend.device import DeviceLike as DeviceLike
from pyrite.backend.device import default_device as default_device
from pyrite.backend.device import device as device
from pyrite.backend.device import device_names as device_names
from pyrite.backend.device import device_problem as device_problem
from pyrite.backend.device import set_default_device as set_default_device
from pyrite.backend.fallback import FallbackWarning as FallbackWarning
from pyrite.backend.fallback import fallbacks as fallbacks
from pyrite.backend.precision import PrecisionWarning as PrecisionWarning
from pyrite.backend.precision import matmul_precision as matmul_precision
from pyrite.backend.protocol import Backend as Backend
from pyrite.backend.protocol import implements as implements

__all__ = [
    "Backend",
    "Device",
    "DeviceLike",
    "FallbackWarning",
    "PrecisionWarning",
    "default_device",
    "device",
    "device_names",
    "device_problem",
    "fallbacks",
    "implements",
    "matmul_precision",
    "set_default_device",
]
