"""Tensors from nothing: constants, ranges, and copies of what the host has.

``device`` is where the result lives, None for the default device.  Python ints become int32 and
floats float32 unless ``dtype`` says otherwise; arrays keep their dtype.  A shape is an int
or a tuple.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar

import numpy as np

from pyrite.backend.device import Device, DeviceLike
from pyrite.backend.device import device as as_device
from pyrite.backend.numpy.algebra import NumPyAlgebra
from pyrite.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    GradientError,
    ShapeError,
)
from pyrite.op import Constant, bind, primitive, public, sample
from pyrite.tensor.tensor import Tensor
from pyrite.types import (
    Array,
    DType,
    DTypeLike,
    Number,
    Shape,
    TensorType,
    array_type,
    bool_,
    default_float,
    default_int,
    float32,
    normalize_shape,
)
from pyrite.types import dtype as as_dtype

ShapeLike = int | tuple[int, ...]

P = ParamSpec("P")
R = TypeVar("R")


def _of_shape(function: Callable[P, R]) -> Callable[P, R]:
    """Give a function of a shape the error of sizes one by one: PyTorch takes zeros(2, 3)."""
    name, kinds = function.__name__, [p.kind for p in signature(function).parameters.values()]
    most = sum(kind is Parameter.POSITIONAL_OR_KEYWORD for kind in kinds)

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        count = len(args) - most + 1
        sizes, others = args[:count], args[count:]
        if count > 1 and all(isinstance(size, int) for size in sizes):
            call = ", ".join([str(sizes), *map(repr, others)])
            raise ShapeError(
                f"{name} requires a shape in one argument, got {count} sizes; write {name}({call})"
            )
        return function(*args, **kwargs)

    return public(checked)


@primitive(
    scalar=lambda k, value, *, dtype, **_: k.cast(value, dtype.compute),
    reference=lambda value, *, shape, dtype: np.full(shape, value),
    infer=lambda value, *, shape, dtype: TensorType(shape, dtype),
    vjp=(None,),
    accepts="any",
    promotes=(),
    samples=(
        sample(1.5, shape=(2, 3), dtype=float32),
        sample(7, shape=(), dtype=default_int),
        sample(True, shape=(0, 2), dtype=bool_),
    ),
)
def _full(value: Any, /, *, shape: Shape, dtype: DType) -> Tensor:
    """Returns a tensor that has one value everywhere."""
    ...


@primitive(
    scalar=lambda k, start, step, *, index, dtype, **_: start + k.cast(index, dtype.compute) * step,
    reference=lambda start, step, *, size, dtype: (
        start + np.arange(size).astype(start.dtype) * step
    ),
    infer=lambda start, step, *, size, dtype: TensorType((size,), dtype),
    vjp=(None, None),
    promotes="all",
    samples=(
        sample(2, 3, size=4, dtype=default_int),
        sample(0.5, -0.25, size=5, dtype=float32),
        sample(0, 1, size=0, dtype=default_int),
    ),
)
def _arange(start: Any, step: Any, /, *, size: int, dtype: DType) -> Tensor:
    """start + i * step for 0 <= i < size, computed in the dtype of start."""
    ...


def create(method: Any, inputs: tuple[Any, ...], where: DeviceLike, **attrs: Any) -> Tensor:
    """Execute an op that has no tensor among its inputs on a device."""
    result: Tensor = bind(method.op, inputs, attrs, on=(Tensor, as_device(where).backend))
    return result


def _constant(value: Number, dtype: DType) -> Constant:
    return Constant(value, TensorType((), dtype))


# ---- from the host ----


@public
def tensor(data: Any, *, dtype: DTypeLike | None = None, device: DeviceLike = None) -> Tensor:
    """Return a tensor with a copy of the data: a number, nested sequences, an array or a tensor.

    Arrays, NumPy scalars and tensors keep their dtype.  A later change of the array does not show.
    With ``dtype`` floats are converted as by `astype`, whatever the host.  Raises ShapeError for
    ragged sequences, and DTypeError for what is no number, and for integers that do not fit.

    >>> tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]], shape=(2, 2), dtype=int32, device='numpy')
    """
    if isinstance(data, Tensor):
        moved = data if device is None else data.to(device)
        return moved if dtype is None else moved.astype(dtype)
    array = _host_array(data)
    found = _host_dtype(data, array) if dtype is None else as_dtype(dtype)
    if not hasattr(data, "__array__") and found.is_integer:
        _require_held(array, found)
    backend = as_device(device).backend
    return Tensor(backend.upload(_converted(array, found)), array_type(array.shape, found), backend)


def _converted(array: Array, dtype: DType) -> Array:
    """Return the array in a dtype, without NumPy's warnings: inf is what does not fit a float."""
    if array.dtype == dtype.numpy:
        return array
    # NumPy knows no kind of bfloat16.
    known = array.astype(np.float32) if array.dtype.kind == "V" else array
    with np.errstate(over="ignore", invalid="ignore"):
        return NumPyAlgebra().cast(known, dtype)


def _host_array(data: Any) -> Array:
    is_sequence = isinstance(data, list | tuple)
    if is_sequence:
        _refuse_tracked(data)
    try:
        array = np.asarray(data)
    except ValueError:
        raise ShapeError(
            "tensor requires nested sequences of equal lengths, got ragged ones; pad them"
        ) from None
    except (RuntimeError, TypeError) as error:
        # PyTorch gives NumPy no bfloat16, nothing that requires grad, and nothing of a GPU.
        raise DTypeError(
            f"tensor requires an array that NumPy can read, got {type(data).__name__}: {error}; "
            "a torch.Tensor is read by pyrite.from_torch"
        ) from None
    if is_sequence and array.dtype.kind == "f" and type(_first(data)) is int:
        # NumPy makes floats of integers below and above 2 ** 63.
        whole = np.asarray(data, dtype=object)
        if all(type(n) is int for n in whole.flat):
            return whole
    if array.dtype.kind in "OUSMmV" and array.dtype != np.dtype("bfloat16"):
        raise DTypeError(f"tensor requires numbers, got {type(data).__name__} {data!r:.40}")
    return array


def _refuse_tracked(data: Sequence[Any]) -> None:
    for item in data:
        if isinstance(item, Tensor) and item.is_tracked:
            raise GradientError(
                "tensor requires values, got tensors through which gradients flow, which a copy "
                "would cut; use pyrite.stack"
            )


def _first(data: Any) -> Any:
    """Return the first number of nested sequences."""
    while type(data) in (list, tuple) and data:
        data = data[0]
    return data


def _host_dtype(data: Any, array: Array) -> DType:
    """Return the dtype that data has of itself: the defaults for Python's numbers."""
    if hasattr(data, "__array__"):
        return as_dtype(array.dtype)
    if array.size == 0:
        return default_float
    return {"i": default_int, "u": default_int, "O": default_int, "f": default_float}.get(
        array.dtype.kind
    ) or as_dtype(array.dtype)


def _require_held(array: Array, dtype: DType) -> None:
    if array.dtype.kind in "iuO" and array.size:
        for extreme in (int(array.min()), int(array.max())):
            if not int(dtype.lowest) <= extreme <= int(dtype.highest):
                raise DTypeError(
                    f"tensor requires integers between {dtype.lowest} and {dtype.highest} for "
                    f"{dtype.name}, got {extreme}; give dtype=pyrite.int64"
                )


@public
def asarray(
    obj: Any,
    /,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    copy: bool | None = None,
) -> Tensor:
    """Return obj as a tensor: itself if it is one of that dtype and device, else a copy.

    ``copy=True`` and None mean the same for tensors, whose values never change.  Raises
    ArgumentError when ``copy=False`` cannot be had; `from_dlpack` shares memory.
    """
    if copy is False and not isinstance(obj, Tensor):
        raise ArgumentError(
            f"asarray requires copy=None or copy=True for {type(obj).__name__}, got copy=False; "
            "use from_dlpack(x, copy=False) to share its memory"
        )
    return tensor(obj, dtype=dtype, device=device)


# ---- one value ----


@_of_shape
def full(
    shape: ShapeLike,
    fill_value: Number,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Return a tensor of the given shape with one value everywhere.

    >>> full((2,), 7).numpy().tolist()
    [7, 7]
    """
    if isinstance(fill_value, Tensor) and fill_value.size != 1:
        raise ShapeError(
            f"full requires one number, got a tensor of shape {fill_value.shape}; use broadcast_to"
        )
    if isinstance(fill_value, list | tuple):
        raise ArgumentTypeError(f"full requires one number, got {fill_value!r}; use tensor")
    found = _dtype_of_number(fill_value) if dtype is None else as_dtype(dtype)
    if found.is_integer and not int(found.lowest) <= fill_value <= int(found.highest):
        raise DTypeError(
            f"full requires a value that {found.name} holds, got {fill_value}; give another dtype"
        )
    sizes = normalize_shape("full", shape)
    return create(_full, (_constant(fill_value, found),), device, shape=sizes, dtype=found)


def _dtype_of_number(value: Number) -> DType:
    whole = default_int if isinstance(value, int) else default_float
    return bool_ if isinstance(value, bool) else whole


@_of_shape
def zeros(shape: ShapeLike, *, dtype: DTypeLike | None = None, device: DeviceLike = None) -> Tensor:
    """Return zeros."""
    return full(shape, 0, dtype=float_or_default(dtype), device=device)


@_of_shape
def ones(shape: ShapeLike, *, dtype: DTypeLike | None = None, device: DeviceLike = None) -> Tensor:
    """Return ones."""
    return full(shape, 1, dtype=float_or_default(dtype), device=device)


@_of_shape
def empty(shape: ShapeLike, *, dtype: DTypeLike | None = None, device: DeviceLike = None) -> Tensor:
    """Return zeros: a tensor never changes, so memory left as it was found would be of no use."""
    return full(shape, 0, dtype=float_or_default(dtype), device=device)


def float_or_default(dtype: DTypeLike | None) -> DType:
    return default_float if dtype is None else as_dtype(dtype)


@public
def full_like(
    x: Tensor, fill_value: Number, *, dtype: DTypeLike | None = None, device: DeviceLike = None
) -> Tensor:
    """Return one value everywhere, in the shape, dtype and device of x."""
    where = Device(x._backend) if device is None else device
    return full(x.shape, fill_value, dtype=x.dtype if dtype is None else dtype, device=where)


@public
def zeros_like(x: Tensor, *, dtype: DTypeLike | None = None, device: DeviceLike = None) -> Tensor:
    """Return zeros in the shape, dtype and device of x."""
    return full_like(x, 0, dtype=dtype, device=device)


@public
def ones_like(x: Tensor, *, dtype: DTypeLike | None = None, device: DeviceLike = None) -> Tensor:
    """Return ones in the shape, dtype and device of x."""
    return full_like(x, 1, dtype=dtype, device=device)


@public
def empty_like(x: Tensor, *, dtype: DTypeLike | None = None, device: DeviceLike = None) -> Tensor:
    """Return zeros in the shape, dtype and device of x, as `empty` does."""
    return full_like(x, 0, dtype=dtype, device=device)


# ---- ranges ----


@public
def arange(
    start: Number,
    stop: Number | None = None,
    step: Number = 1,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Return start, start + step, ... up to but without stop; ``arange(n)`` is 0 to n - 1.

    Element i is ``start + i * step`` in the dtype of the result.  Raises ArgumentError for step 0.

    >>> arange(2, 8, 3).numpy().tolist()
    [2, 5]
    """
    first, last = (0, start) if stop is None else (start, stop)
    if step == 0:
        raise ArgumentError("arange requires step != 0, got 0")
    _require_finite("arange", first, last, step)
    whole = all(isinstance(n, int) for n in (first, last, step))
    found = (default_int if whole else default_float) if dtype is None else as_dtype(dtype)
    size = max(0, -((first - last) // step) if whole else math.ceil((last - first) / step))
    if size >= 2**62:
        raise ArgumentError(f"arange requires fewer than 2 ** 62 numbers, got {size}; split it")
    inputs = (_constant(first, found), _constant(step, found))
    return create(_arange, inputs, device, size=int(size), dtype=found)


def _require_finite(op: str, *numbers: Number) -> None:
    if not all(math.isfinite(number) for number in numbers):
        given = ", ".join(map(str, numbers))
        raise ArgumentError(f"{op} requires finite numbers, got {given}")


@public
def linspace(
    start: Number,
    stop: Number,
    num: int,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    endpoint: bool = True,
) -> Tensor:
    """Return num evenly spaced numbers from start to stop, or up to but without it.

    The first half counts up from start and the second down from stop, so that both are met exactly.
    Without its endpoint it is the beginning of the one of num + 1 with it.

    >>> linspace(0, 1, 5).numpy().tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    found = float_or_default(dtype)
    _require_finite("linspace", start, stop)
    if num < 0 or not found.is_float:
        raise ArgumentError(
            f"linspace requires num >= 0 and a float dtype, got {num} and {found.name}"
        )
    gaps = max(1, operator.index(num) - 1 if endpoint else num)
    step = (stop - start) / gaps
    index = arange(num, dtype=found.compute, device=device)
    up = index * step + start
    if num > 1:
        down = (index - gaps) * step + stop
        up = (index < (gaps + 1) / 2)._where(up, down)
    return up.astype(found)


@public
def logspace(
    start: Number,
    stop: Number,
    num: int,
    *,
    base: float = 10.0,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    endpoint: bool = True,
) -> Tensor:
    """Return num numbers from base ** start to base ** stop, whose logarithms `linspace` gives."""
    found = float_or_default(dtype)
    exponents = linspace(start, stop, num, dtype=found.compute, device=device, endpoint=endpoint)
    powers: Tensor = base**exponents
    return powers.astype(found)
