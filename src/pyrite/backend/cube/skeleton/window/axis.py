"""The axes that windows slide over, inside a kernel: which taps of a window are elements.

A window number ``o`` begins at position ``start(o)`` of the axis, maybe before it; its tap ``j`` is
``dilation`` further on than tap ``j - 1``.  All arithmetic is on values of a kernel, and all but
`Sliding.fits` serves scalars and vectors alike.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field

from pyrite.errors import DeviceError
from pyrite.kernel import KernelBuilder, Value
from pyrite.kernel.extent import EXTENT
from pyrite.types import DType, Shape

#: The first and the end of a range of numbers.
Range = tuple[Value, Value]
#: One such range of positions for each axis.
Bounds = tuple[tuple[int, int], ...]


#: Taps along a row up to this many are written out, more are a loop.
UNROLLED = 8
#: Windows up to this far apart are read by whole vectors, of which each phase is picked.
_MOST_PHASES = 4


@dataclass(frozen=True, slots=True)
class Sliding:
    """An axis of ``size`` elements and ``count`` windows of equal form, ``stride`` apart.

    The form is the model's and built into kernels, the sizes are the data's.
    """

    size: int = field(metadata=EXTENT)
    count: int = field(metadata=EXTENT)
    kernel: int
    stride: int
    before: int
    dilation: int

    @property
    def span(self) -> int:
        """The number of elements over which a window reaches."""
        return self.dilation * (self.kernel - 1) + 1

    @property
    def end(self) -> int:
        """Where the last window ends."""
        return (self.count - 1) * self.stride - self.before + self.span

    @property
    def is_near(self) -> bool:
        """Whether what neighbouring windows hold lies between each other in few vectors."""
        return 1 < self.stride <= _MOST_PHASES and self.dilation == 1

    @property
    def is_whole(self) -> bool:
        """Whether there is one window, and it is the axis."""
        return self.count == 1 and self.before == 0 and self.span == self.kernel == self.size

    def start(self, o: Value) -> Value:
        """Return where a window begins."""
        scaled = o if self.stride == 1 else o * self.stride
        return scaled - self.before if self.before else scaled

    def taps(self, b: KernelBuilder, o: Value) -> Range:
        """Return which taps of a window are elements."""
        start, d = self.start(o), self.dilation
        low, high = b.index(0), b.index(self.kernel)
        if self.before:
            low = (b.max(-start, 0) + (d - 1)) // d
        if self.end > self.size:
            high = b.min((b.max(self.size - start, 0) + (d - 1)) // d, self.kernel)
        return low, high

    def first_element(self, b: KernelBuilder, o: Value) -> Value:
        """Return the first position of a window that is an element, if any is."""
        start, d = self.start(o), self.dilation
        if not self.before:
            return start
        return start + (b.max(-start, 0) + (d - 1)) // d * d

    def fits(self, first: Value, width: int) -> Value | None:
        """Return whether all taps of ``width`` windows are elements; None if they always are."""
        found = None
        if self.before:
            found = self.start(first) >= 0
        if self.end > self.size:
            ends = self.start(first + (width - 1)) + self.span <= self.size
            found = ends if found is None else found & ends
        return found

    def length(self, b: KernelBuilder, o: Value, low: int, high: int) -> Value:
        """Return how many of the elements low <= position < high an undilated window holds."""
        start = self.start(o)
        return b.min(start + self.kernel, high) - b.max(start, low)

    def common_length(self, low: int, high: int) -> int | None:
        """Return that number if it is the same of all windows."""
        return self.kernel if -self.before >= low and self.end <= high else None

    def has(self, o: Value) -> Value:
        """Return whether there is a window of that number."""
        return (o >= 0) & (o < self.count)

    def over(self, b: KernelBuilder, position: Value) -> Range:
        """Return a range of windows outside of which none reaches a position."""
        t, s = position + self.before, self.stride
        low = b.max(t + (s - self.span), 0) // s
        return low, b.min(t // s + 1, self.count)


@dataclass(frozen=True, slots=True)
class Covering:
    """An axis of ``size`` elements and ``count`` windows that cover it, as of adaptive pools.

    The number of windows is the model's, and built in: each is found by divisions by it.
    """

    size: int = field(metadata=EXTENT)
    count: int

    @property
    def is_whole(self) -> bool:
        """Whether there is one window; it is the axis."""
        return self.count == 1

    def start(self, o: Value) -> Value:
        """Return where a window begins: floor(o size / count)."""
        # In two parts, for o * size may be more than an index holds.
        return o * (self.size // self.count) + o * (self.size % self.count) // self.count

    def taps(self, b: KernelBuilder, o: Value) -> Range:
        """Return which taps of a window are elements: all, up to ceil((o + 1) size / count)."""
        rest = (o + 1) * (self.size % self.count) + (self.count - 1)
        end = (o + 1) * (self.size // self.count) + rest // self.count
        return b.index(0), end - self.start(o)

    def first_element(self, b: KernelBuilder, o: Value) -> Value:
        """Return where a window begins."""
        return self.start(o)

    @property
    def dilation(self) -> int:
        """Taps are neighbours."""
        return 1

    def length(self, b: KernelBuilder, o: Value, low: int, high: int) -> Value:
        """Return how many elements a window has: all count."""
        return self.taps(b, o)[1]

    def common_length(self, low: int, high: int) -> int | None:
        """Return that number if it is the same of all windows."""
        return None if self.size % self.count else self.size // self.count


#: A fixed set of axes, hashable: kernels are kept by it.
Axes = tuple[Sliding | Covering, ...]

#: The square of this is the greatest int32.
_MOST_COVERING = 46340


def sliding(
    sizes: Shape, counts: Shape, kernel_size: Shape, stride: Shape,
    padding: Bounds, dilation: Shape | None = None,
) -> tuple[Sliding, ...]:  # fmt: skip
    """Return the axes of windows by the attributes that their ops have."""
    befores = tuple(before for before, _ in padding)
    steps = dilation or (1,) * len(sizes)
    given = zip(sizes, counts, kernel_size, stride, befores, steps, strict=True)
    return tuple(Sliding(*axis) for axis in given)


def covering(op: str, sizes: Shape, counts: Shape) -> tuple[Covering, ...]:
    """Return the axes of windows that cover a space.

    Raises DeviceError where their number does not fit the arithmetic of indices.
    """
    if max(counts) > _MOST_COVERING:
        raise DeviceError(
            f"{op} requires output_size <= {_MOST_COVERING} along each axis on this device, got "
            f"{counts}"
        )
    return tuple(Covering(*axis) for axis in zip(sizes, counts, strict=True))


def is_whole(axes: Axes) -> bool:
    """Whether there is one window, and it is the whole image."""
    return all(axis.is_whole for axis in axes)


def positions_of_windows(
    sizes: Shape, kernel_size: Shape, stride: Shape, padding: Bounds, dilation: Shape
) -> Shape:
    """Return how many windows fit along each axis with its padding."""
    axes = zip(sizes, kernel_size, stride, padding, dilation, strict=True)
    return tuple(
        (n + before + after - d * (k - 1) - 1) // s + 1 for n, k, s, (before, after), d in axes
    )


def flat(at: Sequence[Value], sizes: Sequence[int]) -> Value:
    """Return the number of an element in row-major order."""
    found = at[0]
    for size, position in zip(sizes[1:], at[1:], strict=True):
        found = found * size + position
    return found


# ---- how many elements count ----


def counted(sizes: Shape, padding: Bounds, *, count_include_pad: bool) -> Bounds:
    """Return which positions of each axis count as elements: the padding maybe, no more."""
    if not count_include_pad:
        return tuple((0, n) for n in sizes)
    return tuple((-b, n + a) for n, (b, a) in zip(sizes, padding, strict=True))


def common_divisor(axes: Sequence[Sliding], bounds: Bounds) -> int | None:
    """Return how many elements count in every window; None if windows differ."""
    lengths = [axis.common_length(*pair) for axis, pair in zip(axes, bounds, strict=True)]
    return math.prod(n for n in lengths if n) if all(lengths) else None


def divisor(
    b: KernelBuilder, axes: Sequence[Sliding | Covering], windows: Sequence[Value], bounds: Bounds,
    dtype: DType,
) -> Value | int:  # fmt: skip
    """Return how many elements count in a window, or in each of a vector of windows."""
    lengths = [
        axis.common_length(*pair) or axis.length(b, o, *pair)
        for axis, o, pair in zip(axes, windows, bounds, strict=True)
    ]
    known = math.prod(n for n in lengths if not isinstance(n, Value))
    computed = [n for n in lengths if isinstance(n, Value)]
    if not computed:
        return known
    return b.cast(functools.reduce(operator.mul, computed) * known, dtype)
