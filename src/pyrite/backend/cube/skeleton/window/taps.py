"""Folds over taps by maps of any form: each element of a result folds what its taps read.

Along the axes of taps loops run; along a row of results whole vectors are folded, without a test
where all taps of all of them are elements.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.operand import added
from pyrite.backend.cube.skeleton.along import Along, AlongConfig, Lanes, along_rows
from pyrite.backend.cube.skeleton.map.reader import (
    Coordinate,
    Reader,
    all_of,
    both,
    row_shape,
    spread,
    widest,
)
from pyrite.backend.cube.skeleton.window.axis import UNROLLED
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Value
from pyrite.kernel.ir import vector
from pyrite.op.index import Bound, IndexMap
from pyrite.types import DType, Number

State = tuple[Value, ...]


class TapFold(Protocol):
    """What is made of taps, in their order, as `pyrite.op.rule.Fold` says it."""

    @property
    def start(self) -> Sequence[tuple[Number, DType]]:
        """The state of no taps."""

    @property
    def key(self) -> Hashable:
        """What tells it from others."""

    def take(self, k: Any, x: Value, position: Value) -> State:
        """Return the state of one tap."""

    def join(self, k: Any, s: State, t: State) -> State:
        """Return the state of two, of which the first came before."""

    def end(self, k: Any, state: State) -> State:
        """Return the results."""


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of taps; of bools whether any holds."""

    dtype: DType

    @property
    def start(self) -> Sequence[tuple[Number, DType]]:
        """Nothing."""
        return ((0, self.dtype),)

    @property
    def key(self) -> Hashable:
        """All of it."""
        return self

    def take(self, k: Any, x: Value, position: Value) -> State:
        """Return the tap."""
        return (x,)

    def join(self, k: Any, s: State, t: State) -> State:
        """Return the sum."""
        return (added(s[0], t[0]),)

    def end(self, k: Any, state: State) -> State:
        """Return the sum."""
        return state


#: Bounds of which not all may hold.
Unless = tuple[tuple[Bound, ...], ...]


def fold_taps(
    launcher: Launcher, fold: TapFold, index: IndexMap, taps: int, source: CubeTensor,
    targets: Sequence[CubeTensor], *, unless: Unless = (), config: AlongConfig | None = None,
) -> None:  # fmt: skip
    """Write to each element the fold of what the last ``taps`` axes of a map read."""
    rank = len(index.shape) - taps
    rows = [target.reshaped(row_shape(index.shape[:rank])) for target in targets]
    given = [row for row in rows if row is not None]
    assert len(given) == len(targets), "a dense tensor takes any shape"

    def body(along: Along) -> None:
        _Row(along, fold, index, taps, unless).write()

    most = 1 if unless else widest([index], rank - 1)
    variant = (fold.key, index, taps, unless)
    along_rows(launcher, "taps", variant, [source], given, body, config, widest=most)


class _Row:
    """The kernel of one row of results, while it is being written."""

    def __init__(
        self, along: Along, fold: TapFold, index: IndexMap, taps: int, unless: Unless
    ) -> None:
        self.along, self.b, self.fold, self.unless = along, along.b, fold, unless
        rank = len(index.shape) - taps
        self.sizes = index.shape[rank:]
        self.reader = Reader(along.b, index, along.sources[0], along.row, rank - 1)

    def write(self) -> None:
        """Write the results of the row."""
        self.along.write(self.vector, self.fits)

    def fits(self, first: Value) -> Value | None:
        return all_of(self.b, self.reader.fits(first, self.along.width))

    def vector(self, lanes: Lanes) -> None:
        b = self.b
        start = tuple(b.const(n, vector(dtype, lanes.width)) for n, dtype in self.fold.start)
        results = self.fold.end(self.along.k, self.over((), start, lanes))
        for target, result in zip(self.along.targets, results, strict=True):
            place = target.at([*self.along.row, lanes.first])
            target.store_along(place, result, mask=lanes.mask)

    def over(self, taps: tuple[Coordinate, ...], state: State, lanes: Lanes) -> State:
        """Fold the taps along the axes that have no number yet."""
        if len(taps) == len(self.sizes):
            return self.tap(taps, state, lanes)
        size = self.sizes[len(taps)]
        with self.b.for_(0, size, carried=state, unroll=size <= UNROLLED) as loop:
            loop.yield_(*self.over((*taps, loop.index), loop.carried, lanes))
        return loop.results

    def tap(self, taps: tuple[Coordinate, ...], state: State, lanes: Lanes) -> State:
        """Fold one tap of each window, where there is one."""
        exists, within = None, None
        if lanes.width == 1 or lanes.mask is not None:
            exists, within = self.reader.tests(lanes, taps)
        for bounds in self.unless:
            held = [bound.holds(self.reader.at(lanes.first, taps)) for bound in bounds]
            before = all_of(self.b, held)
            assert before is not None, "a piece that is everywhere leaves nothing to later ones"
            exists = ~before if exists is None else exists & ~before
        x = self.reader.read(lanes, exists, within, taps)
        joined = self.fold.join(
            self.along.k, state, self.fold.take(self.along.k, x, self.number(taps))
        )
        mask = both(self.b, exists, within, lanes.width)
        if mask is None or isinstance(self.fold, Sum):
            return joined  # what is masked is read as 0
        mask = spread(self.b, mask, lanes.width)
        return tuple(self.b.select(mask, t, s) for s, t in zip(state, joined, strict=True))

    def number(self, taps: Sequence[Coordinate]) -> Value:
        """Return which tap it is, in row-major order."""
        found: Coordinate = 0
        for size, tap in zip(self.sizes, taps, strict=True):
            found = found * size + tap
        return self.b.index(found)
