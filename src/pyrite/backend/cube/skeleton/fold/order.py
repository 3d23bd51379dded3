"""In which order a fold joins its elements: a function of shape, axes, dtype and machine alone.

A sum of floats has the bits of the order in which it was added.  So that a fold has the same bits
alone, fused with what stands around it, and of an operand that lies in any way, there is one order
for all kernels of a processor, and none of them chooses: they go over memory as they like.

Axes of size 1 left out, and neighbours of one kind taken as one, the last axis is reduced or kept:

- It is reduced: the fold is along *rows*.  Of each piece, a run along the last axis, element ``i``
  goes to lane ``i % lanes``, but behind whole turns of all lanes, and in a row of one turn, to lane
  ``i % vector``.  Lanes are joined by halves at the end of a segment: some pieces, or part of one
  that is long.
- It is kept: the fold is along *columns*, and each element is a segment of its own.

Segments are joined in their order, from the state of none on: ``FIRST`` in a block, and blocks in
blocks of ``BLOCK``.  Where pieces are short, or few and all lanes would not meet, they are one.

GPUs have no order: there each kernel adds up in the one that is fastest for it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pyrite.backend.cube.skeleton.fold.fold import KernelFold, joins_by_choice
from pyrite.cached import cached
from pyrite.kernel.machine import Machine
from pyrite.recent import KERNELS, Recent
from pyrite.types import Shape, element_count

#: Which side has the elements of a vector.
Along = Literal["rows", "columns"]

#: How many vectors of a row are taken in side by side: an addition waits for the one before it.
VECTORS: Final = 4
#: How many turns of all lanes a segment has at most.  Each of n equal float32 that are added one
#: after the other costs half a rounding of the sum so far, all in one direction.
STEPS: Final = 256
#: Segments in a block, and blocks in one of the next level.  As many rows are folded at once where
#: a kernel goes along them.
FIRST: Final = 32
BLOCK: Final = 128
#: Shorter pieces are copied together.
LEAST_PIECE: Final = 4


@dataclass(frozen=True, slots=True)
class FoldOrder:
    """The order of a fold: so many ``pieces`` of a ``size``; columns have one.

    ``vector`` lanes lie side by side, and ``lanes`` are all of them.
    """

    along: Along
    pieces: int
    size: int
    vector: int

    @property
    def lanes(self) -> int:
        """How many elements of a row go to lanes of their own."""
        return VECTORS * self.vector

    @property
    def lanes_of_piece(self) -> int:
        """How many lanes the elements of a piece go to: what is no whole turn goes to a vector.

        A row of one turn too: kernels have it in registers, vector by vector, as shorter ones.
        """
        is_rest = self.size <= self.lanes if self.pieces == 1 else self.size < self.lanes
        return self.vector if is_rest else self.lanes

    @property
    def together(self) -> int:
        """How many pieces a segment has; 1 also where it is part of one."""
        whole, rest = divmod(self.size, self.lanes)
        return max(1, STEPS // max(1, whole + -(-rest // self.vector)))

    @property
    def is_cut(self) -> bool:
        """Whether a piece has several segments."""
        return self.size > STEPS * self.lanes

    @property
    def segments(self) -> int:
        """How many segments there are."""
        if self.along == "columns":
            return self.size
        if self.is_cut:
            return self.pieces * -(-self.size // (STEPS * self.lanes))
        return -(-self.pieces // self.together)


@cached(4096)
def order_of(shape: Shape, axes: tuple[int, ...], machine: Machine) -> FoldOrder:
    """Return the order of a fold over axes of a shape on a processor.

    >>> order_of((64, 8, 28, 28), (0, 2, 3), Machine.cpu())
    FoldOrder(along='rows', pieces=64, size=784, vector=8)
    >>> order_of((128, 1, 10), (0,), Machine.cpu())
    FoldOrder(along='columns', pieces=1, size=128, vector=8)
    """
    runs: list[tuple[bool, int]] = []
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        is_reduced = axis in axes
        if runs and runs[-1][0] is is_reduced:
            size *= runs.pop()[1]
        runs.append((is_reduced, size))
    reduced = [size for is_reduced, size in runs if is_reduced]
    count = element_count(tuple(reduced))
    if runs and not runs[-1][0]:
        return FoldOrder("columns", 1, count, machine.vector)
    size = runs[-1][1] if runs else 1
    if len(reduced) > 1 and (count <= VECTORS * machine.vector or size < LEAST_PIECE):
        size = count
    return FoldOrder("rows", count // size, size, machine.vector)


def levels_of(segments: int, first: int = FIRST) -> int:
    """Return how many loops, one inside another, join so many segments.

    >>> levels_of(32), levels_of(33), levels_of(4097)
    (1, 2, 3)
    """
    levels, most = 1, first
    while segments > most:
        levels, most = levels + 1, most * BLOCK
    return levels


def span_of(levels: int, first: int = FIRST) -> int:
    """Return how many segments a turn of the outermost of so many loops takes."""
    return 1 if levels == 1 else first * BLOCK ** (levels - 2)


#: Whether folds give other bits in another order, by what their kernels depend on.
_SENSITIVE: Final[Recent[Hashable, bool]] = Recent(KERNELS)


def has_order(fold: KernelFold, count: int) -> bool:
    """Whether a fold of so many elements has other bits in another order.

    Integers wrap around, and extrema choose; a fold of one element has one order.
    """
    if count == 1:
        return False
    found = _SENSITIVE.get(fold.key_of_any_count)
    if found is None:
        found = not joins_by_choice(fold)
        _SENSITIVE.put(fold.key_of_any_count, found)
    return found


def fold_order(
    fold: KernelFold, shape: Shape, axes: Sequence[int], machine: Machine
) -> FoldOrder | None:
    """Return the order of a fold over axes; None where any gives the same bits, and on GPUs."""
    if machine.kind == "gpu":
        return None
    order = order_of(shape, tuple(axes), machine)
    return order if has_order(fold, order.pieces * order.size) else None
