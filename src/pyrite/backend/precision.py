"""How exactly float32 matrix products and convolutions are made, where the device has a choice."""

from __future__ import annotations

from typing import Literal, get_args

from pyrite.errors import ArgumentError

#: All 24 bits; TF32's 11 bits, summed in float32; or bfloat16's 8.
Precision = Literal["highest", "high", "medium"]

_level: Precision = "highest"


class PrecisionWarning(UserWarning):
    """A switch of the application's makes a device's products coarser than was asked for."""


def matmul_precision(level: Precision | None = None) -> Precision:
    """Set how exactly float32 products are made on devices with tensor cores; return the level.

    "highest" (the default) keeps float32's 24 bits; "high" allows factors of TF32's 11 bits, and
    "medium" of bfloat16's 8, which is several times as fast.  Sums are in float32.  The setting is
    Pyrite's, for the whole process; PyTorch's own is only read.  So on torch devices it allows:
    that products become coarser, torch.set_float32_matmul_precision must say too, and where that
    alone does, a PrecisionWarning tells once.

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
    return level
