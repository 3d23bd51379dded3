"""The numbers of launches of which some vary from run to run, as one block of memory.

A step's launches of an optimiser take the same few numbers, a rate or a power of beta, beside their
own sizes.  So what is fixed is laid out once, and a run puts each number that varies to all of its
places at once.
"""

from __future__ import annotations

import struct
import sys
from collections import defaultdict
from collections.abc import Sequence
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
        self._moves = [
            (key, struct.Struct("@" + key[1]), np.array(at) // struct.calcsize(key[1]))
            for key, at in found.items()
        ]

    def block(self, operands: Sequence[Any]) -> Array:
        """Return the block of a run, a new array of bytes.

        Raises KernelError for a number that does not fit its dtype.
        """
        made = self._block.copy()
        words: dict[int, Array] = {4: made.view(np.uint32), 8: made.view(np.uint64)}
        for key, own, at in self._moves:
            value = operands[key[0]]
            try:
                word = int.from_bytes(own.pack(value), sys.byteorder)
            except struct.error as error:
                raise KernelError(
                    f"kernel '{self._names[key]}' requires numbers of its parameters' dtypes, "
                    f"got {value}: {error}"
                ) from None
            words[own.size][at] = word
        return made
