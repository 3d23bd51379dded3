"""Tensors from nothing: constants, ranges, and copies of what the host has."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyrite.backend.device import DeviceLike
from pyrite.backend.device import device as as_device
from pyrite.op import Constant, bind, primitive
from pyrite.tensor.tensor import Tensor
from pyrite.types import (
    DType,
    DTypeLike,
    Number,
    Shape,
    TensorType,
    default_float,
    default_int,
    normalize_shape,
)
from pyrite.types import dtype as as_dtype


@primitive(
    reference=lambda value, *, shape, dtype: np.full(shape, value),
    infer=lambda value, *, shape, dtype: TensorType(shape, dtype),
    vjp=(None,),
    accepts="any",
)
def _full(value: Any, /, *, shape: Shape, dtype: DType) -> Tensor:
    """One value everywhere."""
    ...


def full(
    shape: int | tuple[int, ...],
    value: Number,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Return a tensor of the given shape with one value everywhere.

    >>> full((2,), 7).numpy().tolist()
    [7, 7]
    """
    sizes = normalize_shape("full", shape)
    found = as_dtype(type(value) if dtype is None else dtype)
    fill = Constant(value, TensorType((), found))
    return create(_full, (fill,), device, shape=sizes, dtype=found)


def tensor(data: Any, *, dtype: DTypeLike | None = None, device: DeviceLike = None) -> Tensor:
    """Return a tensor with a copy of the data: numbers, nested sequences, or an array.

    Arrays keep their dtype; Python ints become int32 and floats float32 unless dtype says otherwise.

    >>> tensor([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    array = np.asarray(data)
    if dtype is None and not isinstance(data, np.ndarray | np.generic | Tensor):
        dtype = {"i": default_int, "f": default_float}.get(array.dtype.kind)
    found = as_dtype(array.dtype if dtype is None else dtype)
    backend = as_device(device).backend
    handle = backend.upload(array.astype(found.numpy, copy=False))
    return Tensor(handle, TensorType(array.shape, found), backend)


def create(method: Any, inputs: tuple[Any, ...], where: DeviceLike, **attrs: Any) -> Tensor:
    """Execute an op that has no tensor among its inputs on a device."""
    result: Tensor = bind(method.op, inputs, attrs, on=(Tensor, as_device(where).backend))
    return result
