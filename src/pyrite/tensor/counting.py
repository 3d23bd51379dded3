"""Counts: how often integers occur, and elements that are repeated so many times.

How many results there are depends on the values, so these ops wait for the device; ``size=`` fixes
the number, cutting off what is more and filling what is less: see `sets`.  Counts are int32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from pyrite.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from pyrite.op import Attributes, composite, integers, primitive, public, sample
from pyrite.op.rule import ADD, Scatter
from pyrite.synchronization import asked_by
from pyrite.tensor.cumulative import Cumulative
from pyrite.types import Array, DType, Number, TensorType, default_int, normalize_axis


def sized(op: str) -> Callable[..., Attributes]:
    """Return the canonical rule of an op whose results may be as many as ``size`` says."""

    def canonical(*types: TensorType, size: int | None, **rest: Any) -> Attributes:
        if size is not None and size < 0:
            raise ArgumentError(f"{op} requires size >= 0, got {size}")
        if not isinstance(fill := rest.get("fill_value", 0), Number | np.generic):
            raise ArgumentTypeError(f"{op} requires one number as fill_value, got {fill!r}")
        return {"size": size, **rest}

    return canonical


def padded(x: Any, before: int, after: int, value: Number) -> Any:
    """Return a row with a value put in front and behind."""
    (n,) = x.shape
    return type(x)._slice_update(
        value, x, shape=(before + n + after,), start=(before,), size=(n,), step=(1,)
    )


def _check_bins(x: TensorType, weights: TensorType | None) -> DType:
    """Return the dtype of the counts."""
    if not x.dtype.is_integer:
        raise DTypeError(f"bincount requires an integer dtype, got {x.dtype.name}; cast it")
    if x.ndim != 1 or (weights is not None and weights.shape != x.shape):
        beside = "" if weights is None else f" and weights of shape {weights.shape}"
        raise ShapeError(f"bincount requires shape (N,), got {x.shape}{beside}")
    return default_int if weights is None else weights.dtype


def _bincount_attributes(
    x: TensorType, weights: TensorType | None, *, minlength: int, size: int | None
) -> Attributes:
    _check_bins(x, weights)
    return sized("bincount")(x, minlength=minlength, size=size)


def _bincount_type(x: TensorType, weights: TensorType | None, *, size: int) -> TensorType:
    return TensorType((size,), _check_bins(x, weights))


def _bincount_within(x: Array, weights: Array | None, *, size: int) -> Array:
    counts = np.zeros(size, np.int32 if weights is None else weights.dtype)
    inside = (x >= 0) & (x < size)
    np.add.at(counts, x[inside], 1 if weights is None else weights[inside])
    return counts


def _bins(x: Any, minlength: int) -> int:
    """Return how many bins hold all elements: here the host waits."""
    if x.size == 0:
        return minlength
    with asked_by("bincount"):
        least, greatest = int(x.min()), int(x.max())
    if least < 0:
        raise ArgumentError(f"bincount requires x >= 0, got {least}; give size= to leave such out")
    return max(greatest + 1, minlength)


def _histogram_type(x: TensorType, edges: TensorType) -> TensorType:
    if x.ndim != 1 or edges.ndim != 1 or edges.size < 2:
        raise ShapeError(
            f"histogram requires shapes (N,) and (B + 1,) with B >= 1, got {x.shape} and "
            f"{edges.shape}"
        )
    return TensorType((edges.size - 1,), default_int)


def _counts_between(x: Any, edges: Any) -> Any:
    count = edges.size - 1
    at = edges._searchsorted(x, side="right") - 1
    at = x.equal(edges[-1])._where(count - 1, at)
    is_inside = x.greater_equal(edges[0]).logical_and(x.less_equal(edges[-1]))
    return is_inside._where(at, -1)._bincount_within(None, size=count)


def _repeat_attributes(
    x: TensorType, repeats: TensorType, *, axis: int, size: int | None
) -> Attributes:
    along = normalize_axis("repeat", axis, x.ndim)
    if not repeats.dtype.is_integer:
        raise DTypeError(f"repeat requires integer repeats, got {repeats.dtype.name}; cast them")
    if repeats.shape not in ((), (1,), (x.shape[along],)):
        raise ShapeError(
            f"repeat requires repeats of shape () or ({x.shape[along]},), got {repeats.shape}"
        )
    return {"axis": along, **sized("repeat")(x, size=size)}


def _length(repeats: Any) -> int:
    """Return the number of elements when all are repeated: here the host waits."""
    if repeats.size == 0:
        return 0
    with asked_by("repeat"):
        counts = repeats.numpy()
    if (least := int(counts.min())) < 0:
        raise ArgumentError(f"repeat requires repeats >= 0, got {least}")
    # Here, not on the device: one without int64 could not add them up.
    return int(counts.sum(dtype=np.int64))


def _weights_vjp(g: Any, _: Any, x: Any, *, size: int) -> Any:
    """Return the cotangent of the weights: what was not counted reads a zero at the end."""
    inside = x.greater_equal(0).logical_and(x.less(size))
    return padded(g, 0, 1, 0).take_along_axis(inside._where(x, size).astype("int32"), 0)


class Counting(Cumulative):
    """Counts and repetitions."""

    __slots__ = ()

    @primitive(
        rule=Scatter(
            lambda at, index, *_, size: (index(at[0], of=0),),
            ADD,
            updates=1,
            points=lambda x, *_, size: x.shape,
            counts_from_end=False,
            drops=True,
        ),
        reference=_bincount_within,
        accumulates=True,
        infer=_bincount_type,
        vjp=(None, _weights_vjp),
        accepts="any",
        samples=(
            sample(integers((6,), 0, 4), None, size=3),
            sample(integers((6,), 0, 4), (6,), size=5),
            sample(integers((0,), 0, 4), (0,), size=2),
        ),
    )
    def _bincount_within(self, weights: Self | None, /, *, size: int) -> Self:
        """How often each integer 0 <= i < size occurs, or the sum of its weights.

        Shapes: (N,), (N,) or None -> (size,).
        """
        ...

    @composite(
        canonical=_repeat_attributes,
        samples=(
            sample((3, 2), integers((3,), 0, 4), axis=0),
            sample((2, 3), integers((1,), 2, 3), axis=-1),
            sample((3, 2), integers((3,), 1, 4), axis=0, size=4),
            sample((0,), integers((0,), 0, 4), axis=0),
        ),
    )
    def _repeat_each(self, repeats: Self, /, axis: int, *, size: int | None = None) -> Self:
        """Each element along an axis so many times.  Shapes: (..., N, ...), (N,) -> (..., M, ...).

        M is the sum of the repeats, for which the device is waited, or ``size``.
        """
        n = self.shape[axis]
        each = repeats.broadcast_to((n,))
        total = _length(each) if size is None else size
        # Element i of the result is of the source behind which i sources have ended.
        ended = each.cumulative_sum(0).bincount(size=total)
        source = ended.cumulative_sum(0).clip(max=max(n - 1, 0))
        return self.take(source, axis)

    @composite(
        infer=_histogram_type,
        vjp=(None, None),
        accepts="number",
        promotes=(0, 1),
        samples=(
            sample(integers((9,), 0, 4), integers((4,), 2, 3)),
            sample((0,), integers((2,), 0, 1)),
        ),
    )
    def _histogram_within(self, edges: Self, /) -> Self:
        """How many elements lie in each of the bins between sorted edges, int32.

        Shapes: (N,), (B + 1,) -> (B,).  A bin has its lower edge, and the last one both.
        """
        return _counts_between(self, edges)  # type: ignore[no-any-return]

    @composite(
        canonical=_bincount_attributes,
        samples=(
            sample(integers((6,), 0, 4), None),
            sample(integers((6,), 0, 4), (6,), minlength=7),
            sample(integers((6,), 0, 4), (6,), size=2),
            sample(integers((0,), 0, 4), None),
        ),
    )
    def _bincount(
        self, weights: Self | None = None, /, *, minlength: int = 0, size: int | None = None
    ) -> Self:
        """How often each integer from 0 occurs, or the sum of its weights."""
        return self._bincount_within(weights, size=_bins(self, minlength) if size is None else size)

    @public
    def bincount(
        self, weights: Self | None = None, *, minlength: int = 0, size: int | None = None
    ) -> Self:
        """How often each integer from 0 occurs, int32, or the sum of its weights in their dtype.

        Shapes: (N,) -> (max(greatest + 1, minlength),), or (size,), in which what lies outside
        0 <= x < size is not counted.  Waits for the device unless ``size`` is given, and then
        raises ArgumentError for a negative element.  Weights are added in order.

        >>> import pyrite
        >>> pyrite.tensor([1, 3, 1]).bincount().tolist()
        [0, 2, 0, 1]
        """
        return self._bincount(weights, minlength=minlength, size=size)
