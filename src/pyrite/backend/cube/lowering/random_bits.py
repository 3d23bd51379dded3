"""Random words: the four of a counter at once, which the rule makes for each of its elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.registry import lowers
from pyrite.backend.cube.skeleton.each import Each, for_each
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.op import Attributes, Op
from pyrite.philox import philox_words
from pyrite.types import uint32

#: Words that one counter of Philox gives.
WORDS = 4


@lowers("random_bits")
def random_bits(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Return the words of Philox 4x32-10, four for each counter: those of `philox.philox4x32`."""
    target = launcher.empty(out[0])
    numbers = [(launcher.number(word, uint32), uint32) for word in inputs]

    def body(each: Each) -> None:
        b, (count,) = each.b, each.extents
        key, counter = each.numbers[:2], each.numbers[2:]
        words = philox_words(each.k, [b.cast(each.index, uint32), *counter], key)
        (result,) = each.operands
        first = each.index * WORDS
        for i, word in enumerate(words):
            result.store(first + i, word, mask=first + i < count)

    count = target.type.size
    for_each(
        launcher, op.name, "", (-(-count // WORDS),), [], target, body, extents=(count,),
        numbers=numbers,
    )  # fmt: skip
    return [target]
