"""Sizes as symbols outside of kernels: what is read of one is a guard, whichever way it is read."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyrite.cached import UnhashableSymbolError, cached, distinct
from pyrite.content import content_of
from pyrite.errors import KernelError
from pyrite.sized import SizeSymbols, computed, has_symbol, is_size, key_of_sizes

READS: dict[str, Callable[[Any], Any]] = {
    "a range": lambda n: list(range(n)),
    "an index": lambda n: "abcdefgh"[n],
    "int": int,
    "float": float,
    "a shift": lambda n: 1 << n,
    "math.gcd": lambda n: math.gcd(n, 12),
    "math.sqrt": math.sqrt,
    "numpy": lambda n: np.arange(n),
    "a slice": lambda n: list("abcdefgh")[:n],
    "repetition": lambda n: [0] * n,
    "a format": lambda n: f"{n:3}",
    "a power": lambda n: n**2,
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_what_reads_a_size_is_for_that_size_alone(read: Callable[[Any], Any]) -> None:
    symbols = SizeSymbols()
    n = symbols.size(6)

    read(n)

    program = symbols.program([n])
    assert program(6) == (6,)
    assert program(7) is None


@pytest.mark.parametrize(
    "compute",
    [
        lambda n, m: (n * m + 3) // 4 if n > m else n - m,
        lambda n, m: math.prod((n, m, n)),
        lambda n, m: max(n, m) - min(n, m),
        lambda n, m: sum([n, m, n]),
        lambda n, m: divmod(n, m)[0] * 2 + abs(m - n),
        lambda n, m: -(-n // 8) if m % 2 == 0 else n / m,
        lambda n, m: n.bit_length() + m // m,
        lambda n, m: min(math.inf, n) + 2 * min(m, np.float64(1e9)),
        lambda n, m: n * float(np.float64(0.5)) + m * np.float64(0.25),
    ],
)
def test_a_program_gives_what_the_code_gives_or_says_that_it_would_go_another_way(
    compute: Callable[[Any, Any], Any],
) -> None:
    symbols = SizeSymbols()
    found = symbols.program([compute(symbols.size(12), symbols.size(5))])
    served = 0

    for n in range(2, 40):
        for m in range(2, 20):
            if (given := found(n, m)) is not None:
                served += 1
                assert given == (compute(n, m),)

    assert served > 1


def test_sizes_of_zero_and_one_are_no_symbols() -> None:
    symbols = SizeSymbols()

    assert [symbols.size(n) for n in (0, 1, -3)] == [0, 1, -3]
    assert symbols.program([])(0, 1, -3) == ()
    assert symbols.program([])(0, 2, -3) is None


def test_a_size_says_that_it_is_an_int_and_is_in_no_cache() -> None:
    symbols = SizeSymbols()
    n = symbols.size(4)
    calls: list[Any] = []

    @cached(8)
    def double(x: Any) -> Any:
        calls.append(x)
        return 2 * x

    assert isinstance(n, int)
    assert is_size(n)
    assert has_symbol((1, (n,)))
    with pytest.raises(UnhashableSymbolError):
        hash(n)
    assert [double(4), double(4)] == [8, 8]
    assert is_size(double(n))
    assert is_size(double(n))
    assert len(calls) == 3
    assert double(4) == 8
    assert not is_size(double(4))


def test_distinct_values_are_compared_where_they_have_no_hash() -> None:
    symbols = SizeSymbols()
    n, m = symbols.size(4), symbols.size(4)

    assert len(distinct([n, 4, m, 5])) == 2
    assert symbols.program([])(4, 5) is None


def test_texts_have_the_numbers_of_their_call() -> None:
    symbols = SizeSymbols()
    n = symbols.size(4)

    parts = symbols.parts(f"index < {n} of {(n, 2 * n)}")

    assert [x for x in parts if not isinstance(x, str)] == [n, n, 2 * n]
    assert symbols.program(parts[1::2])(9) == (9, 9, 18)


def test_keys_of_sizes_are_of_one_run() -> None:
    one, other = SizeSymbols(), SizeSymbols()
    n, m = one.size(4), other.size(4)

    assert content_of(key_of_sizes((n, 1))) == content_of(key_of_sizes((n, 1)))
    assert content_of(key_of_sizes((n, 1))) != content_of(key_of_sizes((m, 1)))
    assert content_of(key_of_sizes((4, 1))) == content_of((4, 1))


def test_a_function_of_sizes_is_one_question_and_one_expression() -> None:
    symbols = SizeSymbols()
    rows = symbols.size(100)
    kind = symbols.answer(lambda n: n.bit_length(), [rows])
    most = computed(lambda n, m: 1 << max(n, m).bit_length(), rows, 8)
    program = symbols.program([most + 1, kind])

    assert program(100) == (129, 7)
    assert program(65) == (129, 7)
    assert program(200) is None, "the answer is another"


def test_a_question_has_one_number_in_all_runs_whatever_was_asked_before() -> None:
    def is_wide(n: int) -> bool:
        return n > 64

    def other(n: int) -> bool:
        return n > 64

    def run(sizes: tuple[int, int], *, asks_more: bool, function: Any = is_wide) -> Any:
        symbols = SizeSymbols()
        rows, columns = map(symbols.size, sizes)
        if asks_more:
            bool((rows + 5) * 3 > 100)
        found = bool(rows * columns > 1000), symbols.answer(function, [columns * 2])
        return (*symbols.judged_program([rows]), found)

    program, answers, _ = run((10, 20), asks_more=False)
    _, others, (is_many, wide) = run((50, 60), asks_more=True)

    assert answers.keys() < others.keys()
    assert list(answers.values()) == [True, True, False, False]
    assert [others[n] for n in answers] == [True, True, is_many, wide] == [True] * 4
    assert program(12, 30) == (12,)
    # What one class is told of sizes says what all others would find.
    for sizes in ((50, 60), (10, 60), (1, 9)):
        miss = program(*sizes)
        assert miss.answer is not answers[miss.question]
    assert others[program(50, 60).question] is program(50, 60).answer
    _, of_other, _ = run((10, 20), asks_more=False, function=other)
    assert len(answers.keys() - of_other.keys()) == 1


def test_a_function_that_asks_a_symbol_itself_is_refused() -> None:
    symbols = SizeSymbols()
    rows = symbols.size(100)

    with pytest.raises(KernelError, match="requires that it asks no symbol itself"):
        symbols.answer(lambda n: n + (rows > 3), [rows])


def test_a_function_of_known_sizes_is_called() -> None:
    assert computed(min, 5, 3) == 3
