"""Sums of windows back where they came from: col2im.

Every element sums what the windows over it hold, in a fixed order, so no two invocations write to
one place.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.operand import Operand, added, iota
from pyrite.backend.cube.skeleton.along import Along, AlongConfig, Block, Lanes, along_rows
from pyrite.backend.cube.skeleton.window.axis import (
    UNROLLED,
    Range,
    Sliding,
)
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Value
from pyrite.kernel.ir import vector


@dataclass(frozen=True, slots=True)
class Cells:
    """A tap of a window, or a vector of them: its number and the window's along each axis.

    With ``is_run`` the last window is the first of neighbours, of which the same tap is meant.
    """

    taps: tuple[Value, ...]
    windows: tuple[Value, ...]
    is_run: bool = False
    mask: Value | None = None

    def along(self, tap: Value, window: Value) -> Cells:
        """Return them with one axis more."""
        return Cells((*self.taps, tap), (*self.windows, window))


class Folding:
    """The kernel of one row of elements, while it is being written.

    ``held`` gives what is added of cells that lie over the elements at ``positions``.
    """

    def __init__(self, along: Along, axes: tuple[Sliding, ...], held: Held) -> None:
        self.along, self.axes, self.held = along, axes, held
        self.b = along.b
        self.lead = len(along.row) + 1 - len(axes)
        self.row = [self.b.index(p) for p in along.row[self.lead :]]
        self.windows: list[Range] = [
            axis.over(self.b, p) for axis, p in zip(axes, self.row, strict=False)
        ]
        #: The elements whose sums are being made; the last is a vector if they are several.
        self.positions: list[Value] = []

    def write(self, end: Callable[[Value], Value]) -> None:
        """Write what ``end`` makes of the sums of the row."""
        row = self.neighbours if self.axes[-1].stride == 1 else self.steps

        def write(lanes: Lanes) -> None:
            total = end(self.sums(lanes.positions, partial(row, lanes)))
            self.store(lanes.first, total, mask=lanes.mask)

        self.along.write(write, self.fits, self.block(end))

    def sums(self, last: Value, row: Row) -> Value:
        """Return the sums of elements at positions along the row, the last axis done by ``row``."""
        (target,) = self.along.targets
        self.positions = [*self.row, last]
        zero = self.b.const(0, vector(target.layout.dtype.compute, last.width))
        return self.over(Cells((), ()), zero, row)

    def store(self, first: Value, total: Value, *, mask: Value | None = None) -> None:
        (target,) = self.along.targets
        target.store_along(target.at([*self.along.row, first]), total, mask=mask)

    def fits(self, first: Value) -> Value | None:
        """Return whether all taps over a vector of elements are of windows that exist."""
        axis = self.axes[-1]
        if axis.stride > 1:
            return None
        lowest, highest = axis.before - (axis.span - 1), axis.before + self.along.width - 1
        return (first + lowest >= 0) & (first + highest < axis.count)

    def over(self, cells: Cells, total: Value, row: Row) -> Value:
        """Add what cells hold along the axes that they lack yet."""
        number = len(cells.windows)
        axis, is_last = self.axes[number], number == len(self.axes) - 1
        position = self.positions[number]
        if position.width > 1:
            return row(cells, total)
        low, high = axis.over(self.b, position) if is_last else self.windows[number]

        def inner(distance: Value, window: Value, so_far: Value) -> Value:
            found = cells.along(distance // axis.dilation, window)
            if is_last:
                return added(so_far, self.held(self, found))
            return self.over(found, so_far, row)

        with self.b.for_(low, high, carried=[total]) as loop:
            distance = position + axis.before - loop.index * axis.stride
            loop.yield_(self.where_tap(axis, distance, loop.index, loop.carried[0], inner))
        return loop.results[0]

    def where_tap(
        self, axis: Sliding, distance: Value, window: Value, total: Value,
        inner: Callable[[Value, Value, Value], Value],
    ) -> Value:  # fmt: skip
        """Run ``inner`` if a tap is at that distance from the beginning of a window."""
        if axis.dilation == 1:
            return inner(distance, window, total)
        with self.b.if_(distance % axis.dilation == 0) as branch:
            branch.yield_(inner(distance, window, total))
        with branch.else_():
            branch.yield_(total)
        return branch.results[0]

    def neighbours(self, lanes: Lanes, cells: Cells, total: Value) -> Value:
        """Add tap after tap along a row whose windows are as far apart as its elements."""
        axis, b = self.axes[-1], self.b
        is_short = axis.kernel <= UNROLLED
        with b.for_(0, axis.kernel, carried=[total], unroll=is_short) as loop:
            first = lanes.first + axis.before - loop.index * axis.dilation
            mask = None
            if lanes.mask is not None:
                mask = lanes.mask & axis.has(first + iota(b, lanes.width))
            found = Cells((*cells.taps, loop.index), (*cells.windows, first), True, mask)
            loop.yield_(added(loop.carried[0], self.held(self, found)))
        return loop.results[0]

    def steps(self, lanes: Lanes, cells: Cells, total: Value) -> Value:
        """Add window after window along a row, for neighbours that lie in different ones."""
        axis, b = self.axes[-1], self.b
        ends = lanes.positions + axis.before
        last, rest = ends // axis.stride, ends % axis.stride
        rounds = -(-axis.span // axis.stride)
        with b.for_(0, rounds, carried=[total], unroll=rounds <= UNROLLED) as loop:
            windows, distance = last - loop.index, rest + loop.index * axis.stride
            mask = axis.has(windows) & (distance < axis.span)
            if axis.dilation > 1:
                mask = mask & (distance % axis.dilation == 0)
            if lanes.mask is not None:
                mask = mask & lanes.mask
            tap = distance // axis.dilation
            found = Cells((*cells.taps, tap), (*cells.windows, windows), False, mask)
            loop.yield_(added(loop.carried[0], self.held(self, found)))
        return loop.results[0]

    def block(self, end: Callable[[Value], Value]) -> Block | None:
        """Return how as many vectors as windows are apart are summed: each phase is a run."""
        axis, width, b = self.axes[-1], self.along.width, self.b
        stride, (skipped, phase) = axis.stride, divmod(axis.before, axis.stride)
        if width == 1 or not axis.is_near:
            return None

        def fits(first: Value) -> Value:
            last = first // stride + skipped
            lowest, highest = -((axis.span - 1) // stride), width - 1 + (phase > 0)
            return (last + lowest >= 0) & (last + highest < axis.count)

        def row(rest: int, window: Value, is_masked: bool, cells: Cells, total: Value) -> Value:
            for back, tap in enumerate(range(rest, axis.kernel, stride)):
                first, mask = window - back, None
                if is_masked:
                    mask = axis.has(first + iota(b, width))
                found = Cells((*cells.taps, b.index(tap)), (*cells.windows, first), True, mask)
                total = added(total, self.held(self, found))
            return total

        def write(first: Value, is_masked: bool) -> None:
            sums = []
            # Element i of each stride is (phase + i) % stride behind the start of its last window.
            for i in range(stride):
                over, rest = divmod(phase + i, stride)
                positions = first + i + iota(b, width) * stride
                last = first // stride + (skipped + over)
                sums.append(end(self.sums(positions, partial(row, rest, last, is_masked))))
            for start in range(0, width * stride, width):
                numbers = range(start, start + width)
                total = b.make([sums[n % stride][n // stride] for n in numbers])
                begin = first + start
                mask = begin + iota(b, width) < self.along.length if is_masked else None
                self.store(begin, total, mask=mask)

        return Block(stride, fits, write)

    def load(self, x: Operand, cells: Cells, *, has_taps: bool) -> Value:
        """Return the elements of (N, C, *taps, *windows), or of (N, C, *windows), at cells."""
        taps = cells.taps if has_taps else ()
        place = x.at([*self.along.row[: self.lead], *taps, *cells.windows])
        if cells.is_run:
            return x.load_along(place, self.along.width, mask=cells.mask)
        return x.load(place, mask=cells.mask)


Held = Callable[[Folding, Cells], Value]
#: Adds what cells hold along the last axis, given those along the others.
Row = Callable[[Cells, Value], Value]


def fold(
    launcher: Launcher,
    name: str,
    variant: Hashable,
    axes: tuple[Sliding, ...],
    sources: Sequence[CubeTensor],
    target: CubeTensor,
    held: Held,
    *,
    end: Callable[[Value], Value] = lambda total: total,
    config: AlongConfig | None = None,
) -> None:
    """Write to each element of a target (N, C, *sizes) the sum of what windows over it hold.

    ``name`` and ``variant`` tell ``held`` and ``end`` from others.
    """

    def body(along: Along, problem: tuple[tuple[Sliding, ...], Hashable]) -> None:
        Folding(along, problem[0], held).write(end)

    vectors = axes[-1].stride if axes[-1].is_near else 1
    along_rows(
        launcher,
        name,
        (axes, variant),
        sources,
        [target],
        body,
        config,
        vectors=vectors,
        knows_first=True,
    )
