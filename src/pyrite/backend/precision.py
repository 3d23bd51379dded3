"""How exactly float32 matrix products and convolutions are made, where the device has a choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

from pyrite.errors import ArgumentError

#: All 24 bits; TF32's 11 bits, summed in float32; or bfloat16's 8.
Precision = Literal["highest", "high", "medium"]

_level: Precision = "highest"
_listeners: list[Callable[[Precision], None]] = []


def matmul_precision(level: Precision | None = None) -> Precision:
    """Set how exactly float32 products are made on devices with tensor cores; return the level.

    "highest" (the default) keeps float32's 24 bits; "high" rounds the factors to the 11 bits of
    TF32, and "medium" to the 8 of bfloat16, which is several times as fast.  Sums are in float32.
    The setting is the process's; for torch devices it is also PyTorch's own.

    >>> matmul_precision()
    'highest'
    """
    global _level
    if level is None:
        return _level
    if level not in get_args(Precision):
        known = ", ".join(get_args(Precision))
        raise ArgumentError(f"matmul_precision requires one of {known}, got {level!r}")
    _level = level
    for apply in _listeners:
        apply(level)
    return level


def follow_precision(apply: Callable[[Precision], None]) -> None:
    """Call a backend's function with the level now, and whenever it changes."""
    _listeners.append(apply)
    apply(_level)
