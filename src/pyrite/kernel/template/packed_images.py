"""Images copied so that a tap of the window is one distance in memory, the same for all positions.

The copy of an image is as wide as the windows need, with zeros where they stand out of the image.
With a stride s, positions that differ by multiples of s lie together, in one of s **phases** on
each axis: window i reads element ``i + hop`` of a phase.  So the elements that one tap meets at
successive windows are neighbours, whatever the stride and the dilation, and also across the end of
a row: a kernel goes along all rows of all images at once, by full vectors.  What stands at the end
of a row beyond the last window is read for nothing, and `PackedImages.limits` says what that is.
It is little: zeros behind a row are the zeros before the next, where both have padding.

Such copies are for CPUs: they are in the private memory of an invocation, and in its cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product as combinations
from math import prod
from typing import Final, NamedTuple

from pyrite.cached import cached
from pyrite.kernel.builder import KernelBuilder, Memory, Value
from pyrite.kernel.ir import Access
from pyrite.kernel.template.implicit_gemm import OperandLayout, Windows
from pyrite.kernel.template.index import Index, both, iota, plus, rounded_up, times, total, written
from pyrite.kernel.template.size_class import least, odd_half
from pyrite.symbol import is_symbol, require_known


@dataclass(frozen=True, slots=True)
class Tap:
    """An element of the window: the phase in which it meets the images, and how far on each axis.

    That is in rows, and elements of the last axis.
    """

    phase: int
    hops: tuple[int, ...]

    def place(self, start: Index, steps: Sequence[Index]) -> Index:
        """Return where it is from a position on, with neighbours on each axis ``steps`` apart."""
        # The known distance along the row comes last: it is part of the address of each load.
        for hop, step in zip(self.hops, steps, strict=True):
            start = plus(start, times(step, hop))
        return start


@dataclass(frozen=True, slots=True)
class PackedImages:
    """How ``images`` images lie in a copy, of which windows of ``rows`` rows of out are read.

    ``width`` is the lanes by which the copy is written and read.
    """

    windows: Windows
    images: int
    rows: int
    width: int

    @staticmethod
    def near(w: Windows, length: int, width: int) -> PackedImages:
        """Return a copy of about ``length`` positions: some rows of an image, or some images."""
        return _near(w, length, width)

    @property
    def limits(self) -> tuple[int, ...]:
        """The number of windows on each axis."""
        return (self.rows, *self.windows.counts[1:])

    @property
    def extents(self) -> tuple[int, ...]:
        """How many elements of a phase lie on each axis."""
        return _extents(self)

    @property
    def shared(self) -> int:
        """Zeros at the end of each row which are those before the next: what is padding to both."""
        return _shared(self)

    @property
    def pitches(self) -> tuple[int, ...]:
        """The number of elements of each axis: less than its extent, where rows share zeros."""
        *rows, last = self.extents
        return (*rows, last - self.shared)

    @property
    def image_size(self) -> int:
        """Elements of a phase of one image."""
        return prod(self.pitches)

    @property
    def length(self) -> int:
        """Positions from the first window of all images to the last; not all are windows."""
        steps = steps_of(self.pitches)
        last = sum((n - 1) * step for n, step in zip(self.limits, steps, strict=True))
        return (self.images - 1) * self.image_size + last + 1

    @property
    def size(self) -> int:
        """Elements of memory for a phase: what vectors meet beyond the end belongs to it."""
        return rounded_up(self.images * self.image_size + self.shared, self.width) + self.width

    @property
    def room(self) -> int:
        """A size at least as great, of few, for the memory of a kernel that serves many.

        An odd number of lines, so that channels do not meet in the same sets of the cache.
        """
        return odd_half(-(-self.size // self.width)) * self.width

    @property
    def origins(self) -> tuple[int, ...]:
        """The position in the image of element 0 of the first phase, on each axis."""
        w = self.windows
        axes = zip(w.kernel_size, w.dilation, w.padding, strict=True)
        return tuple(min(0, (k - 1) * d) - p for k, d, p in axes)

    @property
    def phases(self) -> list[tuple[int, ...]]:
        """The phases that a tap meets, by axis."""
        return self._taps_met().phases

    @property
    def taps(self) -> list[Tap]:
        """The elements of the window in row-major order."""
        phases = self.phases
        return [Tap(phases.index(phase), hops) for phase, hops in self._taps_met().places]

    def steps(self, b: KernelBuilder) -> list[Index]:
        """Return how far neighbours on each axis are from each other, inside a kernel."""
        found: list[Index] = [1]
        for pitch in reversed(self.pitches[1:]):
            found.append(times(found[-1], written(b, pitch)))
        return found[::-1]

    def spans(self, phase: tuple[int, ...]) -> list[Span]:
        """Return what of an image is in a phase, on each axis."""
        w = self.windows
        axes = zip(self.extents, self.pitches, w.stride, self.origins, phase, w.sizes, strict=True)
        return [Span(n, pitch, s, o + at, size, n) for n, pitch, s, o, at, size in axes]

    def gradient_spans(self) -> list[Span]:
        """Return the same of a tensor with an element for each window, at the window's place."""
        axes = zip(self.pitches, self.windows.counts, self.limits, strict=True)
        return [Span(pitch, pitch, 1, 0, count, limit) for pitch, count, limit in axes]

    def result_spans(self) -> list[Span]:
        """Return the same without what is between the rows."""
        axes = zip(self.pitches, self.windows.counts, self.limits, strict=True)
        return [Span(limit, pitch, 1, 0, count, limit) for pitch, count, limit in axes]

    def limit_spans(self) -> list[Span]:
        """Return the same of a tensor that has an element wherever a window may stand."""
        axes = zip(self.pitches, self.limits, strict=True)
        return [Span(pitch, pitch, 1, 0, limit, pitch) for pitch, limit in axes]

    def _taps_met(self) -> _Taps:
        w = self.windows
        kernel_size, dilation, stride = [
            tuple(map(require_known, sizes)) for sizes in (w.kernel_size, w.dilation, w.stride)
        ]
        return _taps_met(kernel_size, dilation, stride)


# A choice of a config asks the same of a few copies by the hundred.


@cached(1024)
def _near(w: Windows, length: int, width: int) -> PackedImages:
    whole = PackedImages(w, 1, w.counts[0], width)
    row = whole.image_size // whole.pitches[0]
    rows = -(-w.counts[0] // max(-(-w.counts[0] * row // length), 1))
    images = max(least(w.batch, length // whole.length), 1) if rows == w.counts[0] else 1
    return PackedImages(w, images, rows, width)


@cached(1024)
def _extents(p: PackedImages) -> tuple[int, ...]:
    moves = p._taps_met().moves
    steps = zip(p.limits, moves, p.windows.stride, strict=True)
    return tuple(n + max(of) // s for n, of, s in steps)


@cached(1024)
def _shared(p: PackedImages) -> int:
    w, extent, stride = p.windows, p.extents[-1], p.windows.stride[-1]
    found = [extent - p.limits[-1]]
    for *_, at in p.phases:
        origin = p.origins[-1] + at
        found += [-(origin // stride), extent + (origin - w.sizes[-1]) // stride]
    # It follows from the padding, the same for nearly all sizes.
    return max(min(require_known(n) for n in found), 0)


#: The phase that a tap meets, and how far it is from there, by axis.
_Place = tuple[tuple[int, ...], tuple[int, ...]]


class _Taps(NamedTuple):
    """The taps of a window: how far each is on each axis, where it is, and the phases."""

    moves: tuple[tuple[int, ...], ...]
    places: tuple[_Place, ...]
    phases: list[tuple[int, ...]]


@cached(256)
def _taps_met(
    kernel_size: tuple[int, ...], dilation: tuple[int, ...], stride: tuple[int, ...]
) -> _Taps:
    axes = zip(kernel_size, dilation, strict=True)
    moves = tuple([tuple([t * d - min(0, (k - 1) * d) for t in range(k)]) for k, d in axes])
    places = tuple([
        (
            tuple([m % s for m, s in zip(of, stride, strict=True)]),
            tuple([m // s for m, s in zip(of, stride, strict=True)]),
        )
        for of in combinations(*moves)
    ])  # fmt: skip
    return _Taps(moves, places, sorted({phase for phase, _ in places}))


def ample_room(length: int, width: int) -> int:
    """Return a `PackedImages.room` for nearly all copies of about ``length`` positions."""
    return odd_half(-(-2 * length // width)) * width


def within(count: int, block: int, most: int, unit: int = 1) -> int:
    """Return a size of equal blocks of so many: whole units, no more than a block or ``most``.

    >>> within(64, 64, 63), within(64, 32, 63), within(64, 64, 20, unit=8), within(9, 9, 0)
    (32, 32, 16, 1)
    """
    largest = max(min(block, most) // unit * unit, unit)
    parts = -(-count // largest)
    return -(-count // (parts * unit)) * unit


def steps_of(extents: Sequence[int]) -> list[int]:
    """Return how far neighbours on each axis are from each other."""
    return [prod(extents[i + 1 :]) for i in range(len(extents))]


@dataclass(frozen=True, slots=True)
class Span:
    """An axis of a copy: element q < ``extent`` is ``q * scale + origin`` of ``size`` ones.

    0 where that is outside, or q is not less than ``limit``.  From ``pitch`` on the elements belong
    to the next row too, which is filled later.
    """

    extent: int
    pitch: int
    scale: int
    origin: int
    size: int
    limit: int


class Volume:
    """A tensor (N, C, *S) inside a kernel."""

    def __init__(self, b: KernelBuilder, name: str, layout: OperandLayout, access: Access) -> None:
        self.builder = b
        self.layout = layout
        self.memory: Memory = b.buffer(name, layout.dtype, access)
        self.base: Index = 0
        if layout.offset is not None:
            self.base = b.scalar(f"{name}_offset", b.index_type.dtype)

    def at(self, coordinates: Sequence[Index]) -> Index:
        """Return where an element lies in the buffer."""
        steps = zip(coordinates, self.layout.strides, strict=True)
        return plus(self.base, total(times(x, stride) for x, stride in steps))

    def lanes(self, first: Index, step: int, width: int) -> Value:
        """Return the place, or places, of elements ``step`` apart on the last axis."""
        stride = step * self.layout.strides[-1]
        start = self.builder.index(first)
        if width == 1 or stride == 1:
            return start
        return start + iota(self.builder, width) * stride


@dataclass(frozen=True, slots=True)
class Piece:
    """Some neighbours of a copy: they begin at ``start``, and in the image at ``coordinates``.

    There they are ``span.scale`` apart; ``is_row`` says whether their row exists, and ``mask``
    which of them do.  Of those that are ``is_within`` all do that are in the limit of their axis.
    """

    start: Value
    coordinates: list[Index]
    span: Span
    is_row: Value | None
    mask: Value
    is_within: bool = False


#: What is done with the pieces of a copy.
Visit = Callable[[Piece], None]

#: Vectors of a row that are written out, so that what is inside of them is known.
_WRITTEN_OUT: Final = 8


def walk(
    b: KernelBuilder, spans: Sequence[Span], first: Index, width: int, start: Index, visit: Visit,
    inside: Value | None = None, coordinates: Sequence[Index] = (),
) -> None:  # fmt: skip
    """Visit each vector of a copy in order; ``first`` is the element at which it begins.

    That is on the first axis. ``inside`` is whether anything of it exists.
    """
    span, *others = spans
    base = plus(times(first, span.scale), span.origin)

    def visit_from(q: Index, *, is_within: bool = False) -> None:
        each = b.index(q) + iota(b, width) if width > 1 else b.index(q)
        mask = _exists(b, span, each, plus(times(each, span.scale), base))
        mask = mask if inside is None else mask & repeated(inside, width)
        position = plus(times(q, span.scale), base)
        at = b.index(plus(start, q))
        visit(Piece(at, [*coordinates, position], span, inside, mask, is_within))

    if others:
        with b.for_(0, span.extent) as loop:
            position = plus(times(loop.index, span.scale), base)
            here = inside
            if not _is_inside(span, base):
                here = both(inside, _exists(b, span, loop.index, position))
            to = plus(start, times(loop.index, written(b, prod(s.pitch for s in others))))
            walk(b, others, 0, width, to, visit, here, [*coordinates, position])
    elif is_symbol(span.extent):
        whole = span.extent // width * width
        with b.for_(0, whole, step=width) as loop:
            visit_from(loop.index, is_within=True)
        if width > 1:
            with b.for_(whole, span.extent, step=width) as loop:  # at most once
                visit_from(loop.index)
    elif span.extent <= _WRITTEN_OUT * width:
        for q in range(0, span.extent, width):
            visit_from(q, is_within=q + width <= span.extent)
    else:
        with b.for_(0, span.extent, step=width) as loop:
            visit_from(loop.index)


def _is_inside(span: Span, base: Index) -> bool:
    """Whether all of an axis that begins at a position exists, as far as is known."""
    if not isinstance(base, int) or span.limit < span.extent:
        return False
    return base >= 0 and base + (span.extent - 1) * span.scale < span.size


def _exists(b: KernelBuilder, span: Span, q: Value, position: Index) -> Value:
    at = b.index(position)
    inside = (at >= 0) & (at < span.size)
    return inside & (q < span.limit) if span.limit < span.extent else inside


def repeated(x: Value, width: int) -> Value:
    """Return a scalar as a vector."""
    return x.builder.splat(x, width) if width > 1 else x


def existing(b: KernelBuilder, first: Index, size: int, count: int) -> Index:
    """Return how many of ``count`` images, or channels, from ``first`` on there are of ``size``."""
    return count if divides(count, size) else b.min(size - b.index(first), count)


def divides(count: int, size: int) -> bool:
    """Whether a size is known to be a multiple; nothing is asked of what is not known."""
    return count == 1 or not (is_symbol(size) or is_symbol(count) or size % count)


def copy_planes(
    source: Volume, memory: Memory, at: Index, spans: Sequence[Span], images: Index, width: int,
    *, first_image: Index, first_row: Index, channel: Index, batch: int | None = None,
) -> None:  # fmt: skip
    """Fill a phase of one channel of some images, from ``at`` on, with zeros outside.

    Images from ``batch`` on, if it is given, are zeros.  They are not read even under a mask:
    where there is no memory, a processor takes 600 cycles to find that it need not read it.
    """
    b = source.builder
    count = prod(span.pitch for span in spans)
    with b.for_(0, images) as loop:
        number = plus(first_image, loop.index)
        image, exists = number, None
        if batch is not None:
            image, exists = b.min(b.index(number), batch - 1), b.index(number) < batch

        def copy(piece: Piece) -> None:
            first = source.at([image, channel, *piece.coordinates])
            if piece.span.scale == 2 and source.layout.strides[-1] == 1 and width > 1:
                value = _every_other(source, first, piece, width)
            else:
                places = source.lanes(first, piece.span.scale, width)
                value = source.memory.load(places, width=width, mask=piece.mask)
            memory.store(piece.start, b.cast(value, memory.dtype))

        walk(b, spans, first_row, width, plus(at, times(loop.index, count)), copy, exists)


def _every_other(source: Volume, first: Index, piece: Piece, width: int) -> Value:
    """Return every second element: two vectors are read and sorted, rather than lane by lane."""
    b = source.builder
    found: list[Value] = []
    for start in (0, width):
        positions = plus(piece.coordinates[-1], start) + iota(b, width)
        mask = (positions >= 0) & (positions < piece.span.size)
        if piece.is_row is not None:
            mask = mask & repeated(piece.is_row, width)
        place = b.index(plus(first, start))
        both_kinds = source.memory.load(place, width=width, mask=mask)
        found += [both_kinds[i] for i in range(0, width, 2)]
    return b.make(found)
