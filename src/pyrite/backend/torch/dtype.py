"""Element types: which of PyTorch's stands for each, and in which one it is computed.

PyTorch stores uint16, uint32 and uint64 but hardly computes with them.  They are stored as what
they are and *carried* for arithmetic in a wider signed dtype, uint64 in the same 64 bits:

- ``"value"``: uint16 in int32, uint32 in int64, uint64 as the bits of an int64.  Right for sums and
  products, which wrap around alike.
- ``"order"``: the same but for uint64, whose highest bit is turned, so that order is kept.
- ``"bits"``: the signed dtype of the same width, a view.  For ops that only move elements.
"""

from __future__ import annotations

import functools
import math
from typing import Literal

import torch

from pyrite.types import (
    DType,
    Number,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

Carrier = Literal["value", "order", "bits"]

TORCH: dict[DType, torch.dtype] = {
    bool_: torch.bool, int8: torch.int8, int16: torch.int16, int32: torch.int32,
    int64: torch.int64, uint8: torch.uint8, uint16: torch.uint16, uint32: torch.uint32,
    uint64: torch.uint64, float16: torch.float16, bfloat16: torch.bfloat16,
    float32: torch.float32, float64: torch.float64,
}  # fmt: skip
PYRITE: dict[torch.dtype, DType] = {t: d for d, t in TORCH.items()}

NARROW = frozenset({torch.float16, torch.bfloat16})
WIDE_UNSIGNED = frozenset({torch.uint16, torch.uint32, torch.uint64})
#: Computed as they are.
PLAIN = frozenset(TORCH.values()) - NARROW - WIDE_UNSIGNED

_VALUE = {torch.uint16: torch.int32, torch.uint32: torch.int64, torch.uint64: torch.int64}
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}

#: The highest bit of an int64, and its least value.
TOP_BIT = -(2**63)


def computing_dtype(dtype: DType) -> torch.dtype:
    """Return PyTorch's dtype in which one is computed: float32 for float16, int64 for uint32."""
    found = TORCH[dtype.compute]
    return _VALUE.get(found, found)


def carried(x: torch.Tensor, carrier: Carrier) -> torch.Tensor:
    """Return a wide unsigned tensor in the dtype that carries it."""
    if carrier == "bits":
        return x.view(_SIGNED[x.dtype])
    if x.dtype is not torch.uint64:
        return x.to(_VALUE[x.dtype])
    return x.view(torch.int64) ^ TOP_BIT if carrier == "order" else x.view(torch.int64)


def uncarried(x: torch.Tensor, dtype: torch.dtype, carrier: Carrier) -> torch.Tensor:
    """Return what was computed in a carrier as the wide unsigned dtype; the opposite of carried."""
    if carrier == "bits":
        return x.view(dtype)
    if dtype is not torch.uint64:
        return x.to(dtype)
    return (x ^ TOP_BIT).view(dtype) if carrier == "order" else x.view(dtype)


def carried_number(value: Number, dtype: DType, carrier: Carrier, narrow: bool) -> torch.Tensor:
    """Return a number as a zero-d tensor in the dtype that carries it, on the host."""
    stored = TORCH[dtype]
    if stored in WIDE_UNSIGNED:
        signed = int(value) - (1 << dtype.bits if int(value) >> (dtype.bits - 1) else 0)
        return carried(torch.tensor(signed, dtype=_SIGNED[stored]).view(stored), carrier)
    return scalar(value, torch.float32 if stored in NARROW and not narrow else stored)


def scalar(value: Number, dtype: torch.dtype) -> torch.Tensor:
    """Return a number as a zero-d tensor on the host, which may meet tensors of any device.

    PyTorch makes one of a Python number at every op; of equal numbers this is made once.
    """
    # To the cache -0.0 would be 0.0.
    is_apart = value == 0 and math.copysign(1.0, value) < 0
    return torch.tensor(value, dtype=dtype) if is_apart else _scalar(value, dtype)


@functools.lru_cache(maxsize=1024)
def _scalar(value: Number, dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor(value, dtype=dtype)
