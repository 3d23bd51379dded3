"""Pools: a fold over the taps of every window, for averages and maxima, sliding and adaptive.

Along the outer axes a loop runs over the taps that are elements.  Along the last axis a vector of
windows is folded at once: without masks where all their taps are elements, which is nearly always,
else with them.  What is masked is a number that changes nothing: 0 of a sum, the lowest of a
maximum.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.operand import iota
from pyrite.backend.cube.registry import lowers
from pyrite.backend.cube.skeleton.along import Along, AlongConfig, Lanes, along_rows
from pyrite.backend.cube.skeleton.fold import extremum_of, mean_over, position_of, reduce_axes
from pyrite.backend.cube.skeleton.window.axis import (
    UNROLLED,
    Axes,
    Bounds,
    Range,
    Sliding,
    counted,
    covering,
    divisor,
    flat,
    is_whole,
    sliding,
)
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Value
from pyrite.kernel.ir import WIDTHS, vector
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.op import Attributes, Op
from pyrite.types import DType, Number, int32

State = tuple[Value, ...]


class WindowFold(Protocol):
    """What a pool computes of the elements of a window."""

    @property
    def outside(self) -> Number:
        """The element that changes no state."""

    def start(self, pool: Pool, lanes: Lanes) -> State:
        """Return the state before any element."""

    def of(self, x: Value, place: Value) -> State:
        """Return the state of one element, which is at that place of its image."""

    def join(self, k: RecordingAlgebra, state: State, later: State) -> State:
        """Return the state of the elements of two states."""

    def end(self, pool: Pool, state: State, lanes: Lanes) -> State:
        """Return the results."""


class Pool:
    """The kernel of one row of windows, while it is being written."""

    def __init__(self, along: Along, axes: Axes, fold: WindowFold) -> None:
        self.along, self.axes, self.fold = along, axes, fold
        self.b, self.k = along.b, along.k
        (self.source,) = along.sources
        self.image, self.row = along.row[:2], [self.b.index(o) for o in along.row[2:]]
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
        state = self.over(0, [], self.fold.start(self, lanes), lanes)
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
                state = self.join(loop.carried, self.fold.of(x, self.place([*at, position])))
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

    def found(self, at: list[Value], start: Value, lanes: Lanes) -> Callable[[Value | int], State]:
        """Return what reads a tap of neighbouring windows, the first of which begins there."""
        axis = self.axes[-1]
        assert isinstance(axis, Sliding), "adaptive windows are folded one by one"
        steps = iota(self.b, lanes.width) * axis.stride

        def tap(number: Value | int) -> State:
            first = start + number * axis.dilation
            mask = None if lanes.mask is None else lanes.mask & self.inside(first + steps)
            x = self.read(at, first, axis.stride, lanes.width, mask)
            return self.fold.of(x, self.place([*at, first + steps]))

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
            x = b.make([run[v][n - begins[v]] for v, n in zip(vectors, numbers, strict=True)])
            return self.fold.of(x, self.place([*at, start + number + iota(b, width) * stride]))

        return tap

    def inside(self, positions: Value) -> Value:
        """Return whether positions along a row are elements."""
        return (positions >= 0) & (positions < self.axes[-1].size)

    def read(
        self, at: list[Value], first: Value, stride: int, width: int, mask: Value | None
    ) -> Value:
        """Return the elements of a row a stride apart, the outside one where there is none."""
        place = self.source.at([*self.image, *at, first])
        x = self.source.load_along(place, width, step=stride, mask=mask)
        if mask is None or self.fold.outside == 0:
            return x
        return self.b.select(mask, x, self.fold.outside)

    def place(self, at: Sequence[Value]) -> Value:
        """Return the flat position in an image."""
        return flat(at, [axis.size for axis in self.axes])


# ---- folds ----


@dataclass(frozen=True, slots=True)
class Maximum:
    """The greatest element, the first of equals, NaN before numbers; maybe with its place.

    ``tells_nan`` says that comparisons on this device do, as WGSL's need not.
    """

    dtype: DType
    has_places: bool
    tells_nan: bool

    @property
    def outside(self) -> Number:
        """The lowest; it is never greater than the best so far."""
        return self.dtype.lowest

    def start(self, pool: Pool, lanes: Lanes) -> State:
        """Return the lowest number, as if it were at the first element."""
        best = pool.b.const(self.dtype.lowest, vector(self.dtype, lanes.width))
        if not self.has_places:
            return (best,)
        windows = [*pool.row, lanes.positions]
        firsts = [a.first_element(pool.b, o) for a, o in zip(pool.axes, windows, strict=True)]
        return best, pool.place(firsts)

    def of(self, x: Value, place: Value) -> State:
        """Return the element, and its place."""
        return (x, place) if self.has_places else (x,)

    def join(self, k: RecordingAlgebra, state: State, later: State) -> State:
        """Return the greater."""
        wins = self.beats(k, later[0], state[0])
        return tuple(k.builder.select(wins, x, y) for x, y in zip(later, state, strict=True))

    def beats(self, k: RecordingAlgebra, x: Value, best: Value) -> Value:
        if not x.dtype.is_float:
            return x > best
        if self.tells_nan:
            return ~(x <= best) & (best == best)
        return ((x > best) | k.isnan(x)) & ~k.isnan(best)

    def end(self, pool: Pool, state: State, lanes: Lanes) -> State:
        """Return the element, and its place."""
        best, *found = state
        return best, *(pool.b.cast(place, int32) for place in found)


@dataclass(frozen=True, slots=True)
class Mean:
    """The sum over how many elements of a window count: those of the given bounds of each axis."""

    dtype: DType
    bounds: Bounds

    @property
    def outside(self) -> Number:
        """Nothing."""
        return 0

    def start(self, pool: Pool, lanes: Lanes) -> State:
        """Return 0."""
        return (pool.b.const(0, vector(self.dtype, lanes.width)),)

    def of(self, x: Value, place: Value) -> State:
        """Return the element."""
        return (x,)

    def join(self, k: RecordingAlgebra, state: State, later: State) -> State:
        """Return the sum."""
        return (state[0] + later[0],)

    def end(self, pool: Pool, state: State, lanes: Lanes) -> State:
        """Return the sum divided."""
        windows = [*pool.row, lanes.positions]
        axes = [axis for axis in pool.axes if isinstance(axis, Sliding)]  # which is all of them
        return (state[0] / divisor(pool.b, axes, windows, self.bounds, self.dtype),)


# ---- launching ----


def widest(axes: Axes) -> int:
    """Return how many windows of a row may be folded together: adaptive ones differ in length."""
    return WIDTHS[-1] if isinstance(axes[-1], Sliding) else 1


def pool(
    launcher: Launcher,
    fold: WindowFold,
    axes: Axes,
    x: CubeTensor,
    targets: Sequence[CubeTensor],
    config: AlongConfig | None = None,
) -> None:
    """Write the folds of all windows of x, (N, C, *sizes), to targets (N, C, *counts)."""

    def body(along: Along) -> None:
        Pool(along, axes, fold).write()

    along_rows(launcher, "pool", (fold, axes), [x], targets, body, config, widest=widest(axes))


# ---- the ops ----


@lowers("max_pool_with_indices", "max_pool")
def max_pool(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The maxima of windows, and where they are if that is asked for."""
    (x,) = inputs
    windows = (attrs[name] for name in ("kernel_size", "stride", "padding", "dilation"))
    axes = sliding(x.shape[2:], out[0].shape[2:], *windows)
    return _maxima(launcher, axes, x, out)


@lowers("adaptive_max_pool_with_indices")
def adaptive_max_pool(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The maxima of as many windows as asked for, and where they are."""
    (x,) = inputs
    return _maxima(launcher, covering(op.name, x.shape[2:], out[0].shape[2:]), x, out)


def _maxima(launcher: Launcher, axes: Axes, x: CubeTensor, out: Any) -> Sequence[CubeTensor]:
    if is_whole(axes):
        spatial, dtype = tuple(range(2, len(x.shape))), x.dtype.compute
        folds = [extremum_of("max", dtype), position_of("argmax", dtype)]
        return [
            reduce_axes(launcher, f, x, spatial, type) for f, type in zip(folds, out, strict=False)
        ]
    targets = [launcher.empty(type) for type in out]
    tells_nan = launcher.machine.kind == "cpu"
    fold = Maximum(x.dtype.compute, has_places=len(targets) > 1, tells_nan=tells_nan)
    pool(launcher, fold, axes, x, targets)
    return targets


@lowers("avg_pool")
def avg_pool(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The means of windows."""
    (x,) = inputs
    windows = (attrs[name] for name in ("kernel_size", "stride", "padding"))
    axes = sliding(x.shape[2:], out[0].shape[2:], *windows)
    if is_whole(axes):
        return [mean_over(launcher, x, tuple(range(2, len(x.shape))), out[0])]
    target = launcher.empty(out[0])
    bounds = counted(x.shape[2:], attrs["padding"], count_include_pad=attrs["count_include_pad"])
    pool(launcher, Mean(x.dtype.compute, bounds), axes, x, [target])
    return [target]
