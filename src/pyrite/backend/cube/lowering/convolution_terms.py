"""The terms of convolutions and of their gradients, and the outputs that meet padding.

An output is a sum of products of a left factor, around which padding stands, and a right one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal, Protocol

from pyrite.backend.cube.skeleton.window.axis import Sliding
from pyrite.kernel import KernelBuilder, Value
from pyrite.kernel.template.implicit_gemm import Windows
from pyrite.kernel.template.index import Index, divided, plus, remainder, times
from pyrite.symbol import require_known

#: What is looked at: outputs at the border one by one; or by vectors the right factor, or of it or
#: of out what belongs to some channels.
Look = Literal["outputs", "factor", "factor's rows", "rows of out"]


@dataclass(frozen=True, slots=True)
class Edge:
    """An axis of out on which elements below ``low``, and from ``high`` on, meet padding."""

    size: int
    low: int
    high: int

    @property
    def inner(self) -> Span:
        """The elements that meet none."""
        return Span(self.high - self.low, 0, self.low)

    @property
    def outer(self) -> Span:
        """The elements that meet it."""
        return Span(self.size - (self.high - self.low), self.low, self.high - self.low)

    @property
    def whole(self) -> Span:
        """All elements."""
        return Span(self.size, 0, 0)


@dataclass(frozen=True, slots=True)
class Span:
    """Some elements of an axis: the first ones, and after ``skip`` of them those from there on."""

    count: int
    before: int
    skip: int

    def at(self, b: KernelBuilder, number: Index) -> Index:
        """Return the position of an element of the run."""
        if self.before == 0 or self.count <= self.before:
            return plus(number, self.skip if self.before == 0 else 0)
        n = b.index(number)
        return b.select(n < self.before, n, n + self.skip)


@dataclass(frozen=True, slots=True)
class Term:
    """A product that an output adds up: where its factors are, and whether the left one exists."""

    left: Sequence[Index]
    right: Sequence[Index]
    exists: Value


class Sums(Protocol):
    """A convolution, or one of its gradients, as what each output adds up."""

    @property
    def leading(self) -> tuple[int, int]:
        """The first two sizes of out."""

    @property
    def channel(self) -> int:
        """Which of these two is the channels of out."""

    @property
    def looks(self) -> tuple[Look, ...]:
        """What a CPU may look at."""

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The other axes of out."""

    @property
    def terms(self) -> tuple[int, ...]:
        """The number of terms of an output, along each axis that is summed."""

    def term(self, b: KernelBuilder, out: Sequence[Index], number: Sequence[Index]) -> Term:
        """Return a term of an output."""


def _axes(w: Windows) -> list[Sliding]:
    of = (w.sizes, w.counts, w.kernel_size, w.stride, w.padding, w.dilation)
    return [Sliding(*axis) for axis in zip(*of, strict=True)]


def _edge(size: int, low: int, high: int) -> Edge:
    """Return an axis with bounds inside of it; where nothing is between, all is border."""
    low, high = min(max(low, 0), size), min(max(high, 0), size)
    return Edge(size, low, high) if low < high else Edge(size, 0, 0)


def _position(axis: Sliding, window: Index, tap: Index) -> Index:
    return plus(plus(times(window, axis.stride), times(tap, axis.dilation)), -axis.before)


def _all(conditions: Sequence[Value]) -> Value:
    found = conditions[0]
    for condition in conditions[1:]:
        found = found & condition
    return found


def _inside(b: KernelBuilder, at: Sequence[Index], sizes: Sequence[int]) -> Value:
    found = [b.index(x) for x in at]
    return _all([(x >= 0) & (x < n) for x, n in zip(found, sizes, strict=True)])


@dataclass(frozen=True, slots=True)
class Forward:
    """Out (N, O, *S') of x (N, C, *S) and the weight (O, C/groups, *K)."""

    w: Windows
    channel: int = 1
    looks: tuple[Look, ...] = ("factor's rows", "rows of out")

    @property
    def leading(self) -> tuple[int, int]:
        """N, O."""
        return self.w.batch, self.w.groups * self.w.outputs

    @property
    def edges(self) -> tuple[Edge, ...]:
        """S'."""
        return tuple(
            _edge(a.count, -(-a.before // a.stride), (a.size + a.before - a.span) // a.stride + 1)
            for a in _axes(self.w)
        )

    @property
    def terms(self) -> tuple[int, ...]:
        """C/groups, *K."""
        return (self.w.channels, *self.w.kernel_size)

    def term(self, b: KernelBuilder, out: Sequence[Index], number: Sequence[Index]) -> Term:
        """Return x at a tap of the output's window, times the weight's tap."""
        w, (image, output, *windows), (channel, *taps) = self.w, out, number
        at = [_position(*of) for of in zip(_axes(w), windows, taps, strict=True)]
        of = plus(times(divided(output, w.outputs), w.channels), channel)
        return Term([image, of, *at], [output, channel, *taps], _inside(b, at, w.sizes))


@dataclass(frozen=True, slots=True)
class InputGradient:
    """Out (N, C, *S) of g (N, O, *S') and the weight (O, C/groups, *K)."""

    w: Windows
    channel: int = 1
    looks: tuple[Look, ...] = ("factor", "rows of out")

    @property
    def leading(self) -> tuple[int, int]:
        """N, C."""
        return self.w.batch, self.w.groups * self.w.channels

    @property
    def edges(self) -> tuple[Edge, ...]:
        """S."""
        return tuple(self._edge(axis) for axis in _axes(self.w))

    @staticmethod
    def _edge(a: Sliding) -> Edge:
        """Taps meet zeros before the first window, or beyond the last, where the stride fits."""

        def windows(i: int) -> list[int]:
            steps = (i + a.before - tap * a.dilation for tap in range(a.kernel))
            return [at // a.stride for at in steps if at % a.stride == 0]

        first = range(min(a.span - a.before, a.size))
        low = max((i + 1 for i in first if min(windows(i), default=0) < 0), default=0)
        # Behind that element all is as behind element 0, but for so many windows.
        end = a.count * a.stride - a.before
        behind = range(max(require_known(-end), 0) if end < 0 else 0, require_known(a.size - end))
        high = (end + i for i in behind if max(windows(i - a.before), default=-1) >= 0)
        return _edge(a.size, low, next(high, a.size))

    @property
    def terms(self) -> tuple[int, ...]:
        """O/groups, *K."""
        return (self.w.outputs, *self.w.kernel_size)

    def term(self, b: KernelBuilder, out: Sequence[Index], number: Sequence[Index]) -> Term:
        """G at the window whose tap meets the element, if there is one, times the tap."""
        w, (image, channel, *at), (output, *taps) = self.w, out, number
        of = plus(times(divided(channel, w.channels), w.outputs), output)
        steps = [
            b.index(plus(plus(x, a.before), times(tap, -a.dilation)))
            for a, x, tap in zip(_axes(w), at, taps, strict=True)
        ]
        windows = [divided(step, s) for step, s in zip(steps, w.stride, strict=True)]
        meets = [
            (step >= 0) & (b.index(remainder(step, s)) == 0)
            for step, s in zip(steps, w.stride, strict=True)
        ]
        exists = _all(meets) & _inside(b, windows, w.counts)
        right = [of, remainder(channel, w.channels), *taps]
        return Term([image, of, *windows], right, exists)


@dataclass(frozen=True, slots=True)
class WeightGradient:
    """Out (O, C/groups, *K) of x (N, C, *S) and g (N, O, *S')."""

    w: Windows
    channel: int = 0
    looks: tuple[Look, ...] = ("factor", "rows of out")

    @property
    def leading(self) -> tuple[int, int]:
        """O, C/groups."""
        return self.w.groups * self.w.outputs, self.w.channels

    @property
    def edges(self) -> tuple[Edge, ...]:
        """K."""
        return tuple(
            _edge(
                a.kernel, -(-a.before // a.dilation),
                (a.size - 1 + a.before - (a.count - 1) * a.stride) // a.dilation + 1,
            )
            for a in _axes(self.w)
        )  # fmt: skip

    @property
    def terms(self) -> tuple[int, ...]:
        """N, *S'."""
        return (self.w.batch, *self.w.counts)

    def term(self, b: KernelBuilder, out: Sequence[Index], number: Sequence[Index]) -> Term:
        """Return x at the tap of a window, times g there."""
        w, (output, channel, *taps), (image, *windows) = self.w, out, number
        at = [_position(*of) for of in zip(_axes(w), windows, taps, strict=True)]
        of = plus(times(divided(output, w.outputs), w.channels), channel)
        return Term([image, of, *at], [image, output, *windows], _inside(b, at, w.sizes))


def boxes(edges: Sequence[Edge]) -> list[tuple[Span, ...]]:
    """Return the border in parts: each the outer elements of an axis, inner ones before it.

    >>> [[run.count for run in box] for box in boxes([Edge(5, 1, 4), Edge(7, 0, 6)])]
    [[2, 7], [3, 1]]
    """
    found = [
        (*(e.inner for e in edges[:i]), edge.outer, *(e.whole for e in edges[i + 1 :]))
        for i, edge in enumerate(edges)
    ]
    return [box for box in found if prod(run.count for run in box)]


def border_size(sums: Sums) -> int:
    """Return how many elements the border has, of each channel of each image."""
    return sum(prod(run.count for run in box) for box in boxes(sums.edges))
