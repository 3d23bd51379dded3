"""Cumulative extrema: each element becomes the extreme of all up to it, along one axis.

Zeros are equal, NaN is the extreme, and of equals the first is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from pyrite.op import Fold, Scan, composite, integers, primitive, sample
from pyrite.op.rule import folds
from pyrite.op.rule.folds import Extreme
from pyrite.tensor.axis import axis_of
from pyrite.tensor.cumulative import samples_along
from pyrite.tensor.gathering import Gathering
from pyrite.types import Array, TensorType, default_int


def _later(name: Extreme) -> Fold:
    """Return the fold of the extreme so far: a later one beats it, or is the first NaN."""

    def join(k: Any, s: Any, t: Any) -> tuple[Any]:
        (x,), (y,) = s, t
        wins = y > x if name == "max" else y < x
        return (k.where((wins | k.isnan(y)) & ~k.isnan(x), y, x),)

    return Fold((folds.MAX if name == "max" else folds.MIN).start, join)


_LATER_MAX, _LATER_MIN = _later("max"), _later("min")


def _running_position(beats: np.ufunc) -> Callable[..., Array]:
    """Return the reference of the position of the extreme so far; the first that is not beaten."""

    def reference(x: Array, *, axis: int) -> Array:
        rows = np.moveaxis(x, axis, -1)
        found = np.zeros(rows.shape, np.int32)
        for i in range(1, rows.shape[-1]):
            last = found[..., i - 1]
            best = np.take_along_axis(rows, last[..., None], -1)[..., 0]
            wins = (beats(rows[..., i], best) | np.isnan(rows[..., i])) & ~np.isnan(best)
            found[..., i] = np.where(wins, i, last)
        return np.moveaxis(found, -1, axis)

    return reference


def _extrema_and_positions(x: TensorType, *, axis: int) -> tuple[TensorType, TensorType]:
    return x, _positions(x, axis=axis)


def _positions(x: TensorType, *, axis: int) -> TensorType:
    return TensorType(x.shape, default_int)


_EXTREMA = samples_along(sample(integers((6,), 0, 3), axis=0))


class CumulativeExtremum(Gathering):
    """Cumulative extrema."""

    __slots__ = ()

    @primitive(
        rule=Scan(folds.ARGMAX),
        reference=_running_position(np.greater),
        canonical=axis_of("cumulative_argmax"),
        infer=_positions,
        vjp=(None,),
        accepts="any",
        samples=_EXTREMA,
    )
    def _cumulative_argmax(self, /, axis: int) -> Self:
        """Positions of the greatest elements up to each, int32; the first of equals."""
        ...

    @primitive(
        rule=Scan(folds.ARGMIN),
        reference=_running_position(np.less),
        canonical=axis_of("cumulative_argmin"),
        infer=_positions,
        vjp=(None,),
        accepts="any",
        samples=_EXTREMA,
    )
    def _cumulative_argmin(self, /, axis: int) -> Self:
        """Positions of the least elements up to each, int32; the first of equals."""
        ...

    @composite(
        rule=Scan(folds.MAX_AND_POSITION),
        infer=_extrema_and_positions,
        canonical=axis_of("cummax_with_indices"),
        samples=_EXTREMA,
    )
    def cummax_with_indices(self, /, axis: int) -> tuple[Self, Self]:
        """The greatest elements up to each along an axis, and their positions, int32.

        Shapes: (..., N, ...) -> twice the same.  The first of equals is taken (torch: the last);
        from the first NaN on all are NaN.  The gradient goes to the positions.

        >>> import pyrite
        >>> values, indices = pyrite.tensor([3.0, 1.0, 4.0]).cummax_with_indices(0)
        >>> values.tolist(), indices.tolist()
        ([3.0, 3.0, 4.0], [0, 0, 2])
        """
        indices = self._cumulative_argmax(axis)
        return self.take_along_axis(indices, axis), indices

    @composite(
        rule=Scan(folds.MIN_AND_POSITION),
        infer=_extrema_and_positions,
        canonical=axis_of("cummin_with_indices"),
        samples=_EXTREMA,
    )
    def cummin_with_indices(self, /, axis: int) -> tuple[Self, Self]:
        """The least elements up to each along an axis, and their positions, int32.

        See `cummax_with_indices`.
        """
        indices = self._cumulative_argmin(axis)
        return self.take_along_axis(indices, axis), indices

    @composite(
        rule=Scan(_LATER_MAX),
        infer=lambda x, *, axis: x,
        canonical=axis_of("cummax"),
        samples=_EXTREMA,
    )
    def cummax(self, /, axis: int) -> Self:
        """The greatest elements up to each along an axis; see `cummax_with_indices`."""
        return self.take_along_axis(self._cumulative_argmax(axis), axis)

    @composite(
        rule=Scan(_LATER_MIN),
        infer=lambda x, *, axis: x,
        canonical=axis_of("cummin"),
        samples=_EXTREMA,
    )
    def cummin(self, /, axis: int) -> Self:
        """The least elements up to each along an axis; see `cummax_with_indices`."""
        return self.take_along_axis(self._cumulative_argmin(axis), axis)
