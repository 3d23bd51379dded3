"""Unsigned integers beyond 8 bits are exact on PyTorch, which has no arithmetic for them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyrite

pytest.importorskip("torch")

WORDS = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=8)


@given(WORDS, st.integers(0, 2**64 - 1))
def test_quotient_and_remainder_of_uint64_are_those_of_python(xs: list[int], y: int) -> None:
    x = pyrite.tensor(np.array(xs, np.uint64), device="torch:cpu")
    divisor = pyrite.tensor(np.full(len(xs), y, np.uint64), device="torch:cpu")
    assert (x // divisor).tolist() == [n // y if y else 0 for n in xs]
    assert (x % divisor).tolist() == [n % y if y else 0 for n in xs]


@given(WORDS, st.integers(0, 70))
def test_shifts_of_uint64_are_those_of_python(xs: list[int], places: int) -> None:
    x = pyrite.tensor(np.array(xs, np.uint64), device="torch:cpu")
    assert (x << places).tolist() == [(n << places) % 2**64 for n in xs]
    assert (x >> places).tolist() == [n >> places for n in xs]


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64"])
def test_order_and_extremes_count_the_highest_bit(dtype: str) -> None:
    greatest = np.iinfo(dtype).max
    x = pyrite.tensor(np.array([1, greatest, greatest // 2 + 1], dtype), device="torch:cpu")
    assert (x.max().item(), x.min().item(), x.argmax().item()) == (greatest, 1, 1)
    assert x.sort().tolist() == [1, greatest // 2 + 1, greatest]
    assert (x > 5).tolist() == [False, True, True]
    assert (x + 1).tolist() == [2, 0, greatest // 2 + 2]
