"""Convolutions with few channels in each group on GPUs, as depthwise ones and the gradient of x.

Little is multiplied, so an invocation reads the elements that its windows meet where they lie: it
has the windows at one place of a few rows, which share most of these, and makes all phases of out
there (`polyphase`), so that neighbours write neighbouring vectors.  Padding is multiplied by
nothing: no border has to be mended.

On an H200, in µs, gradients of 32 images of 96 x 56² by 3x3, of 144 x 28² by 5x5: by strides of 2
20 and 12 (a product for each phase and a look at the border took 121 and 82, PyTorch takes 154 and
84), by 1 42 and 36 (69, 67); forward 20 and 19 (45, 44), by 1 37 and 27 (73, 70).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.operand import (
    Layout,
    Operand,
    bindings_of,
    invocation_of,
    iota,
    layout_of,
    unravel,
)
from pyrite.backend.cube.skeleton.finish import ALONE, Around, Finish, bindings_around, spread
from pyrite.backend.cube.skeleton.protocol import Fused, launch
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Kernel, KernelBuilder, Value
from pyrite.kernel.ir import WIDTHS
from pyrite.kernel.machine import Machine
from pyrite.kernel.template.index import Index, both, pieces, plus, times
from pyrite.kernel.template.operand import accumulator_of
from pyrite.kernel.template.polyphase import Part, Polyphase
from pyrite.kernel.template.product import accumulate
from pyrite.types import DType

#: Channels times outputs of a group, at most, and taps of all phases, which are written out.
_MOST_CHANNELS: Final = 4
_MOST_TAPS: Final = 64
#: Rows of windows of an invocation: of 3x3 windows four read 18 elements where one reads 9.
_ROWS: Final = (4, 2, 1)


@dataclass(frozen=True, slots=True)
class Depthwise:
    """Convolutions of x; a weight that ``is_transposed`` is read as by `weight_map`.

    The weight is given by its dtype, strides and whether it has an offset, as a tuple: they are the
    model's, and built in.
    """

    convolution: Polyphase
    weight: tuple[DType, tuple[int, ...], bool]
    x: Layout
    is_transposed: bool = False


@dataclass(frozen=True, slots=True)
class DepthwiseConfig:
    """An invocation has windows of so many rows, of the last axis but one."""

    rows: int
    invocations: int


def takes(p: Polyphase, machine: Machine) -> bool:
    """Whether this is for a convolution: of few channels, whose taps can all be written out."""
    w = p.windows
    if machine.kind == "cpu":
        return False
    return w.channels * w.outputs <= _MOST_CHANNELS and p.taps <= _MOST_TAPS


def lanes(p: Polyphase) -> int:
    """Return how many neighbours of out an invocation writes at once."""
    across = p.stride[-1]
    return across if across in WIDTHS else 1


class DepthwiseSkeleton:
    """Kernels of such convolutions, of any sizes."""

    name = "depthwise convolution"

    def candidates(self, problem: Depthwise, machine: Machine) -> list[DepthwiseConfig]:
        """Return the configs that are right for a convolution."""
        rows = _ROWS if len(problem.convolution.windows.counts) > 1 else (1,)
        return [DepthwiseConfig(n, size) for n in rows for size in machine.workgroup_sizes]

    def select(self, problem: Depthwise, machine: Machine) -> DepthwiseConfig:
        """Return the one with the most rows of out that are not more than four, if windows overlap.

        Of few elements each invocation has less, so that there are more of them.
        """
        p = problem.convolution
        rows = 1
        if len(p.stride) > 1 and p.windows.kernel_size[-2] > 1:
            rows = max(n for n in _ROWS if n == 1 or n * p.stride[-2] <= _ROWS[0])
        if rows > 1 and prod(_points(p, rows)) < machine.busy:
            rows = 1
        return DepthwiseConfig(rows, machine.workgroup_sizes[0])

    def workgroups(self, problem: Depthwise, config: DepthwiseConfig) -> int:
        """Return how many workgroups run the kernel."""
        return pieces(prod(_points(problem.convolution, config.rows)), config.invocations)

    def build(self, problem: Depthwise, config: DepthwiseConfig, fused: Fused, grid: int) -> Kernel:
        """Return the kernel.  Parameters: the weight, x, the epilogue's sources, the outputs."""
        b = KernelBuilder(self.name, workgroup_size=config.invocations, grid=grid)
        kernel = _Depthwise(b, problem, config, fused)
        number = invocation_of(b)
        with b.if_(number < prod(kernel.points)):
            kernel.write(number)
        return b.build()


DEPTHWISE: Final = DepthwiseSkeleton()


def convolve(
    launcher: Launcher, p: Polyphase, weight: CubeTensor, x: CubeTensor, target: CubeTensor,
    config: DepthwiseConfig | None = None, *, is_transposed: bool = False, around: Around = ALONE,
) -> None:  # fmt: skip
    """Write convolutions of x to the target, or to the outputs of what is ``around`` them."""
    known = (weight.dtype, weight.strides, weight.offset != 0)
    problem = Depthwise(p, known, layout_of(x), is_transposed)
    outputs = around.outputs or (target,)
    fused = replace(around.fused, outputs=tuple([layout_of(t, lanes(p)) for t in outputs]))
    bindings = [*bindings_of(weight), *bindings_of(x), *bindings_around(around.sources, outputs)]
    launch(launcher, DEPTHWISE, problem, bindings, config=config, fused=fused)


def _points(p: Polyphase, rows: int) -> tuple[int, ...]:
    """Return the shape of what invocations there are: image, group, output, and windows."""
    w, counts = p.windows, p.windows.counts
    if len(counts) > 1:
        counts = (*counts[:-2], pieces(counts[-2], rows), counts[-1])
    return (w.batch, w.groups, w.outputs, *counts)


#: Places in a window, by axis.
_Tap = tuple[int, ...]


class _Depthwise:
    """One invocation."""

    def __init__(
        self, b: KernelBuilder, problem: Depthwise, config: DepthwiseConfig, fused: Fused
    ) -> None:
        self.b, self.problem, self.rows = b, problem, config.rows
        self.polyphase, self.windows = problem.convolution, problem.convolution.windows
        self.points = _points(self.polyphase, config.rows)
        dtype, strides, has_offset = problem.weight
        self.weight = Operand(b, "weight", Layout(dtype, strides, has_offset), "read")
        self.x = Operand(b, "x", problem.x, "read")
        self.accumulator = accumulator_of(problem.x.dtype)
        self.finish = Finish(b, fused.epilogue)
        outs = [of for of in fused.outputs if isinstance(of, Layout)]
        assert len(outs) == len(fused.outputs), "outputs lie by the coordinates of the result"
        names = ["out", *(f"out{n}" for n in range(1, len(outs)))]
        self.outs = [Operand(b, n, of, "write") for n, of in zip(names, outs, strict=True)]

    def write(self, number: Value) -> None:
        """Write what all windows of the invocation make."""
        b, w = self.b, self.windows
        self.image, self.group, self.output, *at = unravel(b, number, self.points)
        if len(at) > 1:
            at[-2] = times(at[-2], self.rows)
        self.first = at
        zero = b.const(0, self.accumulator)
        sums = [zero] * (self.rows * len(self.polyphase.parts))
        if w.channels == 1:
            sums = self.channel(0, sums)
        else:
            with b.for_(0, w.channels, carried=sums) as loop:
                loop.yield_(*self.channel(loop.index, list(loop.carried)))
            sums = list(loop.results)
        count = len(self.polyphase.parts)
        for row in range(self.rows):
            self.store(row, sums[row * count :][:count])

    def channel(self, channel: Index, sums: list[Value]) -> list[Value]:
        """Return sums with the products of a channel, in the order of the taps."""
        window = _Window(self, channel)
        parts = [(row, part) for row in range(self.rows) for part in self.polyphase.parts]
        return [
            self.added(window, row, part, sum) for (row, part), sum in zip(parts, sums, strict=True)
        ]

    def added(self, window: _Window, row: int, part: Part, sum: Value) -> Value:
        for place, of_weight in part.taps:
            x, exists = window.element(row, _unraveled(place, self.windows.kernel_size))
            found = accumulate(window.weight(of_weight), x, sum)
            sum = found if exists is None else self.b.select(exists, found, sum)
        return sum

    # ---- results ----

    def store(self, row: int, sums: Sequence[Value]) -> None:
        """Write what the windows of a row make: some neighbours in some rows of out."""
        p = self.polyphase
        channel = plus(times(self.group, self.windows.outputs), self.output)
        across = p.stride[-1]
        for first in range(0, len(p.parts), across):
            starts = zip(self.first, p.stride, p.parts[first].start, strict=True)
            at = [plus(times(i, s), start) for i, s, start in starts]
            if len(at) > 1 and row:
                at[-2] = plus(at[-2], row * p.stride[-2])
            exists = self.is_inside(row, at)
            for run, lanes in self.runs(sums[first : first + across]):
                self.store_lanes([self.image, channel, *at[:-1], plus(at[-1], run)], lanes, exists)

    def runs(self, sums: Sequence[Value]) -> Iterator[tuple[int, Value]]:
        """Yield the neighbours of a row as vectors, and where these begin: one by one, if odd."""
        if len(sums) > 1 and len(sums) in WIDTHS:
            yield 0, self.b.make(list(sums))
        else:
            yield from enumerate(sums)

    def store_lanes(self, at: Sequence[Index], lanes: Value, exists: Value | None) -> None:
        b, size, count = self.b, self.polyphase.sizes[-1], self.polyphase.stride[-1]
        mask = None if exists is None else spread(exists, lanes.width)
        if count > 1 and size % count:
            along = b.index(at[-1])
            if lanes.width > 1:
                along = spread(along, lanes.width) + iota(b, lanes.width)
            mask = both(mask, along < size)
        values = self.finish(lanes, at, mask)
        for out, value in zip(self.outs, values, strict=True):
            out.store_along(out.at(at), value, mask=mask, is_aligned=True)

    def is_inside(self, row: int, at: Sequence[Index]) -> Value | None:
        """Whether out has a row; None if it does for all windows."""
        p, found = self.polyphase, None
        for axis, size in enumerate(p.sizes[:-1]):
            each = self.rows * p.stride[axis] if axis == len(p.sizes) - 2 else p.stride[axis]
            if each > 1 and size % each:
                found = both(found, self.b.index(at[axis]) < size)
        return found


class _Window:
    """What windows meet of a channel of x, each element read once, and the weight."""

    def __init__(self, of: _Depthwise, channel: Index) -> None:
        self.of, self.b = of, of.b
        w, is_transposed = of.windows, of.problem.is_transposed
        self.leading = [of.image, plus(times(of.group, w.channels), channel)]
        inner, outer = (of.output, channel) if is_transposed else (channel, of.output)
        count = w.channels if is_transposed else w.outputs
        self.filter = [plus(times(of.group, count), outer), inner]
        self.found: dict[_Tap, tuple[Value, Value | None]] = {}
        self.weights: dict[int, Value] = {}

    def weight(self, tap: int) -> Value:
        """Return an element of the weight, by its number in row-major order."""
        if tap not in self.weights:
            weight = self.of.weight
            at = _unraveled(tap, self.of.polyphase.kernel_size)
            value = weight[[*self.filter, *at]]
            self.weights[tap] = self.b.cast(value, self.of.accumulator)
        return self.weights[tap]

    def element(self, row: int, tap: _Tap) -> tuple[Value, Value | None]:
        """Return the element that a tap meets in the window of a row, and whether there is one."""
        w = self.of.windows
        hops = [t * d - p for t, d, p in zip(tap, w.dilation, w.padding, strict=True)]
        if len(hops) > 1:
            hops[-2] += row * w.stride[-2]
        key = tuple(hops)
        if key not in self.found:
            self.found[key] = self.read(key)
        return self.found[key]

    def read(self, hops: _Tap) -> tuple[Value, Value | None]:
        of, exists = self.of, None
        at: list[Index] = []
        for axis, hop in enumerate(hops):
            place, is_inside = self.along(axis, hop)
            at.append(place)
            exists = both(exists, is_inside)
        value = of.x.load(of.x.at([*self.leading, *at]), mask=exists)
        return self.b.cast(value, of.accumulator), exists

    def along(self, axis: int, hop: int) -> tuple[Index, Value | None]:
        """Return the place on an axis so far from where the windows begin, and if x has it."""
        w = self.of.windows
        place = self.b.index(plus(times(self.of.first[axis], w.stride[axis]), hop))
        ends = place < w.sizes[axis]
        return place, ends if hop >= 0 else (place >= 0) & ends


def _unraveled(number: int, sizes: Sequence[int]) -> _Tap:
    found = []
    for size in reversed(sizes):
        number, at = divmod(number, size)
        found.append(at)
    return tuple(reversed(found))
