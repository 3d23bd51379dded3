"""Reads and writes by index tensors.

Reads are index_select of rows.  Writes go through one function, `Gather.written`, on flat places:
they are deterministic, which PyTorch's own are not everywhere.  Of several assignments to one place
the last wins, on a GPU too.
"""

from __future__ import annotations

import torch

from pyrite.backend.torch import layout
from pyrite.backend.torch.native import Native, native
from pyrite.backend.torch.order import NaN, keys, values
from pyrite.types import Shape, broadcast, element_count


class Gather(Native):
    """Elements, slices and rows by index."""

    # ---- an index along one axis ----

    @native("take_along_axis", narrow="everywhere")
    def take_along_axis(self, x: torch.Tensor, indices: torch.Tensor, *, axis: int) -> torch.Tensor:
        whole = self.inside("take_along_axis", indices, x.shape[axis], axis)
        # torch.broadcast_shapes imports SymPy, which changes the program's warning filters.
        shapes = (tuple(_without(x.shape, axis)), tuple(_without(indices.shape, axis)))
        rest = broadcast("take_along_axis", *shapes)
        x = x.expand(*rest[:axis], x.shape[axis], *rest[axis:])
        whole = whole.expand(*rest[:axis], whole.shape[axis], *rest[axis:])
        return torch.gather(x, axis, whole)

    @native("scatter", "scatter_reduce")
    def scatter(
        self,
        x: torch.Tensor,
        indices: torch.Tensor,
        updates: torch.Tensor,
        *,
        shape: Shape,
        axis: int,
        reduction: str,
        asked: str = "scatter",
    ) -> torch.Tensor:
        places, selected = self._places_along(asked, indices, shape, axis)
        values = updates.expand(selected).reshape(-1, 1)
        out = _copy(x, shape, updates).reshape(-1, 1)
        return self.written(out, places, values, reduction).reshape(shape)

    @native("is_last_scattered")
    def is_last_scattered(self, indices: torch.Tensor, *, shape: Shape, axis: int) -> torch.Tensor:
        places, selected = self._places_along("scatter", indices, shape, axis)
        return self._is_last(places, element_count(shape)).reshape(selected)

    def _places_along(
        self, op: str, indices: torch.Tensor, shape: Shape, axis: int
    ) -> tuple[torch.Tensor, Shape]:
        """Return the flat place of every write in row-major order, and the shape of the writes."""
        whole = self.inside(op, indices, shape[axis], axis)
        selected = (*shape[:axis], indices.shape[axis], *shape[axis + 1 :])
        places = whole.expand(selected) * element_count(shape[axis + 1 :])
        for other, n in enumerate(shape):
            if other != axis:
                along = [1] * len(shape)
                along[other] = n
                steps = torch.arange(n, device=self.device) * element_count(shape[other + 1 :])
                places = places + steps.reshape(along)
        return places.reshape(-1), selected

    # ---- a vector of indices for the leading axes ----

    @native("gather_nd", narrow="everywhere")
    def gather_nd(self, x: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        depth = indices.shape[-1]
        places = self._places_nd("gather_nd", indices, tuple(x.shape[:depth]))
        rows = x.reshape(element_count(x.shape[:depth]), *x.shape[depth:])
        found = torch.index_select(rows, 0, places)
        return found.reshape((*indices.shape[:-1], *x.shape[depth:]))

    @native("scatter_nd", "scatter_nd_reduce")
    def scatter_nd(
        self,
        x: torch.Tensor,
        indices: torch.Tensor,
        updates: torch.Tensor,
        *,
        shape: Shape,
        reduction: str,
    ) -> torch.Tensor:
        depth = indices.shape[-1]
        places = self._places_nd("scatter_nd", indices, shape[:depth])
        row = element_count(shape[depth:])
        selected = (*indices.shape[:-1], *shape[depth:])
        values = updates.expand(selected).reshape(places.numel(), row)
        out = _copy(x, shape, updates).reshape(element_count(shape[:depth]), row)
        return self.written(out, places, values, reduction).reshape(shape)

    @native("is_last_scattered_nd")
    def is_last_scattered_nd(self, indices: torch.Tensor, *, shape: Shape) -> torch.Tensor:
        leading = shape[: indices.shape[-1]]
        places = self._places_nd("scatter_nd", indices, leading)
        return self._is_last(places, element_count(leading)).reshape(indices.shape[:-1])

    def _places_nd(self, op: str, indices: torch.Tensor, leading: Shape) -> torch.Tensor:
        places = torch.zeros(indices.shape[:-1], dtype=torch.int64, device=self.device)
        for axis, n in enumerate(leading):
            places = places * n + self.inside(op, indices[..., axis], n, axis)
        return places.reshape(-1)

    # ---- slices of one axis ----

    @native("take", narrow="everywhere")
    def take(self, x: torch.Tensor, indices: torch.Tensor, *, axis: int) -> torch.Tensor:
        whole = self.inside("take", indices, x.shape[axis], axis)
        found = torch.index_select(x, axis, whole.reshape(-1))
        return found.reshape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))

    @native("embedding", narrow="everywhere")
    def embedding(self, weight: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        whole = self.inside("embedding", indices, weight.shape[0], 0)
        found = torch.index_select(weight, 0, whole.reshape(-1))
        return found.reshape(*indices.shape, weight.shape[1])

    @native("embedding_backward")
    def embedding_backward(
        self, indices: torch.Tensor, g: torch.Tensor, *, rows: int
    ) -> torch.Tensor:
        whole = self.again("embedding", indices, rows, 0).reshape(-1)
        updates = g.reshape(whole.numel(), g.shape[-1])
        if g.is_floating_point() and not self.is_host and g.numel():
            return layout.embedding_backward(  # type: ignore[no-any-return]
                updates, whole, rows, -1, False
            )
        return self.written(g.new_zeros((rows, g.shape[-1])), whole, updates, "add")

    # ---- counts and classes ----

    @native("bincount_within")
    def bincount_within(
        self, x: torch.Tensor, weights: torch.Tensor | None, *, size: int
    ) -> torch.Tensor:
        places = torch.where((x >= 0) & (x < size), x, size).to(torch.int64)
        if weights is None:
            weights = torch.ones(x.shape, dtype=torch.int32, device=self.device)
        out = weights.new_zeros((size + 1, 1))
        return self.written(out, places, weights.reshape(-1, 1), "add")[:size, 0]

    @native("class_mask")
    def class_mask(self, targets: torch.Tensor, *, classes: int, axis: int) -> torch.Tensor:
        whole = self.inside("cross_entropy", targets, classes, axis, negative=False)
        shape = [1] * (targets.ndim + 1)
        shape[axis] = classes
        numbers = torch.arange(classes, device=self.device).reshape(shape)
        return whole.unsqueeze(axis) == numbers

    # ---- writing ----

    def written(
        self, out: torch.Tensor, places: torch.Tensor, updates: torch.Tensor, reduction: str
    ) -> torch.Tensor:
        """Write rows into a tensor of one's own: (P, R), (K,), (K, R) -> the same (P, R)."""
        if reduction == "assign":
            return self._assigned(out, places, updates)
        if reduction == "add":
            return self._added(out, places, updates)
        if reduction == "mul":
            return self._multiplied(out, places, updates)
        nan: NaN = "last" if reduction == "max" else "first"
        ordered = keys(out, nan, equal_zeros=False)
        rows = keys(updates, nan, equal_zeros=False)
        how = "amax" if reduction == "max" else "amin"
        return values(ordered.scatter_reduce(0, _rows(places, rows), rows, how), out.dtype)

    def _added(
        self, out: torch.Tensor, places: torch.Tensor, updates: torch.Tensor
    ) -> torch.Tensor:
        if not self.is_host:
            # Sorts the places, so that sums are made in one order.
            return out.index_put_((places,), updates, accumulate=True)
        if out.shape[1] == 1:
            out[:, 0].index_add_(0, places, updates[:, 0])
            return out
        return out.scatter_add_(0, _rows(places, updates), updates)

    def _assigned(
        self, out: torch.Tensor, places: torch.Tensor, updates: torch.Tensor
    ) -> torch.Tensor:
        if self.is_host:
            return out.scatter_(0, _rows(places, updates), updates)
        if places.numel() == 0:
            return out
        latest = self._latest(places, out.shape[0])
        rows = torch.index_select(updates, 0, torch.clamp(latest, min=0))
        return torch.where(latest[:, None] >= 0, rows, out)

    def _multiplied(
        self, out: torch.Tensor, places: torch.Tensor, updates: torch.Tensor
    ) -> torch.Tensor:
        if self.is_host or not out.is_floating_point():
            # Integers wrap around alike in every order.
            return out.scatter_reduce_(0, _rows(places, updates), updates, "prod")
        order = torch.sort(places, stable=True).indices
        counts = torch.zeros(out.shape[0], dtype=torch.int64, device=self.device)
        counts.index_add_(0, places, torch.ones_like(places))
        products = layout.segment_reduce(
            updates[order], "prod", lengths=counts, axis=0, unsafe=True, initial=1
        )
        return out * products

    def _latest(self, places: torch.Tensor, size: int) -> torch.Tensor:
        """Return the number of the last write to each place, -1 where there is none."""
        order = torch.arange(places.numel(), device=self.device)
        none = torch.full((size,), -1, dtype=torch.int64, device=self.device)
        return none.scatter_reduce_(0, places, order, "amax")

    def _is_last(self, places: torch.Tensor, size: int) -> torch.Tensor:
        order = torch.arange(places.numel(), device=self.device)
        return torch.index_select(self._latest(places, size), 0, places) == order


def _without(shape: Shape, axis: int) -> Shape:
    return tuple(shape[:axis]) + tuple(shape[axis + 1 :])


def _copy(x: torch.Tensor, shape: Shape, like: torch.Tensor) -> torch.Tensor:
    return torch.empty(shape, dtype=like.dtype, device=like.device).copy_(x)


def _rows(places: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return places[:, None].expand(rows.shape)
