"""What follows of products of sizes is right for all sizes for which the guards hold."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from pyrite.sized import SizeSymbols, is_size


def grown(sizes: list[Any], rng: Random) -> list[Any]:
    """Return numbers made of sizes, and answers to questions about them, as they are drawn."""
    known = list(sizes)
    for _ in range(30):
        x, y = rng.choice(known), rng.choice(known)
        what = rng.randrange(7)
        if what == 0 and x != 0:
            known.append(y // x)
        elif what == 1 and x != 0:
            known.append(y % x)
        elif what == 2:
            known.append(x + y)
        elif what == 3 and rng.random() < 0.5:
            known.append(1 if x == y else 0)
        else:
            known.append(x * y)
    return known


@pytest.mark.parametrize("seed", range(60))
def test_what_is_made_of_symbols_is_what_is_made_of_numbers(seed: int) -> None:
    rng = Random(seed)
    sizes = [rng.randrange(2, 7) for _ in range(4)]
    symbols = SizeSymbols()
    found = grown([symbols.size(n) for n in sizes], Random(seed))
    assert [int(x.value) if is_size(x) else x for x in found] == grown(sizes, Random(seed))
    program = symbols.program(found)

    drawn = [
        [rng.choice(sizes) if rng.random() < 0.5 else rng.randrange(9) for _ in sizes]
        for _ in range(300)
    ]
    matched = 0
    for others in [sizes, *drawn]:
        try:
            made = program(*others)
        except ZeroDivisionError:
            continue
        if made is not None:
            matched += 1
            assert list(made) == grown(others, Random(seed))
    assert matched, "the sizes at hand"


def test_quotients_and_rests_of_factors_ask_nothing() -> None:
    symbols = SizeSymbols()
    batch, rows, columns = symbols.size(5), symbols.size(30), symbols.size(8)
    asked = dict(symbols.guards)
    whole = batch * rows * columns

    assert whole % rows == 0
    assert whole // (rows * columns) == batch
    assert (whole // whole, whole % (columns * batch)) == (1, 0)
    assert symbols.guards == asked


def test_sizes_that_were_found_equal_are_one() -> None:
    symbols = SizeSymbols()
    x, y, both = symbols.size(6), symbols.size(6), symbols.size(12)
    assert x == y
    assert both == x * 2
    asked = dict(symbols.guards)

    assert both // y == 2
    assert y * y == x * x
    assert symbols.guards == asked
    found = symbols.program([both + y])
    assert found(6, 6, 12) == (18,)
    assert found(7, 7, 14) == (21,)
    assert found(6, 7, 12) is None
    assert found(6, 6, 13) is None
