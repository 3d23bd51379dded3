"""Fallbacks: ops that a device could not run itself and the NumPy reference ran for it.

Nothing is silently run elsewhere.  A fallback is counted here under its op and device, warned of
once, waits for the device as any read does, and is an error with ``pyrite.config.strict``.
"""

from __future__ import annotations

import threading
import warnings
from collections import Counter

from pyrite.config import config
from pyrite.errors import DeviceError
from pyrite.op import user_frame
from pyrite.synchronization import note_sync

_lock = threading.Lock()
_counts: Counter[tuple[str, str]] = Counter()


class FallbackWarning(UserWarning):
    """An op ran in NumPy because its device has no implementation of it."""


def fallbacks() -> dict[tuple[str, str], int]:
    """Return how often each (device, op) has fallen back to NumPy in this process.

    >>> import pyrite
    >>> before = pyrite.fallbacks()
    >>> x = pyrite.ones((2,)) + 1
    >>> pyrite.fallbacks() == before
    True
    """
    with _lock:
        return dict(_counts)


def note_fallback(device: str, op: str) -> None:
    """Count one fallback of an op and warn of the first.

    Raises DeviceError with ``pyrite.config.strict``, and SyncError inside ``no_sync()``.
    """
    if config.strict:
        raise DeviceError(
            f"{op} requires an implementation on {device} with pyrite.config.strict, got none; "
            "declare it with a scalar rule or as a composite, or allow the fallback to NumPy"
        )
    note_sync(op, f"NumPy computes it for {device}: call it after the block, or on another device")
    with _lock:
        _counts[device, op] += 1
        is_first = _counts[device, op] == 1
    if is_first:
        warn_user(
            f"{op} has no implementation on {device} and runs in NumPy, with a copy there and "
            "back; pyrite.fallbacks() counts how often",
            FallbackWarning,
        )


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the user's line, however deep the op was called."""
    frame = user_frame()
    warnings.warn_explicit(
        message,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        frame.f_globals.get("__name__", ""),
        frame.f_globals.setdefault("__warningregistry__", {}),
    )
