"""Random words of scores, made where a score is: those of `pyrite.tensor.attention`'s draw.

A row's keys share counters by fours, and its last counter may give words that no key takes.  So
who has four keys of a row, or of several, makes all of them of one round of Philox.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyrite.backend.cube.operand import Operand, iota
from pyrite.backend.cube.skeleton.attention.problem import Attention
from pyrite.kernel import KernelBuilder, Value
from pyrite.kernel.template.index import pieces, plus
from pyrite.kernel.template.lanes import interleaved
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.philox import WORDS, philox_words
from pyrite.types import uint32


class Draws:
    """The words of all scores; ``key`` is the operand of the draw's two words."""

    def __init__(self, b: KernelBuilder, problem: Attention, key: Operand) -> None:
        self.b, self.problem = b, problem
        self.k = RecordingAlgebra(b)
        self.key = key[[0]], key[[1]]

    def row(self, head: Value, row: Value) -> Value:
        """Return the number of a row of queries among all: a row of a head, or several."""
        b = self.b
        rows = b.cast(b.index(self.problem.rows), uint32)
        number = b.cast(b.index(plus(head, self.problem.first)), uint32)
        return self._wide(number * rows, row.width) + b.cast(row, uint32)

    def words(self, row: Value, first: Value) -> tuple[Value, ...]:
        """Return the words of four keys from ``first`` on, a multiple of four.

        ``row`` is a number of `row`; it and first may be vectors.
        """
        width = max(row.width, first.width)
        b = self.b
        counters = b.cast(b.index(pieces(self.problem.keys, WORDS)), uint32)
        number = self._wide(row * self._wide(counters, row.width), width)
        number = number + self._wide(b.cast(first, uint32) // WORDS, width)
        none = self._wide(b.const(0, uint32), width)
        key = [self._wide(word, width) for word in self.key]
        return philox_words(self.k, [number, none, none, none], key)

    def along(self, row: Value, first: Value, width: int, vectors: int) -> list[Value]:
        """Return the words of so many vectors of keys of one row, from ``first`` on."""
        b = self.b
        if width % WORDS:  # the first key of a vector may be in the midst of a counter
            keys = [first + v * width + iota(b, width) for v in range(vectors)]
            return [self._chosen(self.words(row, key), key) for key in keys]
        words = self.words(row, first + iota(b, width) * WORDS)
        return interleaved(words)[:vectors]

    def _chosen(self, words: Sequence[Value], keys: Value) -> Value:
        """Return of each lane the word that is its key's."""
        b = self.b
        place = b.cast(keys, uint32) % WORDS
        found = words[0]
        for n, word in enumerate(words[1:], 1):
            found = b.select(b.alu("eq", place, n), word, found)
        return found

    def _wide(self, x: Value, width: int) -> Value:
        return x if x.width == width else self.b.splat(x, width)
