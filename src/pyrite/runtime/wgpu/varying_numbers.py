"""The numbers of launches of which some vary from run to run, as one block of memory.

A step's launches of an optimiser take the same few numbers, a rate or a power of beta, beside their
own sizes.  So what is fixed is laid out once, and a run puts each number that varies to all of its
places at once.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pyrite.errors import KernelError
from pyrite.runtime.protocol import Fixed
from pyrite.types import Array

#: Each launch's numbers begin at a multiple of this, as the largest of them asks.
_ALIGNMENT = 8


class LaunchNumbers(NamedTuple):
    """The numbers of a launch: which of its table, its kernel, letters of struct, and values.

    A value is fixed, or the position of an operand.
    """

    place: int
    name: str
    letters: str
    values: Sequence[int | Fixed]


class _Move(NamedTuple):
    """Where numbers of one letter go: ``values`` says of each of ``places`` which number it has."""

    letter: str
    form: struct.Struct
    words: type[np.unsignedinteger[Any]]
    operands: tuple[int, ...]
    places: Array
    values: Array

    @classmethod
    def of(cls, letter: str, found: Mapping[tuple[int, str], Sequence[int]]) -> _Move:
        """Return that of a letter, of the bytes where each operand goes as one of a letter."""
        own = {n: at for (n, of), at in found.items() if of == letter}
        size = struct.calcsize(letter)
        return cls(
            letter,
            struct.Struct("@" + letter * len(own)),
            np.uint32 if size == 4 else np.uint64,
            tuple(own),
            np.concatenate([*own.values()]) // size,
            np.repeat(np.arange(len(own)), [len(at) for at in own.values()]),
        )


#: A block as words of 4 and of 8 bytes.
Words = Mapping[int, Array]


def words_of(block: Array) -> Words:
    """Return the words that a block is, which share its memory."""
    return {4: block.view(np.uint32), 8: block.view(np.uint64)}


class VaryingNumbers:
    """Where the numbers of launches lie in a block: each launch's as its kernel reads them.

    ``places`` are the launches, ``starts`` and ``sizes`` the bytes of each.
    """

    def __init__(self, launches: Sequence[LaunchNumbers]) -> None:
        self.places = np.array([launch.place for launch in launches], np.intp)
        found: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
        block, starts, sizes = bytearray(), [], []
        self._names: dict[tuple[int, str], str] = {}
        for launch in launches:
            block += bytes(-len(block) % _ALIGNMENT)
            start = len(block)
            for letter, value in zip(launch.letters, launch.values, strict=True):
                own = struct.Struct("@" + letter)
                block += bytes((start - len(block)) % own.size)
                if isinstance(value, Fixed):
                    block += own.pack(value.value)
                else:
                    found[value, letter].append(len(block))
                    self._names.setdefault((value, letter), launch.name)
                    block += bytes(own.size)
            starts.append(start)
            sizes.append(len(block) - start)
        self.starts, self.sizes = np.array(starts, np.uint64), np.array(sizes, np.uint64)
        self._block = np.frombuffer(block + bytes(-len(block) % _ALIGNMENT), np.uint8)
        self._moves = [_Move.of(letter, found) for letter in sorted({key[1] for key in found})]

    def block(self, operands: Sequence[Any]) -> Array:
        """Return the block of a run, a new array of bytes.

        Raises KernelError for a number that does not fit its dtype.
        """
        made = self._block.copy()
        self.fill(words_of(made), operands)
        return made

    def fill(self, words: Words, operands: Sequence[Any]) -> None:
        """Put the numbers of another run into a block, given as words of each size.

        Raises KernelError as `block` does.
        """
        for move in self._moves:
            values = [operands[n] for n in move.operands]
            try:
                packed = move.form.pack(*values)
            except struct.error:
                raise self._misfit(move, values) from None
            found = np.frombuffer(packed, move.words)
            words[found.itemsize][move.places] = found[move.values]

    def _misfit(self, move: _Move, values: Sequence[Any]) -> KernelError:
        """Return the error of the first of some numbers that does not fit."""
        own = struct.Struct("@" + move.letter)
        for n, value in zip(move.operands, values, strict=True):
            try:
                own.pack(value)
            except struct.error as error:
                return KernelError(
                    f"kernel '{self._names[n, move.letter]}' requires numbers of its parameters' "
                    f"dtypes, got {value}: {error}"
                )
        raise AssertionError("one of them does not fit")
