"""Reading axes at other places: each new element a weighted sum of some old ones.

Interpolation and adaptive pooling differ only in the tables of places and weights, which the host
computes from sizes alone.  The transpose of such a sum is one too, so a gradient is read as well,
by tables turned round, and nothing is added to one place from two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import Any, Self

import numpy as np

from pyrite.op import composite, integers, sample
from pyrite.tensor.arithmetic import Arithmetic
from pyrite.tensor.comparison import Comparison
from pyrite.tensor.gradient import in_dtype, widened
from pyrite.tensor.indexing import Indexing
from pyrite.tensor.reduction import Reduction
from pyrite.types import Array, Shape, TensorType, default_int
from pyrite.types import dtype as as_dtype

#: An axis that is read anew: its number, how many elements it gets, and how many taps each has.
Line = tuple[int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Taps:
    """What the elements of a new axis are made of: (taps, out) places on the old one, and weights.

    No weights means one tap, copied.
    """

    places: Array
    weights: Array | None = None

    def transposed(self, size: int) -> Taps:
        """Return the taps by which the old axis, of so many elements, reads the new one."""
        width, count = self.places.shape
        weights = np.ones(self.places.shape) if self.weights is None else self.weights
        read = weights != 0
        news = np.broadcast_to(np.arange(count), (width, count))[read]
        # What reads one place by several taps reads it by one, of their sum.
        pairs, which = np.unique(self.places[read] * count + news, return_inverse=True)
        olds, news = np.divmod(pairs, count)
        counts = np.bincount(olds, minlength=size)
        tap = np.arange(len(pairs)) - (np.cumsum(counts) - counts)[olds]
        shape = (int(counts.max(initial=1)), size)
        places, turned = np.zeros(shape, np.int64), np.zeros(shape)
        places[tap, olds] = news
        turned[tap, olds] = np.bincount(which, weights[read])
        return Taps(places, turned)

    def settled(self) -> Taps:
        """Return taps of the same sums that read nothing that does not count.

        A tap of weight 0 would make NaN of an infinity.  It is put where its element's heaviest
        tap is, and they share that weight; an element without any other keeps zeros.
        """
        if self.weights is None:
            return self
        heaviest = np.abs(self.weights).argmax(0)[None]
        is_idle = self.weights == 0
        shared = np.take_along_axis(self.weights, heaviest, 0) / (1 + is_idle.sum(0))
        shares = is_idle | (np.arange(len(is_idle))[:, None] == heaviest)
        return Taps(
            np.where(is_idle, np.take_along_axis(self.places, heaviest, 0), self.places),
            np.where(shares, shared, self.weights),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """The taps of some axes one after the other, as an op takes them.

    ``skips`` says that there are taps of weight 0, which are not to be read.
    """

    lines: tuple[Line, ...]
    places: Array
    weights: Array | None
    skips: bool

    @classmethod
    def of(cls, taps_of_axis: Mapping[int, Taps]) -> Tables:
        """Return the tables of taps by their axis; all have weights, or none."""
        found = {axis: taps.settled() for axis, taps in taps_of_axis.items()}
        lines = tuple((axis, *reversed(taps.places.shape)) for axis, taps in found.items())
        places = [np.zeros(0, np.int64), *(taps.places.ravel() for taps in found.values())]
        weights = [taps.weights.ravel() for taps in found.values() if taps.weights is not None]
        joined = np.concatenate(weights) if weights else None
        return cls(
            lines, np.concatenate(places).astype(default_int.numpy), joined,
            joined is not None and bool(np.any(joined == 0)),
        )  # fmt: skip


#: How many tables are kept of each kind, and the longest axes that theirs may have.
_TABLES_KEPT, _LONGEST = 64, 1 << 12


def kept(make: Callable[..., Tables]) -> Callable[..., Tables]:
    """Return what makes tables for axes of old and of new sizes, and makes short ones once."""
    cached = lru_cache(maxsize=_TABLES_KEPT)(make)

    @wraps(make)
    def found(old: Shape, new: Shape, *arguments: Any, **options: Any) -> Tables:
        is_short = max(*old, *new) <= _LONGEST
        return (cached if is_short else make)(old, new, *arguments, **options)

    return found


def _resampled_type(
    x: TensorType, places: TensorType, weights: TensorType | None, *,
    axes: tuple[int, ...], size: Shape, taps: tuple[int, ...], skips: bool,
) -> TensorType:  # fmt: skip
    sizes = dict(zip(axes, size, strict=True))
    return TensorType(tuple(sizes.get(axis, n) for axis, n in enumerate(x.shape)), x.dtype)


class Resampling(Reduction, Indexing, Comparison, Arithmetic):
    """Weighted sums of elements along axes."""

    __slots__ = ()

    def _resampled(self, tables: Tables) -> Self:
        """Return x read anew along the axes of tables: (..., in, ...) -> (..., out, ...)."""
        if not tables.lines:
            return self
        weights = tables.weights
        if weights is not None:
            weights = weights.astype(self.dtype.compute.numpy)
        axes, size, taps = zip(*tables.lines, strict=True)
        return self._resample(
            self._table(tables.places), None if weights is None else self._table(weights),
            axes=axes, size=size, taps=taps, skips=tables.skips,
        )  # fmt: skip

    @composite(
        infer=_resampled_type,
        accepts="float",
        promotes=(0,),
        samples=(
            sample(
                (2, 3, 4), integers((10,), 0, 4), (10,), axes=(2,), size=(5,), taps=(2,),
                skips=False,
            ),
            sample(
                (2, 3, 4), integers((20,), 0, 3), (20,), axes=(1, 2), size=(4, 6), taps=(2, 2),
                skips=True,
            ),
            sample(
                (2, 1, 3, 4), integers((7,), 0, 3), None, axes=(2, 3), size=(2, 5), taps=(1, 1),
                skips=False,
            ),
            sample(
                (2, 3, 4), integers((54,), 0, 3), (54,), axes=(1,), size=(6,), taps=(9,),
                skips=False,
            ),
        ),
    )  # fmt: skip
    def _resample(
        self, places: Self, weights: Self | None, /, *, axes: tuple[int, ...], size: Shape,
        taps: tuple[int, ...], skips: bool,
    ) -> Self:  # fmt: skip
        """Sums of taps along each of some axes: (..., in, ...) -> (..., out, ...).

        ``size`` has how many elements each axis gets.  ``places`` and ``weights`` hold what
        `Tables` says, of each axis as (taps, out).  float16 and bfloat16 are computed in float32
        and rounded at the end.
        """
        x, first = self if weights is None else widened(self), 0
        for axis, count, width in zip(axes, size, taps, strict=True):
            found = x.take(places.narrow(0, first, count * width), axis=axis)
            if weights is not None:
                of_line = widened(weights).narrow(0, first, count * width)
                x = found._summed_taps(of_line, axis, count, width, skips=skips)
            else:
                x = found
            first += count * width
        return in_dtype(x, self.dtype)

    def _summed_taps(
        self, weights: Self, axis: int, count: int, width: int, *, skips: bool
    ) -> Self:
        """Return the sums of what the taps of an axis have read, one after the other."""
        before, after = self.shape[:axis], self.shape[axis + 1 :]
        read = self.reshape((*before, width, count, *after))
        factors = weights.reshape((width, count, *(1 for _ in after)))
        weighted = read * factors
        if skips:
            weighted = factors.not_equal(0)._where(weighted, 0)
        return weighted.sum(axis)

    def _table(self, array: Array) -> Self:
        """Return an array of the host as a tensor beside this one."""
        handle = self._backend.upload(array)
        return self._wrap(handle, TensorType(array.shape, as_dtype(array.dtype)), self._backend)
