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

#: What is printed by one call: texts, and the dtypes of values.
Parts = tuple[str | DType, ...]


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
        values = [p for p in parts if isinstance(p, Value)]
        if any(v.width != 1 for v in values):
            raise KernelError(
                f"print requires single values, got {shown(next(v for v in values if v.width > 1))}"
                "; print its elements: v[0]"
            )
        self.calls.append(tuple(p.dtype if isinstance(p, Value) else str(p) for p in parts))
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
                if isinstance(part, str):
                    said.append(part)
                else:
                    count = 2 if part.bits > 32 else 1
                    said.append(str(_value(words[at : at + count], part)))
                    at += count
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
