"""The gradient of a convolution's input: convolutions of g by parts of the transposed weight.

The windows of these go backward.  With a stride s, elements of x that differ by multiples of s are
met by the same taps, others by other taps.  So there is one convolution, of stride 1, for each
**phase** of x and of the weight.

All phases read the same g.  `joined` says them as one `Polyphase`, for a kernel that copies g once
and writes whole rows of x; `input_gradient` as convolutions that know nothing of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product as combinations
from math import gcd, prod

from pyrite.kernel.extent import EXTENT
from pyrite.kernel.template.implicit_gemm import Windows


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of the gradient of x, as a convolution of g.

    It makes the elements ``start``, ``start + stride``, … of x's axes, by the taps ``first_tap``,
    ``first_tap + tap_step``, … of the weight.  There may be none of these, or of those.
    """

    windows: Windows
    start: tuple[int, ...]
    first_tap: tuple[int, ...]
    tap_step: tuple[int, ...]


def input_gradient(w: Windows) -> list[Phase]:
    """Return the phases of the gradient of x; together they make each element once.

    >>> w = Windows(1, 1, 1, 1, (5,), (3,), (3,), (2,), (1,), (1,))
    >>> [(p.start, p.first_tap, p.windows.kernel_size) for p in input_gradient(w)]
    [((0,), (1,), (1,)), ((1,), (0,), (2,))]
    """
    return [_phase(w, of) for of in combinations(*_axes(w))]


def _phase(w: Windows, of: Sequence[_AxisPhase]) -> Phase:
    windows = Windows(
        w.batch, w.groups, w.outputs, w.channels, w.counts,
        tuple(p.taps for p in of), tuple(p.count for p in of), (1,) * len(of),
        tuple(p.padding for p in of), tuple(p.dilation for p in of),
    )  # fmt: skip
    return Phase(
        windows,
        tuple(p.start for p in of),
        tuple(p.first_tap for p in of),
        tuple(p.tap_step for p in of),
    )


# ---- all phases as one ----


@dataclass(frozen=True, slots=True)
class Part:
    """A convolution that makes the elements ``start``, ``start + stride``, … of out.

    ``taps`` are pairs: the number of an element of the window, and of the weight's that meets it.
    """

    start: tuple[int, ...]
    taps: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Polyphase:
    """Convolutions of one x by parts of one weight, which together make out.

    ``windows`` hold what any of them reads.  Out has ``sizes``, the weight ``kernel_size``.  There
    is a part for each start below the stride, in row-major order.
    """

    windows: Windows
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    sizes: tuple[int, ...] = field(metadata=EXTENT)
    parts: tuple[Part, ...]

    @property
    def taps(self) -> int:
        """How many taps all parts have together."""
        return sum(len(part.taps) for part in self.parts)


def single(w: Windows) -> Polyphase:
    """Return a convolution as the one part of its out."""
    ones = (1,) * len(w.counts)
    taps = tuple((i, i) for i in range(prod(w.kernel_size)))
    return Polyphase(w, w.kernel_size, ones, w.counts, (Part((0,) * len(ones), taps),))


def joined(w: Windows) -> Polyphase:
    """Return the gradient of x as convolutions of g, by the transposed weight.

    >>> w = Windows(1, 1, 1, 1, (5,), (3,), (3,), (2,), (1,), (1,))
    >>> joined(w).windows.kernel_size, [(p.start, p.taps) for p in joined(w).parts]
    ((2,), [((0,), ((0, 1),)), ((1,), ((1, 0), (0, 2)))])
    """
    axes = _axes(w)
    met = [[place for p in axis for place, _ in p.reads()] or [0] for axis in axes]
    first = tuple(min(places) for places in met)
    size = tuple(max(places) - low + 1 for places, low in zip(met, first, strict=True))
    ones = (1,) * len(axes)
    windows = Windows(
        w.batch, w.groups, w.outputs, w.channels, w.counts, size,
        tuple(axis[0].count for axis in axes), ones, tuple(-low for low in first), ones,
    )  # fmt: skip
    parts = tuple(
        Part(tuple(p.start for p in of), tuple(_taps(of, first, size, w.kernel_size)))
        for of in combinations(*axes)
    )
    stride = tuple(len(axis) for axis in axes)
    return Polyphase(windows, w.kernel_size, stride, w.sizes, parts)


def _taps(
    of: Sequence[_AxisPhase], first: Sequence[int], size: Sequence[int], kernel_size: Sequence[int]
) -> list[tuple[int, int]]:
    found = []
    for reads in combinations(*(p.reads() for p in of)):
        place = tap = 0
        for (at, t), low, extent, k in zip(reads, first, size, kernel_size, strict=True):
            place, tap = place * extent + at - low, tap * k + t
        found.append((place, tap))
    return found


# ---- the phases of an axis ----


@dataclass(frozen=True, slots=True)
class _AxisPhase:
    start: int
    count: int
    first_tap: int
    tap_step: int
    taps: int
    padding: int
    dilation: int

    def reads(self) -> list[tuple[int, int]]:
        """Pairs: a place of g, from the one with the position's number on, and the tap."""
        return [
            (t * self.dilation - self.padding, self.first_tap + t * self.tap_step)
            for t in range(self.taps)
        ]


def _axes(w: Windows) -> list[list[_AxisPhase]]:
    given = zip(w.stride, w.dilation, w.padding, w.kernel_size, w.sizes, strict=True)
    return [[_axis_phase(r, *of) for r in range(min(of[0], of[4]))] for of in given]


def _axis_phase(
    start: int, stride: int, dilation: int, padding: int, taps: int, size: int
) -> _AxisPhase:
    """Element start + stride * q of x meets window q - padding + dilation * t by the t-th tap.

    That is where ``start + padding - dilation * tap`` is a multiple of the stride.
    """
    step = stride // gcd(stride, dilation)
    hits = [t for t in range(min(step, taps)) if (start + padding - dilation * t) % stride == 0]
    first = hits[0] if hits else 0
    return _AxisPhase(
        start, -(-(size - start) // stride), first, step,
        -(-(taps - first) // step) if hits else 0,
        -((start + padding - dilation * first) // stride), -(dilation * step // stride),
    )  # fmt: skip
