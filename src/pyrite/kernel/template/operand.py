"""Operands of products: matrices that are such only in the eye of a kernel.

A contraction sees its operands as matrices, though what lies in memory may be a batch of images of
which it reads windows.  An `Axis` of such a matrix is a number with mixed radix: its `Digit`s are
the channel, the row of the window, the column of the window.  Each digit moves the element by its
stride.  A `Window` is a position that digits of both axes add up to, such as the image's row, which
is ``row of the output * stride + row of the window * dilation - padding``; the element is 0 where
that is outside.  Since everything adds up, what depends on one axis is computed once, outside of
the loop over the other.

Element (batch, row, column) lies at the sum of ``digit * stride`` over all digits plus the sum of
``position * stride`` over all windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from pyrite.kernel.builder import KernelBuilder, Memory, Value
from pyrite.kernel.extent import extent
from pyrite.kernel.ir import Access
from pyrite.kernel.template.index import Index, both, divided, iota, plus, remainder, times, total
from pyrite.types import DType, bool_, int32, uint32


@dataclass(frozen=True, slots=True)
class Digit:
    """One digit of an axis: ``size`` values, each ``stride`` elements apart.

    ``steps`` are pairs of the number of a window and how far the digit moves its position.
    """

    size: int = extent()
    stride: int = extent(default=0)
    steps: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Window:
    """A position on an axis in memory: inside if 0 <= position < size.

    ``origin`` is the position when all digits are 0.  With ``stride`` 0 it only limits.
    """

    size: int = extent()
    stride: int = extent()
    origin: int = 0


#: The digits of an axis, the fastest last.  No digits: an axis of size 1.
Axis = tuple[Digit, ...]


def axis_size(axis: Axis) -> int:
    """Return how many indices an axis has."""
    # In half the time for most, and a choice of a config asks some sixty times.
    return axis[0].size if len(axis) == 1 else prod(digit.size for digit in axis)


@dataclass(frozen=True, slots=True)
class OperandMap:
    """Where a batch of matrices lies in a buffer.

    ``offset`` is None if element 0 is the buffer's first; else where it is comes as an argument,
    which is a multiple of ``offset``.
    """

    dtype: DType
    batch: Axis
    rows: Axis
    columns: Axis
    windows: tuple[Window, ...] = ()
    offset: int | None = None

    @property
    def transposed(self) -> OperandMap:
        """The same elements with rows and columns exchanged."""
        return OperandMap(
            self.dtype, self.batch, self.columns, self.rows, self.windows, self.offset
        )

    def lane_stride(self, axis: Axis) -> int:
        """Return how far neighbours on an axis lie apart, by its last digit.

        >>> from pyrite.types import float32
        >>> matrix = OperandMap(float32, (), (Digit(3, 5),), (Digit(5, 1),))
        >>> matrix.lane_stride(matrix.rows), matrix.lane_stride(matrix.columns)
        (5, 1)
        """
        if not axis:
            return 0
        last = axis[-1]
        return last.stride + sum(step * self.windows[w].stride for w, step in last.steps)

    def is_consecutive(self, axis: Axis, width: int) -> bool:
        """Whether ``width`` neighbours from each multiple of width on lie one after the other."""
        if self.lane_stride(axis) != 1:
            return False
        return len(axis) == 1 or axis[-1].size % width == 0

    def reach(self, axis: Axis, most: int) -> int | None:
        """Return the longest vector of neighbours, at most ``most``, a power of two; None if 1."""
        width = most
        while width > 1:
            if self.is_consecutive(axis, width):
                return width
            width //= 2
        return None

    def is_aligned(self, axis: Axis, width: int) -> bool:
        """Whether those begin at a multiple of width in the buffer, for any other index."""
        if not self.is_consecutive(axis, width) or (self.offset or 0) % width:
            return False
        others = [d for a in (self.batch, self.rows, self.columns) for d in a if d is not axis[-1]]
        strides = [d.stride for d in others]
        strides += [s * self.windows[w].stride for d in others for w, s in d.steps]
        strides += [w.stride * w.origin for w in self.windows]
        return bool(sum(stride % width for stride in strides) == 0)  # one question

    def needs_test(self, number: int) -> bool:
        """Whether a position can be outside of a window."""
        window = self.windows[number]
        low = high = window.origin
        for axis in (self.batch, self.rows, self.columns):
            for digit in axis:
                for w, step in digit.steps:
                    if w == number:
                        reach = step * (digit.size - 1)
                        low, high = low + min(reach, 0), high + max(reach, 0)
        return low < 0 or high >= window.size


def row_major_map(
    dtype: DType, batch: Sequence[int], rows: int, columns: int, offset: int | None = None
) -> OperandMap:
    """Return the map of dense matrices: (*batch, rows, columns)."""
    strides = [prod(batch[i + 1 :]) * rows * columns for i in range(len(batch))]
    digits = tuple(Digit(n, s) for n, s in zip(batch, strides, strict=True))
    return OperandMap(dtype, digits, (Digit(rows, columns),), (Digit(columns, 1),), (), offset)


@dataclass(frozen=True, slots=True)
class AxisPlace:
    """The part that an index of one axis has in an element's place.

    ``offset`` counts elements; ``positions`` belong to the operand's windows; ``inside`` is false
    where the index itself is beyond the axis.  Of ``width`` lanes that are ``is_consecutive``
    offset and positions are those of the first, and ``moves`` is how far positions move from lane
    to lane; of others there is one for each.
    """

    offset: Index
    positions: tuple[Index, ...]
    moves: tuple[int, ...]
    inside: Value | None = None
    width: int = 1
    is_consecutive: bool = True
    is_aligned: bool = True


class Operand:
    """A buffer of a kernel read and written as matrices; see the head of this file.

    Unless it ``aligns``, nobody asks whether vectors begin at multiples of their width: processors
    do not care, and sizes of which that holds and others share a kernel.
    """

    def __init__(
        self, b: KernelBuilder, name: str, map: OperandMap, access: Access, *, aligns: bool = True
    ) -> None:
        self.builder = b
        self.map = map
        self._aligns = aligns
        self.memory: Memory = b.buffer(name, map.dtype, access)
        self.base: Index = 0
        if map.offset is not None:
            self.base = b.scalar(f"{name}_offset", b.index_type.dtype)
        self._tested = [map.needs_test(number) for number in range(len(map.windows))]

    def at(
        self, axis: Axis, index: Index, *, further: int = 0, period: int = 1,
        limit: Index | None = None, first: Index | None = None,
    ) -> AxisPlace:  # fmt: skip
        """Return the place of ``index + further`` on an axis.

        ``further < period``, and index is a multiple of period, which is a product of the axis'
        last digits, or 1; so these digits are known.  Outside if not less than ``limit``, or
        less than ``first``.
        """
        inside = self._below(plus(index, further), limit)
        if first is not None:
            inside = both(inside, self.builder.index(index) >= first)
        if period == 1 and further and len(axis) == 1 and not axis[0].steps:
            # So a turn of a loop that takes several steps moves one address, not one for each.
            offset = plus(times(index, axis[0].stride), times(further, axis[0].stride))
            none = (0,) * len(self.map.windows)
            return AxisPlace(offset, none, none, inside)
        steps = self._digits(axis, index, further, period)
        offset = total(times(x, digit.stride) for digit, x in steps)
        return AxisPlace(offset, self._positions(steps), (0,) * len(self.map.windows), inside)

    def lanes(
        self, axis: Axis, start: Index, width: int, *, limit: Index | None = None
    ) -> AxisPlace:
        """Return the places of ``width`` indices of an axis from start on, a multiple of width."""
        if width == 1:
            return self.at(axis, start, limit=limit)
        b, map = self.builder, self.map
        each = b.index(start) + iota(b, width)
        inside = self._below(each, limit)
        if not map.is_consecutive(axis, width):
            place = self.at(axis, each)
            return replace(
                place, inside=inside, width=width, is_consecutive=False, is_aligned=False
            )
        moved = dict(axis[-1].steps)
        return replace(
            self.at(axis, start),
            moves=tuple(moved.get(w, 0) for w in range(len(map.windows))),
            inside=inside, width=width,
            is_aligned=self._aligns and map.is_aligned(axis, width),
        )  # fmt: skip

    def join(self, *places: AxisPlace) -> AxisPlace:
        """Return the place that indices of several axes say together; one may have lanes."""
        inside: Value | None = None
        for place in places:
            inside = both(inside, place.inside)
        wide = next((p for p in places if p.width > 1), places[0])
        return replace(
            wide,
            offset=total(p.offset for p in places),
            positions=tuple(total(of) for of in zip(*(p.positions for p in places), strict=True)),
            inside=inside,
        )

    def load(self, *places: AxisPlace, other: int = 0) -> Value:
        """Return the elements at a place, 0 where it is outside, in the operand's dtype."""
        place = self.join(*places)
        address, mask = self._resolve(place)
        return self.memory.load(
            address, width=place.width, mask=mask, other=other, is_aligned=place.is_aligned
        )

    def prefetch(self, *places: AxisPlace) -> None:
        """Ask for the line of a place, or of the first of several that are neighbours."""
        address, _ = self._resolve(self.join(*places))
        self.memory.prefetch(address)

    def store(self, value: Value, *places: AxisPlace) -> None:
        """Write elements to a place, where that is inside."""
        place = self.join(*places)
        address, mask = self._resolve(place)
        self.memory.store(address, value, mask=mask, is_aligned=place.is_aligned)

    def _resolve(self, place: AxisPlace) -> tuple[Value, Value | None]:
        """Return where in the buffer it is, and whether it is inside."""
        address, mask = plus(self.base, place.offset), place.inside
        windows = zip(self.map.windows, self._tested, place.positions, place.moves, strict=True)
        for window, is_tested, position, move in windows:
            position = plus(position, window.origin)
            if is_tested:
                mask = both(mask, self._within(window, position, move, place.width))
            address = plus(address, times(position, window.stride))
        index = self.builder.index(address)
        if place.width > 1 and not place.is_consecutive and index.width == 1:
            index = self.builder.splat(index, place.width)
        return index, mask

    def _within(self, window: Window, position: Index, move: int, width: int) -> Value:
        b = self.builder
        each = b.index(position if move == 0 else plus(times(iota(b, width), move), position))
        return (each >= 0) & (each < window.size)

    def _below(self, index: Index, limit: Index | None) -> Value | None:
        return None if limit is None else self.builder.index(index) < limit

    def _positions(self, steps: Sequence[tuple[Digit, Index]]) -> tuple[Index, ...]:
        found: list[list[Index]] = [[] for _ in self.map.windows]
        for digit, x in steps:
            for w, step in digit.steps:
                found[w].append(times(x, step))
        return tuple(total(terms) for terms in found)

    def _digits(
        self, axis: Axis, index: Index, further: int, period: int
    ) -> list[tuple[Digit, Index]]:
        """Return each digit with its value."""
        known = further
        found: list[tuple[Digit, Index]] = []
        left = period
        rest = list(axis)
        while rest and left > 1 and len(rest) > 1 and left % rest[-1].size == 0:
            digit = rest.pop()
            found.append((digit, known % digit.size))
            known //= digit.size
            left //= digit.size
        index = plus(divided(index, period // left), known)
        while rest:
            digit = rest.pop()
            found.append((digit, remainder(index, digit.size) if rest else index))
            index = divided(index, digit.size) if rest else 0
        return found


def accumulator_of(dtype: DType) -> DType:
    """Return the dtype in which products of a dtype are summed up.

    float32 for 16-bit floats; narrow integers in 32 bits, of which the low ones are the same.
    """
    if dtype is bool_:
        return int32
    if dtype.is_integer and dtype.itemsize < 4:
        return int32 if dtype.kind == "int" else uint32
    return dtype.compute
