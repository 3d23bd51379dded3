"""What kernels print: words in a buffer of each launch, told as text when it is done.

A record is the number of its call, the invocation, and the values, of one word each or two.  What
does not fit any more is counted and not kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from pyrite.backend.cube.operand import workgroup_of
from pyrite.errors import KernelError
from pyrite.extension.arithmetic import Arithmetic
from pyrite.extension.mathematics import Plain
from pyrite.extension.mistake import shown
from pyrite.kernel import Memory, Value
from pyrite.types import Array, DType, int32, uint32, uint64

#: Words that the prints of one launch take at most; the first has how many are taken.
WORDS: Final = 1 << 16

#: A text, or the dtype of a value and how it is formatted.
Piece = str | tuple[DType, str]
#: What is printed by one call: parts with a space between, each of pieces without one.
Parts = tuple[tuple[Piece, ...], ...]


class Joined:
    """A text with values of a kernel in it, as an f-string has them: it can be printed.

    ``pieces`` are texts, and values with how they are formatted.
    """

    def __init__(self, pieces: Sequence[str | tuple[Any, str]]) -> None:
        self.pieces = tuple(pieces)

    def __str__(self) -> str:
        raise KernelError(
            "an f-string requires values that Python knows, got one of a kernel; print it where "
            "the kernel runs: print(f'...'), or k.print('at', i)"
        )

    __repr__ = __str__

    @classmethod
    def of(cls, *pieces: Any) -> str | Joined:
        """Return a text, or what will be one if a value of a kernel is in it.

        >>> Joined.of("a ", (1.5, ".2f"))
        'a 1.50'
        """
        if any(isinstance(p, tuple) and holds_values(p[0]) for p in pieces):
            return cls([piece for p in pieces for piece in _spread(p)])
        return "".join(format(*p) if isinstance(p, tuple) else p for p in pieces)


def _spread(piece: str | tuple[Any, str]) -> Sequence[str | tuple[Any, str]]:
    """Return the pieces of one: of a vector its items, each formatted as it is."""
    if isinstance(piece, str):
        return (piece,)
    value, form = piece
    if not holds_values(value):
        return (format(value, form),)
    return [(p[0], p[1] or form) if isinstance(p, tuple) else p for p in _pieces_of(value)]


def holds_values(part: Any) -> bool:
    """Whether values of a kernel are in what is to be printed: itself, an f-string, a vector."""
    if isinstance(part, tuple):
        return any(map(holds_values, part))
    return isinstance(part, Value | Joined)


def _pieces_of(part: Any) -> tuple[str | tuple[Value, str], ...]:
    if isinstance(part, Joined):
        return part.pieces
    if isinstance(part, tuple) and holds_values(part):
        items = [piece for item in part for piece in (", ", *_pieces_of(item))]
        return ("(", *items[1:], ",)" if len(part) == 1 else ")")
    return ((part, ""),) if isinstance(part, Value) else (str(part),)


class Prints:
    """The calls of ``k.print`` of one kernel."""

    def __init__(self) -> None:
        self.calls: list[Parts] = []
        self.memory: Memory | None = None

    @property
    def position(self) -> int:
        """The place of the buffer among the kernel's parameters."""
        assert self.memory is not None, "something is printed"
        position: int = self.memory.node.attr[0]
        return position

    def record(self, scope: Arithmetic, memory: Memory, parts: Sequence[Any]) -> None:
        """Write a call's values behind those that are there."""
        self.memory = memory
        pieces = [_pieces_of(part) for part in parts]
        values = [p[0] for of in pieces for p in of if isinstance(p, tuple)]
        if any(v.width != 1 for v in values):
            raise KernelError(
                f"print requires single values, got {shown(next(v for v in values if v.width > 1))}"
                "; print its elements: v[0]"
            )
        self.calls.append(
            tuple(
                tuple((p[0].dtype, p[1]) if isinstance(p, tuple) else p for p in of)
                for of in pieces
            )
        )
        plain = scope.plain
        number = plain.const(len(self.calls), uint32)
        words = [number, plain.cast(invocation_number(plain), uint32)]
        words += [plain.of(w.node) for v in values for w in _words(scope, v)]
        at = plain.cast(memory.atomic("add", 0, plain.const(len(words), uint32)), int32)
        fits = at <= WORDS - len(words)
        for offset, word in enumerate(words):
            memory.atomic("store", at + offset, word, mask=fits)

    def text(self, words: Array) -> str:
        """Return what was printed, in the order of invocations."""
        taken = int(words[0])
        lines = sorted(self._lines(words, min(taken, WORDS)), key=lambda line: line[0])
        more = f"(k.print keeps {WORDS} words of a launch, got {taken})\n" * (taken > WORDS)
        return "".join(line for _, line in lines) + more

    def _lines(self, words: Array, end: int) -> Iterator[tuple[int, str]]:
        at = 1
        while at + 1 < end and 0 < words[at] <= len(self.calls):
            parts, invocation = self.calls[int(words[at]) - 1], int(words[at + 1])
            at += 2
            said = []
            for part in parts:
                told = ""
                for piece in part:
                    if isinstance(piece, str):
                        told += piece
                        continue
                    dtype, form = piece
                    count = 2 if dtype.bits > 32 else 1
                    found = _value(words[at : at + count], dtype)
                    told += format(found, form) if form else str(found)
                    at += count
                said.append(told)
            yield invocation, " ".join(said) + "\n"


def invocation_number(plain: Plain) -> Value:
    """Return the number of an invocation among all of a launch."""
    size = plain.invocations
    group = workgroup_of(plain)
    return group * size + plain.local_index() if size > 1 else group


def _words(scope: Arithmetic, value: Value) -> list[Value]:
    """Return a value as words."""
    dtype = value.dtype
    if dtype.is_bool:
        return [scope.select(value, scope.const(1, uint32), 0)]
    if dtype.bits > 32:
        wide = scope.bitcast(value, uint64)
        return [scope.cast(part, uint32) for part in (wide, scope.shift("shr", wide, 32))]
    if dtype.is_float:
        return [scope.bitcast(scope.cast(value, dtype.compute), uint32)]
    return [scope.cast(value, uint32)]


def _value(words: Array, dtype: DType) -> Any:
    """Return the value that words are."""
    if dtype.is_bool:
        return bool(words[0])
    if dtype.bits > 32:
        return words.view(dtype.numpy)[0]
    if dtype.is_float:
        return words.view(np.float32)[0]
    return words.view(np.int32 if dtype.kind == "int" else np.uint32)[0]


def empty_words() -> Array:
    """Return the words of a launch that has printed nothing."""
    words = np.zeros(WORDS, np.uint32)
    words[0] = 1
    return words
