"""Questions about dtypes and shapes, as the array API standard asks them.

Source: array API standard 2024.12, data type functions, data-apis.org/array-api/2024.12.
"""

from __future__ import annotations

from functools import reduce
from typing import Any, NamedTuple

import ml_dtypes

from pyrite.errors import ArgumentError, DTypeError
from pyrite.op import public
from pyrite.tensor.tensor import Tensor
from pyrite.types import (
    DType,
    DTypeLike,
    Number,
    bool_,
    broadcast,
    promote,
    promote_scalar,
)
from pyrite.types import dtype as as_dtype

_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int",),
    "unsigned integer": ("uint",),
    "integral": ("int", "uint"),
    "real floating": ("float",),
    "complex floating": (),
    "numeric": ("int", "uint", "float"),
}


class FloatInfo(NamedTuple):
    """The limits of a float dtype."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class IntegerInfo(NamedTuple):
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


@public
def finfo(of: DTypeLike | Tensor) -> FloatInfo:
    """Return the limits of a float dtype.  Raises DTypeError for any other.

    >>> finfo("bfloat16").eps
    0.0078125
    """
    kind = _dtype(of)
    if not kind.is_float:
        raise DTypeError(f"finfo requires a float dtype, got {kind.name}; use iinfo")
    found: Any = ml_dtypes.finfo(kind.numpy)  # type: ignore[no-untyped-call]
    return FloatInfo(
        bits=kind.bits,
        eps=float(found.eps),
        max=float(found.max),
        min=float(found.min),
        smallest_normal=float(found.smallest_normal),
        dtype=kind,
    )


@public
def iinfo(of: DTypeLike | Tensor) -> IntegerInfo:
    """Return the limits of an integer dtype.  Raises DTypeError for any other.

    >>> iinfo("int8").max
    127
    """
    kind = _dtype(of)
    if not kind.is_integer:
        raise DTypeError(f"iinfo requires an integer dtype, got {kind.name}; use finfo")
    return IntegerInfo(kind.bits, int(kind.highest), int(kind.lowest), kind)


@public
def isdtype(dtype: DTypeLike, kind: DTypeLike | tuple[Any, ...]) -> bool:
    """Return whether a dtype is of a kind: a dtype, a name such as ``"integral"``, or several.

    >>> isdtype("int8", "integral"), isdtype("int8", ("bool", "float32"))
    (True, False)
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    found = as_dtype(dtype)
    if isinstance(kind, str) and kind in _KINDS:
        return found.kind in _KINDS[kind]
    return found is as_dtype(kind)


@public
def can_cast(of: DTypeLike | Tensor, to: DTypeLike) -> bool:
    """Return whether promotion may lead from one dtype to another.

    >>> can_cast("int8", "int32"), can_cast("float32", "int32")
    (True, False)
    """
    start, end = _dtype(of), as_dtype(to)
    try:
        return promote("can_cast", start, end) is end
    except DTypeError:
        return False


@public
def result_type(*operands: DTypeLike | Tensor | Number) -> DType:
    """Return the dtype in which tensors, dtypes and Python numbers meet.

    >>> result_type("int8", "float16"), result_type("float16", 2.0)
    (pyrite.float16, pyrite.float16)
    """
    numbers = [o for o in operands if isinstance(o, bool | int | float)]
    dtypes = [_dtype(o) for o in operands if not isinstance(o, bool | int | float)]
    if not dtypes:
        raise ArgumentError("result_type requires a tensor or dtype, got only numbers")
    found = reduce(lambda x, y: promote("result_type", x, y), dtypes, bool_)
    return reduce(lambda x, n: promote_scalar("result_type", x, n), numbers, found)


@public
def broadcast_arrays(*tensors: Tensor) -> list[Tensor]:
    """Return the tensors stretched to their common shape."""
    shape = broadcast("broadcast_arrays", *(t.shape for t in tensors))
    return [t.broadcast_to(shape) for t in tensors]


def _dtype(of: DTypeLike | Tensor) -> DType:
    return of.dtype if isinstance(of, Tensor) else as_dtype(of)
