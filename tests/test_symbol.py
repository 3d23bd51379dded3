"""What is made of sizes that a kernel gets at launch, and asked of them, is as for the sizes."""

from __future__ import annotations

import math
import operator
import random
from typing import Any

import pytest

from pyrite.errors import KernelError
from pyrite.kernel import KernelBuilder
from pyrite.symbol import Symbols
from pyrite.types import float32, int32

BINARY = [
    operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.truediv,
]  # fmt: skip
QUESTIONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


def expression(draw: random.Random, leaves: list[Any], depth: int) -> Any:
    """Return a random number made of others."""
    if depth == 0 or draw.random() < 0.2:
        return draw.choice(leaves)
    if draw.random() < 0.1:
        return -expression(draw, leaves, depth - 1)
    x, y = (expression(draw, leaves, depth - 1) for _ in range(2))
    return draw.choice(BINARY)(x, y)


def answers(seed: int, sizes: list[Any]) -> tuple[list[bool], list[Any]]:
    """Return what a random program makes of sizes and asks of them."""
    draw = random.Random(seed)
    leaves = [*sizes, 0, 1, 2, 7, 16]
    made = [expression(draw, leaves, 4) for _ in range(3)]
    asked = [draw.choice(QUESTIONS)(draw.choice(made), draw.choice([*made, 3])) for _ in range(4)]
    return [*asked, bool(made[0])], made


@pytest.mark.parametrize("seed", range(300))
def test_a_program_does_the_same_with_symbols_and_its_guards_say_for_which_sizes(seed: int) -> None:
    draw = random.Random(seed)
    sizes = [draw.randint(2, 40) for _ in range(3)]
    symbols = Symbols()
    try:
        wanted, numbers = answers(seed, list(sizes))
    except ZeroDivisionError:
        with pytest.raises(ZeroDivisionError):
            answers(seed, [symbols.symbol(n) for n in sizes])
        return

    asked, made = answers(seed, [symbols.symbol(n) for n in sizes])

    assert asked == wanted
    assert [getattr(x, "value", x) for x in made] == numbers
    holds = symbols.function(symbols.guard)
    assert holds(*sizes)
    for _ in range(50):
        others = [draw.randint(2, 40) for _ in range(3)]
        try:
            same, numbers = answers(seed, list(others))
            if not holds(*others):
                continue
        except ZeroDivisionError:
            continue
        # A guard that holds has the same answers, and expressions have the values of these sizes.
        assert same == wanted
        texts = "(" + "".join(f"{getattr(x, 'text', repr(x))}," for x in made) + ")"
        assert list(symbols.function(texts)(*others)) == numbers


@pytest.mark.parametrize(
    "ask",
    [
        int, float, operator.index, lambda n: [*range(n)], lambda n: [0] * n,
        lambda n: [*range(99)][n], lambda n: math.gcd(n, 12), lambda n: "x" * n,
    ],
)  # fmt: skip
def test_who_wants_the_number_itself_makes_it_part_of_the_kernel(ask: Any) -> None:
    symbols = Symbols()
    assert ask(symbols.symbol(6)) == ask(6)

    holds = symbols.function(symbols.guard)
    assert holds(6)
    assert not holds(12)


def test_a_cache_never_keeps_what_is_made_of_symbols() -> None:
    with pytest.raises(KernelError, match="a cache requires known numbers"):
        {}.get(Symbols().symbol(2))


def test_what_is_true_of_every_size_is_not_asked() -> None:
    symbols = Symbols()
    n, m = symbols.symbol(5), symbols.symbol(9)

    assert n > 0
    assert n * m != 1
    assert (n + m) % 1 == 0
    assert n - n == 0
    assert n == n
    assert symbols.guards == {}


def test_a_symbol_that_meets_a_value_becomes_one_argument_of_each_dtype() -> None:
    symbols = Symbols()
    n = symbols.symbol(20)
    b = KernelBuilder("scale")
    x, out = b.buffer("x", float32, "read"), b.buffer("out", float32, "write")
    i = b.workgroup_id()

    with b.if_(i < n * 2):
        out[i] = x[i] * (1 / n) + x[i * 2 % (n * 2)] * (1 / n)
    kernel = b.build()

    assert [p.kind for p in kernel.parameters] == ["buffer", "buffer", "argument", "argument"]
    assert [(a.position, a.dtype) for a in symbols.arguments] == [(2, int32), (3, float32)]
    assert symbols.function(symbols.values)(20) == (40, 0.05)
    assert symbols.function(symbols.values)(8) == (16, 0.125)
