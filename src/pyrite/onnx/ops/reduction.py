"""Reductions, extrema, sorting and sums along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pyrite import types
from pyrite.onnx.converter import Host, converts
from pyrite.onnx.host import integer
from pyrite.onnx.program import Call
from pyrite.tensor import functions
from pyrite.tensor.tensor import Tensor

Reduce = Callable[[Tensor, tuple[int, ...], bool], Tensor]


def _l1(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    return x.abs().sum(axes, dtype=x.dtype, keepdims=keepdims)


def _l2(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    wide = x if x.dtype.is_float else x.astype(types.float64)
    return wide.square().sum(axes, keepdims=keepdims).sqrt().astype(x.dtype)


def _log_sum(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    return x.sum(axes, dtype=x.dtype, keepdims=keepdims).log()


def _log_sum_exp(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    if not axes:
        return x
    if any(not x.shape[a] for a in axes):
        return _empty(x, axes, keepdims, float("-inf"))
    return x.logsumexp(axes, keepdims=keepdims).astype(x.dtype)


def _sum_square(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    return (x * x).sum(axes, dtype=x.dtype, keepdims=keepdims)


def _sum(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    return x.sum(axes, dtype=x.dtype, keepdims=keepdims)


def _prod(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    return x.prod(axes, dtype=x.dtype, keepdims=keepdims)


def _mean(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    if x.dtype.is_float:
        return x.mean(axes, keepdims=keepdims)
    count = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
    total = x.sum(axes, dtype=x.dtype, keepdims=keepdims)
    return (total - total.fmod(count)).floor_divide(count)


def _max(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    if x.dtype.is_bool:
        return x.any(axes, keepdims=keepdims)
    if any(not x.shape[a] for a in axes):
        return _empty(x, axes, keepdims, x.dtype.lowest)
    return x.max(axes, keepdims=keepdims)


def _min(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    if x.dtype.is_bool:
        return x.all(axes, keepdims=keepdims)
    if any(not x.shape[a] for a in axes):
        return _empty(x, axes, keepdims, x.dtype.highest)
    return x.min(axes, keepdims=keepdims)


def _empty(x: Tensor, axes: tuple[int, ...], keepdims: bool, value: float) -> Tensor:
    """Return the extremum of no elements, which is the bound of the dtype."""
    sizes = [1 if a in axes else s for a, s in enumerate(x.shape) if keepdims or a not in axes]
    return functions.full(tuple(sizes), value, dtype=x.dtype, device=x.device)


#: By op: how it reduces, and the opset from which its axes are an input.
_REDUCTIONS: dict[str, tuple[Reduce, int]] = {
    "ReduceL1": (_l1, 18),
    "ReduceL2": (_l2, 18),
    "ReduceLogSum": (_log_sum, 18),
    "ReduceLogSumExp": (_log_sum_exp, 18),
    "ReduceMax": (_max, 18),
    "ReduceMean": (_mean, 18),
    "ReduceMin": (_min, 18),
    "ReduceProd": (_prod, 18),
    "ReduceSum": (_sum, 13),
    "ReduceSumSquare": (_sum_square, 18),
}


def _by_input(function: Reduce) -> Callable[..., Tensor]:
    def convert(
        data: Tensor,
        axes: Host | None = None,
        *,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> Tensor:
        named = () if axes is None else tuple(axes.reshape(-1).tolist())
        if not named and noop_with_empty_axes:
            return function(data, (), True)
        return function(data, _axes(data, named), bool(keepdims))

    return convert


def _by_attribute(function: Reduce) -> Callable[..., Tensor]:
    def convert(data: Tensor, *, axes: Sequence[int] = (), keepdims: int = 1) -> Tensor:
        return function(data, _axes(data, axes), bool(keepdims))

    return convert


def _axes(x: Tensor, named: Sequence[int]) -> tuple[int, ...]:
    """Return axes counted from 0; all where none is named."""
    return tuple(a % x.ndim for a in named) if named else tuple(range(x.ndim))


for _op, (_function, _since) in _REDUCTIONS.items():
    converts(_op, since=1)(_by_attribute(_function))
    converts(_op, since=_since)(_by_input(_function))


def _arg(call: Call, x: Tensor, axis: int, keepdims: int, last: int, *, greatest: bool) -> Tensor:
    if last:
        x = x.flip(axis)
    found = (x.argmax if greatest else x.argmin)(axis, keepdims=bool(keepdims))
    found = found.astype(call.dtype(types.int64))
    return (x.shape[axis] - 1) - found if last else found


@converts("ArgMax")
def argmax(
    call: Call, data: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
) -> Tensor:
    """Return the index of the greatest value along an axis."""
    return _arg(call, data, axis, keepdims, select_last_index, greatest=True)


@converts("ArgMin")
def argmin(
    call: Call, data: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
) -> Tensor:
    """Return the index of the least value along an axis."""
    return _arg(call, data, axis, keepdims, select_last_index, greatest=False)


@converts("Hardmax", since=13)
def hardmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """Return 1 at the first greatest value along an axis, else 0."""
    places = x.argmax(axis, keepdims=True)
    axis %= x.ndim
    steps = functions.arange(x.shape[axis], dtype=places.dtype, device=x.device)
    return (steps.reshape((-1, *(1,) * (x.ndim - axis - 1))) == places).astype(x.dtype)


@converts("Softmax", since=13)
def softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """Return e ** x divided by its sum along an axis."""
    return x.softmax(axis)


@converts("LogSoftmax", since=13)
def log_softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """Return the logarithm of the softmax along an axis."""
    return x.log_softmax(axis)


def _flat(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return an op as before opset 13: the axes from ``axis`` on are one."""

    def convert(x: Tensor, *, axis: int = 1) -> Tensor:
        axis = axis % x.ndim if x.ndim else 0
        rows = int(np.prod(x.shape[:axis], dtype=np.int64))
        columns = int(np.prod(x.shape[axis:], dtype=np.int64))
        return function(x.reshape((rows, columns)), axis=-1).reshape(x.shape)

    return convert


converts("Softmax", since=1)(_flat(softmax))
converts("LogSoftmax", since=1)(_flat(log_softmax))
converts("Hardmax", since=1)(_flat(hardmax))


@converts("TopK", since=10)
def top_k(
    call: Call, x: Tensor, k: Host, *, axis: int = -1, largest: int = 1, sorted: int = 1
) -> tuple[Tensor, Tensor]:
    """Return the k greatest or least values along an axis, and their indices."""
    return _top_k(call, x, integer(k), axis, bool(largest))


@converts("TopK", since=1)
def top_k_1(call: Call, x: Tensor, *, k: int, axis: int = -1) -> tuple[Tensor, Tensor]:
    """Return the k greatest values along an axis, and their indices."""
    return _top_k(call, x, k, axis, True)


def _top_k(call: Call, x: Tensor, k: int, axis: int, largest: bool) -> tuple[Tensor, Tensor]:
    values, indices = x.topk(k, axis, largest=largest, sorted=True)
    return values, indices.astype(call.dtype(types.int64))


@converts("CumSum", since=11)
def cumulative_sum(x: Tensor, axis: Host, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """Return sums up to each element along an axis; without it, if exclusive; from the end."""
    at = integer(axis)
    return _cumulated(x, at, exclusive, reverse, lambda t: t.cumulative_sum(at, dtype=x.dtype), 0)


@converts("CumProd", since=26)
def cumulative_prod(x: Tensor, axis: Host, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """Return products up to each element along an axis."""
    at = integer(axis)
    return _cumulated(x, at, exclusive, reverse, lambda t: t.cumulative_prod(at, dtype=x.dtype), 1)


def _cumulated(
    x: Tensor,
    axis: int,
    exclusive: int,
    reverse: int,
    function: Callable[[Tensor], Tensor],
    initial: int,
) -> Tensor:
    x = x.flip(axis) if reverse else x
    found = function(x)
    if exclusive and x.shape[axis]:
        first = functions.full_like(x.narrow(axis, 0, 1), initial)
        found = functions.concat([first, found.narrow(axis, 0, x.shape[axis] - 1)], axis)
    return found.flip(axis) if reverse else found


@converts("LpNormalization")
def lp_normalization(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """Return x divided by its norm along an axis; 0 where the norm is 0."""
    norm = x.abs().sum(axis, keepdims=True) if p == 1 else (x * x).sum(axis, keepdims=True).sqrt()
    return functions.where(norm == 0, 0, x / functions.where(norm == 0, 1, norm)).astype(x.dtype)


@converts("MeanVarianceNormalization", since=9)
def mean_variance_normalization(x: Tensor, *, axes: Sequence[int] = (0, 2, 3)) -> Tensor:
    """Return (x - mean) / (standard deviation + 1e-9) over axes."""
    centred = x - x.mean(tuple(axes), keepdims=True)
    return centred / ((centred * centred).mean(tuple(axes), keepdims=True).sqrt() + 1e-9)


@converts("Einsum", since=12)
def einsum(*xs: Tensor, equation: str) -> Tensor:
    """Return a sum of products over named axes."""
    return functions.einsum(equation.replace(" ", ""), *xs)


@converts("Det", since=11)
def determinant(x: Tensor) -> Tensor:
    """Return determinants of square matrices, by elimination with row pivots."""
    size = x.shape[-1]
    sign = functions.ones(x.shape[:-2], dtype=x.dtype, device=x.device)
    product = sign
    for column in range(size):
        below = x[..., column:, column].abs()
        pivot = below.argmax(-1, keepdims=True)
        swapped, row = _with_pivot_first(x[..., column:, column:], pivot)
        sign = functions.where(pivot.squeeze(-1) == 0, sign, -sign)
        first = row[..., 0]
        product = product * first
        safe = functions.where(first == 0, 1, first)
        factors = swapped[..., 1:, 0] / safe.unsqueeze(-1)
        rest = swapped[..., 1:, 1:] - factors.unsqueeze(-1) * row[..., 1:].unsqueeze(-2)
        x = functions.pad(rest, [(0, 0)] * (x.ndim - 2) + [(column + 1, 0)] * 2)
    return sign * product


def _with_pivot_first(x: Tensor, pivot: Tensor) -> tuple[Tensor, Tensor]:
    """Return matrices with the row of the pivot and the first row exchanged, and that row."""
    rows = functions.arange(x.shape[-2], dtype=pivot.dtype, device=x.device)
    order = functions.where(rows == 0, pivot, functions.where(rows == pivot, 0, rows))
    index = order.unsqueeze(-1).broadcast_to(x.shape)
    swapped = x.take_along_axis(index, -2)
    return swapped, swapped[..., 0, :]
