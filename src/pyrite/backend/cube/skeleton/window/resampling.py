"""Axes read anew by tables of taps: interpolation, its gradient, adaptive means.

An element is a weighted sum over the taps of each axis, one axis inside the other.  Along the last
axis its taps lie anywhere in a row, and a read of a vector is one of each element.  So where a row
of results reads several rows, these are first summed into one, whole vectors at a time, in private
memory; `ResamplingConfig` says whether.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.operand import iota
from pyrite.backend.cube.skeleton.along import Along, AlongConfig, Lanes, along_rows
from pyrite.backend.cube.skeleton.along import candidates as along_candidates
from pyrite.backend.cube.skeleton.along import select as select_along
from pyrite.backend.cube.skeleton.row import MOST_KEPT
from pyrite.backend.cube.skeleton.window.axis import UNROLLED
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Memory, Value
from pyrite.kernel.extent import EXTENT, extent
from pyrite.kernel.ir import vector
from pyrite.types import Shape

# ---- configs ----


@dataclass(frozen=True, slots=True)
class Line:
    """An axis that is read anew: ``count`` elements of ``taps`` each, from ``first`` of a table."""

    axis: int
    count: int = field(metadata=EXTENT)
    taps: int
    first: int = extent()


@dataclass(frozen=True, slots=True)
class ResamplingConfig:
    """The elements of a unit, and whether rows that are read together are summed into one first."""

    along: AlongConfig
    sums_rows: bool


def candidates(
    x: CubeTensor, lines: Sequence[Line], shape: Shape, machine: Machine
) -> list[ResamplingConfig]:
    """Return the configs for x read anew along lines as a result of that shape."""
    last, nbytes = len(shape) - 1, x.shape[-1] * x.dtype.compute.itemsize
    may_sum = lines[-1].axis == last and len(lines) > 1 and nbytes <= MOST_KEPT
    return [
        ResamplingConfig(along, sums_rows)
        for along in along_candidates(shape, machine)
        for sums_rows in ((False, True) if may_sum and along.takes_row else (False,))
    ]


def select(
    x: CubeTensor, lines: Sequence[Line], shape: Shape, machine: Machine
) -> ResamplingConfig:
    """Return a config: rows are summed first where some are read together."""
    along = select_along(shape, machine)
    found = [c for c in candidates(x, lines, shape, machine) if c.along == along]
    reads_several = any(line.taps > 1 for line in lines[:-1])
    return max(found, key=lambda c: c.sums_rows == reads_several)


# ---- the kernel ----

#: What reads at the place of a tap, and what sums it over all taps.
Read = Callable[[Value], Value]
Sum = Callable[[Read], Value]


#: The most reads of taps inside one another that are written out.
_MOST_WRITTEN = UNROLLED**2


def written_out(lines: Sequence[Line]) -> frozenset[int]:
    """Return the axes whose taps are written out rather than looped over, inner ones first."""
    found, reads = set(), 1
    for line in reversed(lines):
        if line.taps <= UNROLLED and reads * line.taps <= _MOST_WRITTEN:
            found.add(line.axis)
            reads *= line.taps
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class _Problem:
    """All that a kernel depends on besides its operands; rows of x have ``length`` elements."""

    lines: tuple[Line, ...]
    skips: bool
    sums_rows: bool
    length: int = extent()


class Resampling:
    """The kernel of one row of results, while it is being written."""

    def __init__(self, along: Along, problem: _Problem) -> None:
        self.along, self.b, self.skips = along, along.b, problem.skips
        self.source, self.places, *weights = along.sources
        self.weights = weights[0] if weights else None
        lines = problem.lines
        self.length, self.written_out = problem.length, written_out(lines)
        last = len(along.row)
        outer = {line.axis: line for line in lines if line.axis != last}
        #: How each axis but the last is read: summed over taps, or as it is, which is None.
        self.sums = [
            self.sum(outer[axis], self.b.index(o)) if axis in outer else None
            for axis, o in enumerate(along.row)
        ]
        self.line = lines[-1] if lines[-1].axis == last else None
        self.row = self.summed_row() if problem.sums_rows else None

    def write(self) -> None:
        """Write the results of the row."""
        self.along.write(self.vector)

    def vector(self, lanes: Lanes) -> None:
        (target,) = self.along.targets
        place = target.at([*self.along.row, lanes.first])
        target.store_along(place, self.found(lanes), mask=lanes.mask)

    def found(self, lanes: Lanes) -> Value:
        """Return a vector of results."""
        if self.line is None:
            return self.over_rows(lambda at: self.run(at, lanes))
        total, row = self.sum(self.line, lanes.first, lanes), self.row
        if row is not None:
            return total(lambda place: row.load(place, mask=lanes.mask))
        return self.over_rows(
            lambda at: total(
                lambda place: self.source.load(self.source.at([*at, place]), mask=lanes.mask)
            )
        )

    def summed_row(self) -> Memory:
        """Return one row, the sum of those that this row of results reads."""
        width, dtype = self.along.width, self.source.layout.dtype.compute
        # Room for the longest: rows of other sizes come to this kernel.
        row = self.b.private(dtype, MOST_KEPT // dtype.itemsize + width)

        def store(lanes: Lanes) -> None:
            row.store(lanes.first, self.over_rows(lambda at: self.run(at, lanes)), is_aligned=True)

        whole = self.length // width * width
        with self.b.for_(0, whole, step=width) as loop:
            store(Lanes(loop.index, width, None))
        if width > 1:
            with self.b.for_(whole, self.length, step=width) as loop:  # at most once
                store(Lanes(loop.index, width, loop.index + iota(self.b, width) < self.length))
        return row

    def run(self, at: Sequence[Value | int], lanes: Lanes) -> Value:
        """Return neighbours of a row of the source."""
        place = self.source.at([*at, lanes.first])
        return self.source.load_along(place, lanes.width, mask=lanes.mask)

    # ---- sums over taps ----

    def over_rows(
        self, read: Callable[[Sequence[Value | int]], Value], at: tuple[Value | int, ...] = ()
    ) -> Value:
        """Return what is read of rows, summed over the taps of all axes but the last."""
        if len(at) == len(self.sums):
            return read(at)
        total = self.sums[len(at)]
        if total is None:
            return self.over_rows(read, (*at, self.along.row[len(at)]))
        return total(lambda place: self.over_rows(read, (*at, place)))

    def sum(self, line: Line, first: Value, lanes: Lanes | None = None) -> Sum:
        """Return what sums over the taps of an element of a line, or those of a vector of them."""
        if line.axis not in self.written_out:
            return lambda read: self.looped(line, first, lanes, read)
        taps = [self.tap(line, t, first, lanes) for t in range(line.taps)]

        def total(read: Read) -> Value:
            found: Value | None = None
            for place, weight in taps:
                found = self.added(found, read(place), weight)
            assert found is not None
            return found

        return total

    def looped(self, line: Line, first: Value, lanes: Lanes | None, read: Read) -> Value:
        width = self.along.width if lanes is None else lanes.width
        zero = self.b.const(0, vector(self.source.layout.dtype.compute, width))
        with self.b.for_(0, line.taps, carried=[zero]) as loop:
            place, weight = self.tap(line, loop.index, first, lanes)
            loop.yield_(self.added(loop.carried[0], read(place), weight))
        return loop.results[0]

    def tap(
        self, line: Line, number: Value | int, first: Value, lanes: Lanes | None
    ) -> tuple[Value, Value | None]:
        """Return the place and the weight of one tap of an element, or of a vector of them."""
        at = first + number * line.count + line.first
        width, mask = (1, None) if lanes is None else (lanes.width, lanes.mask)
        place = self.places.load_along(self.places.at([at]), width, mask=mask)
        if self.weights is None:
            return place, None
        return place, self.weights.load_along(self.weights.at([at]), width, mask=mask)

    def added(self, total: Value | None, x: Value, weight: Value | None) -> Value:
        if weight is None:
            return x
        if self.skips:
            weighted = self.b.select(weight != 0, x * weight, 0)
            return weighted if total is None else total + weighted
        return x * weight if total is None else self.b.fma(x, weight, total)


# ---- launching ----


def resample(
    launcher: Launcher, x: CubeTensor, places: CubeTensor, weights: CubeTensor | None,
    lines: Sequence[Line], target: CubeTensor, config: ResamplingConfig | None = None, *,
    skips: bool,
) -> None:  # fmt: skip
    """Write x read anew along lines, by tables, to the target."""
    config = config or select(x, lines, target.shape, launcher.machine)

    def body(along: Along, problem: _Problem) -> None:
        Resampling(along, problem).write()

    problem = _Problem(tuple(lines), skips, config.sums_rows, x.shape[-1])
    tables = [places] if weights is None else [places, weights]
    along_rows(
        launcher, "resample", problem, [x, *tables], [target], body, config.along, knows_first=True
    )


def lines_of(attrs: Mapping[str, Any]) -> list[Line]:
    """Return the lines of an op, in the order of their axes."""
    found, first = [], 0
    for axis, count, taps in zip(attrs["axes"], attrs["size"], attrs["taps"], strict=True):
        found.append(Line(axis, count, taps, first))
        first += count * taps
    return sorted(found, key=lambda line: line.axis)
