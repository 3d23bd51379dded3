"""Tensors made of numbers: one value, a progression, random words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.registry import lowers
from pyrite.backend.cube.skeleton.each import Each, for_each
from pyrite.backend.cube.skeleton.elementwise import dense
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Value
from pyrite.kernel.builder import KernelBuilder
from pyrite.op import Attributes, Op
from pyrite.philox import MULTIPLIERS, ROUNDS, WEYL
from pyrite.types import uint32

#: Words that one counter of Philox gives.
WORDS = 4


@lowers("full")
def full(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """One value everywhere."""
    return [dense(launcher, inputs[0], out[0])]


@lowers("arange")
def arange(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """start + i * step, computed in the dtype of start."""
    target = launcher.empty(out[0])
    dtype = out[0].dtype.compute
    numbers = [(launcher.number(i, dtype), dtype) for i in inputs]

    def body(each: Each) -> None:
        start, step = each.numbers
        (result,) = each.operands
        result[each.at] = start + each.b.cast(each.index, dtype) * step

    for_each(launcher, op.name, "", target.shape, [], target, body, numbers=numbers)
    return [target]


@lowers("random_bits")
def random_bits(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The words of Philox 4x32-10, four for each counter: those of `philox.philox4x32`."""
    target = launcher.empty(out[0])
    count = target.type.size
    numbers = [(launcher.number(word, uint32), uint32) for word in inputs]

    def body(each: Each) -> None:
        b = each.b
        key, counter = each.numbers[:2], each.numbers[2:]
        words = philox(b, [b.cast(each.index, uint32), *counter], key)
        (result,) = each.operands
        first = each.index * WORDS
        for i, word in enumerate(words):
            result.store(first + i, word, mask=first + i < count)

    for_each(
        launcher, op.name, str(count), (-(-count // WORDS),), [], target, body, numbers=numbers
    )
    return [target]


def philox(b: KernelBuilder, counter: Sequence[Value], key: Sequence[Value]) -> list[Value]:
    """Return the four random words of a counter of four words; see `pyrite.philox`."""
    x0, x1, x2, x3 = counter
    key0, key1 = key
    for _ in range(ROUNDS):
        high0, low0 = b.alu("mulhi", x0, MULTIPLIERS[0]), x0 * MULTIPLIERS[0]
        high1, low1 = b.alu("mulhi", x2, MULTIPLIERS[1]), x2 * MULTIPLIERS[1]
        x0, x1, x2, x3 = high1 ^ x1 ^ key0, low1, high0 ^ x3 ^ key1, low0
        key0, key1 = key0 + WEYL[0], key1 + WEYL[1]
    return [x0, x1, x2, x3]
