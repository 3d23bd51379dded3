"""Folds over taps by maps of any form: each element of a result folds what its taps read.

Along the axes of taps loops run; along a row of results whole vectors are folded, without a test
where all taps of all of them are elements.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.operand import added
from pyrite.backend.cube.skeleton.along import Along, AlongConfig, Lanes, along_rows
from pyrite.backend.cube.skeleton.fold import KernelFold
from pyrite.backend.cube.skeleton.map.reader import (
    Coordinate,
    Reader,
    all_of,
    both,
    require_counted,
    row_shape,
    spread,
    widest,
)
from pyrite.backend.cube.skeleton.window.axis import UNROLLED
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Value
from pyrite.kernel.ir import vector
from pyrite.op.index import Bound, Windows
from pyrite.op.rule.window import count_dtype
from pyrite.types import DType, Number, int32

State = tuple[Value, ...]


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
    launcher: Launcher, fold: KernelFold | Sum, windows: Windows, source: CubeTensor,
    targets: Sequence[CubeTensor], *, unless: Unless = (), config: AlongConfig | None = None,
) -> None:  # fmt: skip
    """Write to each element of the targets the fold of its taps."""
    rows = [target.reshaped(row_shape(windows.shape)) for target in targets]
    given = [row for row in rows if row is not None]
    assert len(given) == len(targets), "a dense tensor takes any shape"
    simple = replace(windows, index=windows.index.simplified)
    require_counted("a fold of windows", [simple.index])

    def body(along: Along, problem: Hashable) -> None:
        along.k.tells_nan = launcher.machine.kind == "cpu"
        _Row(along, fold, simple, unless).write()

    most = 1 if unless else widest([simple.index], len(simple.shape) - 1)
    variant = (fold.key, simple, unless)
    along_rows(
        launcher, "taps", variant, [source], given, body, config, widest=most, knows_first=True
    )


class _Row:
    """The kernel of one row of results, while it is being written."""

    def __init__(
        self, along: Along, fold: KernelFold | Sum, windows: Windows, unless: Unless
    ) -> None:
        self.along, self.b, self.fold, self.unless = along, along.b, fold, unless
        self.windows, self.sizes = windows, windows.sizes
        self.reader = Reader(
            along.b, windows.index, along.sources[0], along.row, len(windows.shape) - 1
        )
        named = fold.bound.end_names if isinstance(fold, KernelFold) else frozenset()
        self.counts = "count" in named and windows.common_count is None
        self.finds_first = "first" in named

    def write(self) -> None:
        """Write the results of the row."""
        self.along.write(self.vector, self.fits)

    def fits(self, first: Value) -> Value | None:
        return all_of(self.b, self.reader.fits(first, self.along.width))

    def vector(self, lanes: Lanes) -> None:
        state = self.over((), self.start(lanes), lanes)
        results = self.ended(state).end(self.along.k, state[: len(self.fold.start)])
        for target, result in zip(self.along.targets, results, strict=True):
            place = target.at([*self.along.row, lanes.first])
            target.store_along(place, result, mask=lanes.mask)

    def start(self, lanes: Lanes) -> State:
        """Return the state of no taps, and behind it their number and the first position."""
        extra = [(0, self.dtype)] * self.counts + [(-1, int32)] * self.finds_first
        return tuple(
            self.b.const(number, vector(dtype, lanes.width))
            for number, dtype in (*self.fold.start, *extra)
        )

    @property
    def dtype(self) -> DType:
        return count_dtype(self.along.sources[0].layout.dtype.compute)

    def ended(self, state: State) -> KernelFold | Sum:
        """Return the fold with what its end names."""
        if isinstance(self.fold, Sum):
            return self.fold
        extra = list(state[len(self.fold.start) :])
        common = self.windows.common_count
        count = extra.pop(0) if self.counts else None if common is None else float(common)
        first = extra.pop(0) if self.finds_first else None
        return replace(self.fold, bound=self.fold.bound.ending(count=count, first=first))

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
        mask = both(self.b, exists, within, lanes.width)
        k, own = self.along.k, len(self.fold.start)
        position = self.position(lanes, taps)
        joined = self.fold.join(k, state[:own], self.fold.take(k, x, position))
        if mask is not None and not isinstance(self.fold, Sum):  # what is masked is read as 0
            mask = spread(self.b, mask, lanes.width)
            pairs = zip(state[:own], joined, strict=True)
            joined = tuple(self.b.select(mask, t, s) for s, t in pairs)
        return (*joined, *self.noted(list(state[own:]), lanes, taps, mask, position))

    def noted(
        self, extra: list[Value], lanes: Lanes, taps: Sequence[Coordinate], mask: Value | None,
        position: Value,
    ) -> list[Value]:  # fmt: skip
        """Return the number of taps so far, and the first position, with one tap more."""
        found, b = [], self.b
        if self.counts:
            count = extra.pop(0)
            at = self.reader.at(lanes.positions, taps)
            counts = all_of(b, [bound.holds(at) for bound in self.windows.counting])
            one = count + 1
            found.append(
                one if counts is None else b.select(self.spread(counts, lanes), one, count)
            )
        if self.finds_first:
            first = extra.pop(0)
            is_first = first < 0 if mask is None else (first < 0) & mask
            found.append(b.select(is_first, position, first))
        return found

    def spread(self, x: Value, lanes: Lanes) -> Value:
        return spread(self.b, x, lanes.width)

    def position(self, lanes: Lanes, taps: Sequence[Coordinate]) -> Value:
        """Return the position of a tap of each window."""
        at = self.reader.at(lanes.positions, taps)
        return spread(
            self.b, self.b.cast(self.b.index(self.windows.place.at(at)), int32), lanes.width
        )
