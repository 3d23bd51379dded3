"""Maps: ops that compute nothing, and only say where each element of the result comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pyrite.op.index import IndexMap
from pyrite.op.rule.rule import Rule
from pyrite.types import Number, Shape


@dataclass(frozen=True, slots=True)
class Piece:
    """The elements of a result that are those of one input, through a map of indices.

    Its bounds say which they are.  The map's shape may part axes of the result, as the axis of
    columns into taps and channels: elements count in row-major order.
    """

    index: IndexMap
    input: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Map(Rule):
    """A move: each element of the result is one of an input, or the fill.

        SHIFTED = Map(lambda x: [Piece(IndexMap(x, x, (i - 1,), (Bound(i - 1, 0, x[0]),)))])

    ``pieces(*shapes, **attrs)`` gets the shapes of the inputs and the attributes of the op.  An
    element is of the first piece whose bounds hold; where none do it is ``fill``.
    """

    name: ClassVar[str] = "map"

    pieces: Callable[..., Sequence[Piece]]
    fill: Number = 0

    def of(self, shapes: Sequence[Shape], attrs: Any) -> tuple[Piece, ...]:
        """Return the pieces for inputs of such shapes; the maps of all have one shape."""
        return tuple(self.pieces(*shapes, **attrs))


@dataclass(frozen=True, slots=True, eq=False)
class View(Rule):
    """A view: every element of the result is one of the only input, at another place.

        TRANSPOSE = View(lambda x: permuted(x, (1, 0)))

    ``index(shape, **attrs)`` is its map, without bounds.  Where it is affine, which all but
    reshapes are, strides say it and nothing is copied.
    """

    name: ClassVar[str] = "view"

    index: Callable[..., IndexMap]

    def of(self, shapes: Sequence[Shape], attrs: Any) -> tuple[Piece, ...]:
        """Return its one piece, as `Map.of` does."""
        index = self.index(shapes[0], **attrs)
        assert not index.bounds, "a view has a place for every element"
        return (Piece(index),)
