"""Adjoints: of a read by index the write that adds up, of a write the read, at the same places.

The adjoint of a gather takes the inputs of the gather without its source, and behind them the
cotangent of the result.  The adjoint of a scatter takes the cotangent of the result, and then the
inputs that are neither base nor updates.  Types that are missing there come by attributes:
``source_shape``, ``points_shape`` and ``written_shape``, beside those of the op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyrite.op.rule.coordinate import Coordinate, Entry, Index, IndexRead
from pyrite.op.rule.gather import Asked, Gather
from pyrite.op.rule.scatter import ADD, LastWrite, Scatter
from pyrite.types import Shape, TensorType, bool_

At = tuple[Coordinate, ...]


def scatter_of(gather: Gather) -> Scatter:
    """Return the adjoint of a gather: cotangents added up where the elements were read."""
    source = gather.source

    def place(
        at: At, index: Index, *types: Any, source_shape: Shape, **attrs: Any
    ) -> Sequence[Entry]:
        *others, g = types
        given = [*others[:source], TensorType(source_shape, g.dtype), *others[source:]]

        def read(*coordinates: Coordinate | int, of: int = 1, axes: int = 1) -> IndexRead:
            return index(*coordinates, of=of - (of > source), axes=axes)

        return gather.place(at, read, *given, **attrs)

    return Scatter(
        place, ADD, updates=-1, counts_from_end=gather.counts_from_end, drops=gather.drops,
        asked=_without(gather.asked, "source_shape"),
    )  # fmt: skip


def gather_of(scatter: Scatter) -> Gather:
    """Return the adjoint of a scatter that adds: the cotangents at the places that it writes to."""

    def place(
        at: At, index: Index, h: TensorType, *types: Any, points_shape: Shape, **attrs: Any
    ) -> Sequence[Entry]:
        return read_place(at, index, types, 1, h.shape, points_shape, attrs)

    read_place = _as_reading(scatter)
    return Gather(
        place, counts_from_end=scatter.counts_from_end, drops=scatter.drops,
        asked=_without(scatter.asked, "points_shape"),
    )  # fmt: skip


def last_write_of(scatter: Scatter) -> LastWrite:
    """Return what says which updates of a scatter that assigns are still there."""

    def place(
        at: At, index: Index, *types: Any, points_shape: Shape, written_shape: Shape, **attrs: Any
    ) -> Sequence[Entry]:
        return read_place(at, index, types, 0, written_shape, points_shape, attrs)

    read_place = _as_reading(scatter)
    return LastWrite(
        place, shape=lambda *_, written_shape, **__: written_shape,
        counts_from_end=scatter.counts_from_end, drops=scatter.drops,
        asked=_without(scatter.asked, "points_shape", "written_shape"),
    )  # fmt: skip


def _as_reading(scatter: Scatter) -> Callable[..., Sequence[Entry]]:
    """Return the place of a scatter's writes, of the types that its base and updates had."""
    missing = {p for p in (scatter.base, scatter.updates) if p is not None}

    def place(
        at: At, index: Index, types: Sequence[Any], first: int, written: Shape, points: Shape,
        attrs: dict[str, Any],
    ) -> Sequence[Entry]:  # fmt: skip
        kept = [p for p in range(len(types) + len(missing)) if p not in missing]
        given: list[Any] = [None] * (len(types) + len(missing))
        for position, type in zip(kept, types, strict=True):
            given[position] = type
        for missed, shape in ((scatter.base, written), (scatter.updates, points)):
            if missed is not None:
                given[missed] = TensorType(shape, bool_)

        def read(*coordinates: Coordinate | int, of: int = 1, axes: int = 1) -> IndexRead:
            return index(*coordinates, of=first + kept.index(of), axes=axes)

        return scatter.place(at, read, *given, **attrs)

    return place


def _without(asked: Asked, *names: str) -> Asked:
    """Return whom errors name, asked without the attributes that the adjoint alone has."""
    if not callable(asked):
        return asked
    return lambda **attrs: asked(**{n: v for n, v in attrs.items() if n not in names})
