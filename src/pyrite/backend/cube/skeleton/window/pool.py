"""Pools: folds over the taps of windows that slide over the last axes of an image, or cover them.

Along the outer axes a loop runs over the taps that are elements.  Along the last axis a vector of
windows is folded at once: without masks where all their taps are elements, which is nearly always,
else with them.  What is masked is an element that changes nothing, or the state of none.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.operand import iota
from pyrite.backend.cube.skeleton.along import Along, AlongConfig, Lanes, along_rows
from pyrite.backend.cube.skeleton.fold import KernelFold, State
from pyrite.backend.cube.skeleton.window.axis import (
    UNROLLED,
    Axes,
    Bounds,
    Range,
    Sliding,
    divisor,
    flat,
)
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import KernelBuilder, Value
from pyrite.kernel.extent import extent
from pyrite.kernel.ir import WIDTHS
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.op.rule.fold import Start
from pyrite.types import DType, Number


@dataclass(frozen=True, slots=True)
class PoolFold:
    """A fold of windows: of a rule's fold what a pool asks of it.

    ``dtype`` is that of counts, ``bounds`` which positions of each axis count, and ``neutral`` an
    element that changes no state.
    """

    fold: KernelFold
    dtype: DType
    bounds: Bounds
    neutral: Number | None = None

    @property
    def start(self) -> Start:
        """The state of no elements."""
        return self.fold.start

    def empty(self, b: KernelBuilder, width: int) -> State:
        """Return the state of no elements, as often as wanted."""
        return self.fold.empty(b, width)

    def take(self, k: RecordingAlgebra, x: Value, place: Value) -> State:
        """Return the states of elements at places of their image."""
        return self.fold.take(k, x, place)

    def join(self, k: RecordingAlgebra, state: State, later: State) -> State:
        """Return the states of both, of which the second is of later elements."""
        return self.fold.join(k, state, later)

    def end(self, pool: Pool, state: State, lanes: Lanes) -> State:
        """Return the results of windows."""
        b, windows = pool.b, [*pool.row, lanes.positions]
        given: dict[str, Value | int] = {}
        if "count" in self.fold.bound.end_names:
            given["count"] = divisor(b, pool.axes, windows, self.bounds, self.dtype)
        if "first" in self.fold.bound.end_names:
            axes = zip(pool.axes, windows, strict=True)
            given["first"] = pool.place([axis.first_element(b, o) for axis, o in axes])
        return replace(self.fold, bound=self.fold.bound.ending(**given)).end(pool.k, state)


class Pool:
    """The kernel of one row of windows, while it is being written."""

    def __init__(self, along: Along, axes: Axes, fold: PoolFold) -> None:
        self.along, self.axes, self.fold = along, axes, fold
        self.b, self.k = along.b, along.k
        (self.source,) = along.sources
        lead = len(along.row) + 1 - len(axes)
        self.image, self.row = along.row[:lead], [self.b.index(o) for o in along.row[lead:]]
        self.taps: list[Range] = [
            axis.taps(self.b, o) for axis, o in zip(axes, self.row, strict=False)
        ]

    def write(self) -> None:
        """Write the results of the row."""
        self.along.write(self.vector, self.fits)

    def fits(self, first: Value) -> Value | None:
        last = self.axes[-1]
        assert isinstance(last, Sliding), "adaptive windows are folded one by one"
        return last.fits(first, self.along.width)

    def vector(self, lanes: Lanes) -> None:
        state = self.over(0, [], self.fold.empty(self.b, lanes.width), lanes)
        results = self.fold.end(self, state, lanes)
        for target, result in zip(self.along.targets, results, strict=True):
            place = target.at([*self.along.row, lanes.first])
            target.store_along(place, result, mask=lanes.mask)

    def over(self, number: int, at: list[Value], state: State, lanes: Lanes) -> State:
        """Fold the taps along the axes from ``number`` on, at positions of those before."""
        axis = self.axes[number]
        is_last = number == len(self.axes) - 1
        if is_last and lanes.width > 1:
            return self.along_row(at, state, lanes)
        o = lanes.first if is_last else self.row[number]
        low, high = axis.taps(self.b, o) if is_last else self.taps[number]
        start = axis.start(o)
        with self.b.for_(low, high, carried=state) as loop:
            position = start + loop.index * axis.dilation
            if is_last:
                x = self.source[[*self.image, *at, position]]
                state = self.join(loop.carried, self.taken(x, self.place([*at, position])))
            else:
                state = self.over(number + 1, [*at, position], loop.carried, lanes)
            loop.yield_(*state)
        return loop.results

    def along_row(self, at: list[Value], state: State, lanes: Lanes) -> State:
        """Fold the taps of one row of neighbouring windows."""
        axis = self.axes[-1]
        assert isinstance(axis, Sliding), "adaptive windows are folded one by one"
        start = axis.start(lanes.first)
        if axis.kernel <= UNROLLED:
            is_picked = axis.is_near and self.source.layout.strides[-1] == 1
            tap = (self.picked if is_picked else self.found)(at, start, lanes)
            # A row is folded by itself first, so that it need not wait for the rows before.
            row = functools.reduce(self.join, map(tap, range(axis.kernel)))
            return self.join(state, row)
        tap = self.found(at, start, lanes)
        with self.b.for_(0, axis.kernel, carried=state) as loop:
            loop.yield_(*self.join(loop.carried, tap(loop.index)))
        return loop.results

    def join(self, state: State, later: State) -> State:
        return self.fold.join(self.k, state, later)

    def taken(self, x: Value, place: Value, mask: Value | None = None) -> State:
        """Return the state of elements, or that of none where they are masked."""
        state = self.fold.take(self.k, x, place)
        if mask is None or self.fold.neutral is not None:
            return state
        pairs = zip(state, self.fold.start, strict=True)
        return tuple(self.b.select(mask, value, number) for value, (number, _) in pairs)

    def found(self, at: list[Value], start: Value, lanes: Lanes) -> Callable[[Value | int], State]:
        """Return what reads a tap of neighbouring windows, the first of which begins there."""
        axis = self.axes[-1]
        assert isinstance(axis, Sliding), "adaptive windows are folded one by one"
        steps = iota(self.b, lanes.width) * axis.stride

        def tap(number: Value | int) -> State:
            first = start + number * axis.dilation
            mask = None if lanes.mask is None else lanes.mask & self.inside(first + steps)
            x = self.read(at, first, axis.stride, lanes.width, mask)
            return self.taken(x, self.place([*at, first + steps]), mask)

        return tap

    def picked(self, at: list[Value], start: Value, lanes: Lanes) -> Callable[[int], State]:
        """Read the run of elements under neighbouring windows; return what finds a tap in it."""
        axis, b, width = self.axes[-1], self.b, lanes.width
        assert isinstance(axis, Sliding), "adaptive windows are folded one by one"
        stride = axis.stride
        size = (width - 1) * stride + axis.kernel
        # The last vector ends with the run, and may say again what the one before it says.
        begins = [*range(0, size - width, width), size - width]
        run = []
        for begin in begins:
            first = start + begin
            mask = None if lanes.mask is None else self.inside(first + iota(b, width))
            run.append(self.read(at, first, 1, width, mask))

        def tap(number: int) -> State:
            numbers = [i * stride + number for i in range(width)]
            vectors = [min(n // width, len(run) - 1) for n in numbers]
            steps = start + number + iota(b, width) * stride
            x = b.make([run[v][n - begins[v]] for v, n in zip(vectors, numbers, strict=True)])
            mask = None if lanes.mask is None else self.inside(steps)
            return self.taken(x, self.place([*at, steps]), mask)

        return tap

    def inside(self, positions: Value) -> Value:
        """Return whether positions along a row are elements."""
        return (positions >= 0) & (positions < self.axes[-1].size)

    def read(
        self, at: list[Value], first: Value, stride: int, width: int, mask: Value | None
    ) -> Value:
        """Return the elements of a row a stride apart, a neutral one where there is none."""
        place = self.source.at([*self.image, *at, first])
        x = self.source.load_along(place, width, step=stride, mask=mask)
        if mask is None or not self.fold.neutral:
            return x
        return self.b.select(mask, x, self.fold.neutral)

    def place(self, at: Sequence[Value]) -> Value:
        """Return the flat position in an image."""
        return flat(at, [axis.size for axis in self.axes])


# ---- launching ----


@dataclass(frozen=True, slots=True)
class _Problem:
    """All that a pool depends on, besides its operands."""

    fold: Hashable
    dtype: DType
    neutral: Number | None
    axes: Axes
    bounds: Bounds = extent()


def widest(axes: Axes) -> int:
    """Return how many windows of a row may be folded together: covering ones differ in length."""
    return WIDTHS[-1] if isinstance(axes[-1], Sliding) else 1


def pool(
    launcher: Launcher,
    fold: PoolFold,
    axes: Axes,
    x: CubeTensor,
    targets: Sequence[CubeTensor],
    config: AlongConfig | None = None,
) -> None:
    """Write the folds of all windows of x, whose last axes they go over, to targets."""

    def body(along: Along, problem: _Problem) -> None:
        along.k.tells_nan = launcher.machine.kind == "cpu"
        Pool(along, problem.axes, replace(fold, bounds=problem.bounds)).write()

    problem = _Problem(fold.fold.key, fold.dtype, fold.neutral, axes, fold.bounds)
    along_rows(
        launcher, "pool", problem, [x], targets, body, config, widest=widest(axes), knows_first=True
    )
