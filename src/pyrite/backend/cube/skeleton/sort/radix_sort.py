"""Sorting rows by digits: one invocation sorts a row in memory of its own, least digit first.

Keys and positions go back and forth between two private buffers, which stay in the first cache.
All digits are counted while the keys are read, for no pass changes how many there are of each.
Source: Knuth 1998, The Art of Computer Programming 3, section 5.2.5, algorithm R.
"""

from __future__ import annotations

from pyrite.backend.cube.operand import invocation_of
from pyrite.backend.cube.skeleton.sort.key import Key
from pyrite.backend.cube.skeleton.sort.row import KeySource, Rows
from pyrite.kernel import Kernel, KernelBuilder, Value
from pyrite.types import int32

#: Where a digit begins, and how many bits it has.
Digit = tuple[int, int]


def digits_of(bits: int, most: int) -> list[Digit]:
    """Return the digits of a key from the least on, each of at most so many bits.

    >>> digits_of(19, 8), digits_of(8, 11)
    ([(0, 7), (7, 7), (14, 5)], [(0, 8)])
    """
    passes = -(-bits // most)
    each = -(-bits // passes)
    return [(shift, min(each, bits - shift)) for shift in range(0, bits, each)]


def digit_of(b: KernelBuilder, key: Value, shift: Value | int, bits: int) -> Value:
    """Return a digit of a key as an index."""
    return b.cast((key >> shift) & ((1 << bits) - 1), b.index_type.dtype)


def radix_kernel(
    rows: Rows, key: Key, workgroup_size: int, most: int, room: int, grid: int
) -> Kernel:
    """Return the kernel that writes the positions of each row in order: out[count, size].

    A digit has at most so many bits; rows fit in a ``room``.
    """
    b = KernelBuilder("sort_radix", workgroup_size=workgroup_size, grid=grid)
    body = _RadixSortKernel(b, rows, key, digits_of(key.bits, most), room)
    number = invocation_of(b)
    with b.if_(number < rows.count):
        body.count(number)
        for turn in range(len(body.digits)):
            body.begin(turn)
            body.move(turn, number)
    return b.build()


class _RadixSortKernel:
    """The kernel while it is being written."""

    def __init__(
        self, b: KernelBuilder, rows: Rows, key: Key, digits: list[Digit], room: int
    ) -> None:
        self.b, self.rows, self.digits = b, rows, digits
        self.source = KeySource(b, rows, key)
        self.out = b.buffer("out", int32, "write")
        self.counts = [b.private(int32, 1 << bits) for _, bits in digits]
        self.keys = [b.private(key.dtype, room) for _ in digits[:2]]
        # The first pass finds the positions in order, the last writes them to the result.
        self.positions = [b.private(int32, room) for _ in digits[1:][:2]]

    def count(self, number: Value) -> None:
        """Read the keys of a row, and count its digits."""
        b, row = self.b, self.source.row(number)
        for memory, (_, bits) in zip(self.counts, self.digits, strict=True):
            with b.for_(0, 1 << bits) as loop:
                memory[loop.index] = 0
        with b.for_(0, self.rows.size) as loop:
            key = self.source.load(row, loop.index)
            self.keys[0][loop.index] = key
            for memory, (shift, bits) in zip(self.counts, self.digits, strict=True):
                digit = digit_of(b, key, shift, bits)
                memory[digit] = memory[digit] + 1

    def begin(self, turn: int) -> None:
        """Make the counts of a digit the places where its values begin."""
        b, memory = self.b, self.counts[turn]
        with b.for_(0, 1 << self.digits[turn][1], carried=[b.index(0)]) as loop:
            count = memory[loop.index]
            memory[loop.index] = loop.carried[0]
            loop.yield_(loop.carried[0] + count)

    def move(self, turn: int, number: Value) -> None:
        """Put keys and positions where their digit belongs, in order."""
        b, places = self.b, self.counts[turn]
        is_last = turn == len(self.digits) - 1
        with b.for_(0, self.rows.size) as loop:
            i = loop.index
            key = self.keys[turn % 2][i]
            position = self.positions[(turn - 1) % 2][i] if turn else b.cast(i, int32)
            digit = digit_of(b, key, *self.digits[turn])
            place = b.index(places[digit])
            places[digit] = place + 1
            if is_last:
                self.out[number * self.rows.size + place] = position
            else:
                self.keys[(turn + 1) % 2][place] = key
                self.positions[turn % 2][place] = position


def most_elements(nbytes: int, key: Key, most: int) -> int:
    """Return how many elements a row may have, if an invocation has so much memory of its own."""
    counts = sum(1 << bits for _, bits in digits_of(key.bits, most)) * int32.itemsize
    return (nbytes - counts) // (2 * (key.dtype.itemsize + int32.itemsize))
