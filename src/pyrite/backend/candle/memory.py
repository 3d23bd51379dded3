"""What the result of an op may take: Candle ends the process where memory does not suffice."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache

from pyrite.errors import DeviceError
from pyrite.types import TensorType

#: Where the system does not say how much memory it has, in bytes: what a process can address.
_ADDRESSABLE = 1 << 47

#: The bytes of an element as Candle may carry it, whatever its dtype.
_WIDEST = 8


@cache
def physical_memory() -> int:
    """Return how much memory this computer has, in bytes."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return _ADDRESSABLE


def require_memory(op: str, types: Iterable[TensorType]) -> None:
    """Raise DeviceError for a result that is larger than the memory of this computer."""
    for type in types:
        if type.size * _WIDEST > physical_memory():
            raise DeviceError(f"{op} requires memory that there is on candle, got {type}; split it")
