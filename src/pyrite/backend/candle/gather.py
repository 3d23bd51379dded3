"""Reads and writes by index tensors.

Reads are Candle's gather and index_select.  Candle has no write by index: writes are made by
comparing every place with every index, and by a matrix product for sums, where that table is small.
"""

from __future__ import annotations

import math

import numpy as np

from pyrite.backend.candle.contraction import product
from pyrite.backend.candle.native import ALGEBRA, Native, native
from pyrite.backend.candle.order import greatest, least
from pyrite.backend.candle.reduction import product_along, reduced
from pyrite.backend.candle.tensor import CandleTensor, Lacking, filled, places, where, zeros
from pyrite.types import DType, Number, Shape, element_count, int32, int64

#: How many comparisons of places with indices, times the elements of a row where they are spread
#: out, a write may take: 16 million, 0.1 s.
MOST_COMPARISONS = 1 << 24


class Gather(Native):
    """Elements, slices and rows by index."""

    # ---- reads ----

    @native("take_along_axis", given="stored")
    def take_along_axis(self, x: CandleTensor, indices: CandleTensor, *, axis: int) -> CandleTensor:
        whole = self.inside("take_along_axis", indices, x.shape[axis], axis)
        rest = np.broadcast_shapes(reduced(x.shape, axis), reduced(indices.shape, axis))
        x, whole = (
            v.broadcast_to((*rest[:axis], v.shape[axis], *rest[axis + 1 :])) for v in (x, whole)
        )
        found = x.data.contiguous().gather(whole.data.contiguous(), axis)
        return CandleTensor(found, x.dtype)

    @native("gather_nd", given="stored")
    def gather_nd(self, x: CandleTensor, indices: CandleTensor) -> CandleTensor:
        depth = indices.shape[-1]
        at = self._places_nd("gather_nd", indices, x.shape[:depth])
        rows = x.reshape((element_count(x.shape[:depth]), *x.shape[depth:]))
        return rows.select(0, at).reshape((*indices.shape[:-1], *x.shape[depth:]))

    @native("take", given="stored")
    def take(self, x: CandleTensor, indices: CandleTensor, *, axis: int) -> CandleTensor:
        whole = self.inside("take", indices, x.shape[axis], axis)
        found = x.select(axis, whole.reshape((whole.size,)))
        return found.reshape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))

    @native("embedding", given="stored")
    def embedding(self, weight: CandleTensor, indices: CandleTensor) -> CandleTensor:
        whole = self.inside("embedding", indices, weight.shape[0], 0)
        found = weight.select(0, whole.reshape((whole.size,)))
        return found.reshape((*indices.shape, weight.shape[1]))

    # ---- writes ----

    @native("embedding_backward")
    def embedding_backward(
        self, indices: CandleTensor, g: CandleTensor, *, rows: int
    ) -> CandleTensor:
        whole = self.inside("embedding", indices, rows, 0)
        out = zeros((rows, g.shape[-1]), g.dtype)
        updates = g.reshape((whole.size, g.shape[-1]))
        return written(out, whole.reshape((whole.size,)), updates, "add")

    @native("scatter", "scatter_reduce")
    def scatter(
        self,
        x: CandleTensor,
        indices: CandleTensor,
        updates: CandleTensor,
        *,
        shape: Shape,
        axis: int,
        reduction: str,
        asked: str = "scatter",
    ) -> CandleTensor:
        at, selected = self._places_along(asked, indices, shape, axis)
        values = updates.broadcast_to(selected).reshape((element_count(selected), 1))
        out = x.broadcast_to(shape).reshape((element_count(shape), 1))
        return written(out, at, values, reduction).reshape(shape)

    @native("scatter_nd", "scatter_nd_reduce")
    def scatter_nd(
        self,
        x: CandleTensor,
        indices: CandleTensor,
        updates: CandleTensor,
        *,
        shape: Shape,
        reduction: str,
    ) -> CandleTensor:
        depth = indices.shape[-1]
        at = self._places_nd("scatter_nd", indices, shape[:depth])
        row = element_count(shape[depth:])
        values = updates.broadcast_to((*indices.shape[:-1], *shape[depth:]))
        out = x.broadcast_to(shape).reshape((element_count(shape[:depth]), row))
        return written(out, at, values.reshape((at.size, row)), reduction).reshape(shape)

    @native("is_last_scattered")
    def is_last_scattered(self, indices: CandleTensor, *, shape: Shape, axis: int) -> CandleTensor:
        at, selected = self._places_along("scatter", indices, shape, axis)
        return _is_last(at, element_count(shape)).reshape(selected)

    @native("is_last_scattered_nd")
    def is_last_scattered_nd(self, indices: CandleTensor, *, shape: Shape) -> CandleTensor:
        leading = shape[: indices.shape[-1]]
        at = self._places_nd("scatter_nd", indices, leading)
        return _is_last(at, element_count(leading)).reshape(indices.shape[:-1])

    @native("bincount_within")
    def bincount_within(
        self, x: CandleTensor, weights: CandleTensor | None, *, size: int
    ) -> CandleTensor:
        whole = x.store(int64)
        at = where((whole >= 0) & (whole < size), whole, size)
        if weights is None:
            weights = filled(1, x.shape, int32)
        out = zeros((size + 1, 1), weights.dtype)
        counts = written(out, at, weights.reshape((at.size, 1)), "add")
        return counts.narrow(0, 0, size).reshape((size,))

    @native("class_mask")
    def class_mask(self, targets: CandleTensor, *, classes: int, axis: int) -> CandleTensor:
        whole = self.inside("cross_entropy", targets, classes, axis, negative=False)
        numbers = places(np.arange(classes).reshape(classes, *(1,) * (targets.ndim - axis)))
        return whole.reshape((*whole.shape[:axis], 1, *whole.shape[axis:])) == numbers

    # ---- flat places ----

    def _places_along(
        self, op: str, indices: CandleTensor, shape: Shape, axis: int
    ) -> tuple[CandleTensor, Shape]:
        """Return the flat place of every write in row-major order, and the shape of the writes."""
        whole = self.inside(op, indices, shape[axis], axis)
        selected = (*shape[:axis], indices.shape[axis], *shape[axis + 1 :])
        if 0 in selected:
            return zeros((0,), int64), selected
        steps = [element_count(shape[a + 1 :]) for a in range(len(shape))]
        rest = np.zeros((1,) * len(shape), np.int64)
        for other, positions in enumerate(np.ogrid[tuple(slice(n) for n in shape)]):
            if other != axis:
                rest = rest + positions * steps[other]
        at = (whole * steps[axis] + places(rest)).broadcast_to(selected)
        return at.reshape((at.size,)), selected

    def _places_nd(self, op: str, indices: CandleTensor, leading: Shape) -> CandleTensor:
        count = element_count(indices.shape[:-1])
        vectors = indices.reshape((count, len(leading)))
        at = zeros((count, 1), int64)
        for axis, n in enumerate(leading):
            at = at * n + self.inside(op, vectors.narrow(1, axis, 1), n, axis)
        return at.reshape((count,))


# ---- writes of rows: out (P, R), at (K,), updates (K, R) ----


def written(
    out: CandleTensor, at: CandleTensor, updates: CandleTensor, reduction: str
) -> CandleTensor:
    """Return rows with updates written to them.  Raises Lacking where the table is not small."""
    if updates.size == 0 or out.size == 0:
        return out
    if reduction == "add":
        return out + _added(_hits(at, out.shape[0]), updates)
    if reduction == "assign":
        latest = _latest(_hits(at, out.shape[0]))
        rows = updates.select(0, where(latest < 0, 0, latest))
        return where((latest >= 0).reshape((out.shape[0], 1)), rows, out)
    return _reduced(out, at, updates, reduction)


def _hits(at: CandleTensor, size: int, row: int = 1) -> CandleTensor:
    """Return whether each write goes to each place: (P, K)."""
    if size * at.size * row > MOST_COMPARISONS:
        raise Lacking("writes by index of such a size")
    return places(np.arange(size)[:, None]) == at.reshape((1, at.size))


def _added(hits: CandleTensor, updates: CandleTensor) -> CandleTensor:
    """Return the sums of the rows that go to each place: (P, K), (K, R) -> (P, R)."""
    dtype = updates.dtype
    if not dtype.is_float:
        return product(hits.store(dtype), updates)
    weights = hits.store(dtype)
    size = ALGEBRA.abs(updates)
    # Not by the greatest: Candle's leaves NaN out.
    if float(size.data.sum_all().values()) < math.inf:
        return product(weights, updates)
    # 0 times infinity would be NaN in places that it is not written to.
    found = product(weights, where(size < math.inf, updates, 0))
    for value, is_such in (
        (math.inf, updates == math.inf),
        (-math.inf, updates == -math.inf),
        (math.nan, ALGEBRA.isnan(updates)),
    ):
        found = where(product(weights, is_such.store(dtype)) > 0, found + value, found)
    return found


def _latest(hits: CandleTensor) -> CandleTensor:
    """Return the number of the last write to each place, -1 where there is none: (P, K) -> (P,)."""
    order = places(np.arange(hits.shape[1]))
    return greatest(where(hits, order, -1), 1).reshape((hits.shape[0],))


def _is_last(at: CandleTensor, size: int) -> CandleTensor:
    latest = _latest(_hits(at, size))
    return latest.select(0, at) == places(np.arange(at.size))


def _reduced(
    out: CandleTensor, at: CandleTensor, updates: CandleTensor, reduction: str
) -> CandleTensor:
    size, row = out.shape
    hits = _hits(at, size, row).reshape((size, at.size, 1))
    spread = where(hits, updates.reshape((1, at.size, row)), _neutral(reduction, out.dtype))
    if reduction == "mul":
        return out * product_along(spread, 1).reshape(out.shape)
    if reduction == "max":
        return ALGEBRA.maximum(out, greatest(spread, 1).reshape(out.shape))
    return ALGEBRA.minimum(out, least(spread, 1).reshape(out.shape))


def _neutral(reduction: str, dtype: DType) -> Number:
    return {"mul": 1, "max": dtype.lowest, "min": dtype.highest}[reduction]
