"""Adjoints of maps: what was read through a map, added up where it was read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pyrite.op.index import Bound, IndexMap, Windows, fibers
from pyrite.op.rule.map import Map, Piece, View
from pyrite.op.rule.rule import Rule
from pyrite.op.rule.window import AVERAGE, WindowFold
from pyrite.types import Shape


@dataclass(frozen=True, slots=True)
class Fiber:
    """What is added up for each element of a result.

    The map's last ``taps`` axes count candidates, of which those are added whose bounds hold, and
    not all bounds of one of the lists of ``unless``.  ``of`` is the map whose transpose it is.
    What is read is first divided by how many taps count in each of the windows of ``shares``.
    """

    of: IndexMap
    index: IndexMap
    taps: int
    unless: tuple[tuple[Bound, ...], ...] = ()
    shares: Windows | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Adjoint(Rule):
    """The transpose of a view, a move or an average, as an op of the cotangent of its result alone.

        OVERLAP_ADD = Adjoint(
            SLIDING_WINDOW,
            lambda w, *, axis, length, step: {"axis": axis, "size": w[-1], "step": step},
        )

    ``attributes(shape, **attrs)`` gives the attributes of ``of`` for a cotangent of a shape and the
    op's own; ``shapes`` likewise those of the inputs of ``of``, where it has others beside the
    one, of number ``input``, whose cotangent this is.
    """

    name: ClassVar[str] = "adjoint"

    of: View | Map | WindowFold
    attributes: Callable[..., dict[str, Any]] = lambda shape, **attrs: attrs
    input: int = 0
    shapes: Callable[..., Sequence[Shape]] | None = None

    def fibers(self, shape: Shape, result: Shape, attrs: Any) -> tuple[Fiber, ...]:
        """Return what is added up, of a cotangent of a shape, for a result of another."""
        given = self.attributes(shape, **attrs)
        if isinstance(self.of, WindowFold):
            assert self.of.fold is AVERAGE, "of folds through maps the average has an adjoint"
            return (_shares(self.of.windows(result, **given)),)
        shapes = [result] if self.shapes is None else self.shapes(shape, **attrs)
        pieces = self.of.of(shapes, given)
        return tuple(
            _fiber(piece, pieces[:n]) for n, piece in enumerate(pieces) if piece.input == self.input
        )


def _shares(windows: Windows) -> Fiber:
    found = fibers(windows.index)
    assert found is not None, f"the adjoint is known of windows that solve for them: {windows}"
    index, taps = found
    rank = len(windows.shape)
    read = IndexMap(index.shape, windows.shape, index.places[:rank], index.bounds)
    return Fiber(windows.index, read, len(taps), shares=windows)


def _fiber(piece: Piece, earlier: Sequence[Piece]) -> Fiber:
    found = fibers(piece.index)
    assert found is not None, f"the adjoint is known of maps that solve for coordinates: {piece}"
    index, taps = found
    unless = (tuple(b.at(index.places) for b in other.index.bounds) for other in earlier)
    return Fiber(piece.index, index, len(taps), tuple(unless))
