"""Philox against Random123's published vectors and an independent scalar program."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrite.philox import permutation, philox4x32, seed_key, words64

word32 = st.integers(0, 2**32 - 1)

# Random123, tests/kat_vectors, the rows "philox4x32 10": counter, key, expected.
KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000",
     "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
     "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
]  # fmt: skip


def words(text: str) -> np.ndarray:
    return np.array([int(word, 16) for word in text.split()], np.uint32)


def scalar_philox(counter: list[int], key: list[int]) -> list[int]:
    """One block in Python's integers, written from the paper's figure rather than from our code."""
    left0, right0, left1, right1 = counter[1], counter[0], counter[3], counter[2]
    for r in range(10):
        k0 = (key[0] + r * 0x9E3779B9) % 2**32
        k1 = (key[1] + r * 0xBB67AE85) % 2**32
        p0, p1 = right0 * 0xD2511F53, right1 * 0xCD9E8D57
        right0, left0, right1, left1 = (
            (p1 // 2**32) ^ left0 ^ k0, p1 % 2**32, (p0 // 2**32) ^ left1 ^ k1, p0 % 2**32,
        )  # fmt: skip
    return [right0, left0, right1, left1]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_the_published_vectors_are_reproduced(counter: str, key: str, expected: str) -> None:
    np.testing.assert_array_equal(philox4x32(words(counter), words(key)), words(expected))


@given(st.lists(word32, min_size=4, max_size=4), st.lists(word32, min_size=2, max_size=2))
def test_every_block_equals_a_scalar_program(counter: list[int], key: list[int]) -> None:
    got = philox4x32(np.array(counter, np.uint32), key)
    assert got.tolist() == scalar_philox(counter, key)


def test_counters_of_any_layout_give_the_words_of_each_alone() -> None:
    counters = np.arange(2 * 3 * 4, dtype=np.uint32).reshape(3, 2, 4).swapaxes(0, 1)
    got = philox4x32(counters, (1, 2))
    assert got.shape == (2, 3, 4)
    assert got.dtype == np.uint32
    for position in np.ndindex(2, 3):
        np.testing.assert_array_equal(got[position], philox4x32(counters[position], (1, 2)))


def test_no_counters_give_no_words() -> None:
    assert philox4x32(np.zeros((0, 4), np.uint32), (0, 0)).shape == (0, 4)


@pytest.mark.parametrize(
    "counters", [np.zeros(3, np.uint32), np.zeros(4, np.int64), np.zeros((), np.uint32)]
)
def test_wrong_counters_are_refused(counters: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"requires uint32 counters of shape \(\.\.\., 4\)"):
        philox4x32(counters, (0, 0))


@pytest.mark.parametrize("key", [(0,), (0, 2**32), (-1, 0), (0, 0, 0)])
def test_wrong_keys_are_refused(key: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="key of two 32-bit words"):
        philox4x32(np.zeros(4, np.uint32), key)


def test_seeds_beyond_64_bits_are_refused() -> None:
    assert seed_key(2**64 - 1).tolist() == [2**32 - 1, 2**32 - 1]
    for seed in (-1, 2**64):
        with pytest.raises(ValueError, match="seed requires"):
            seed_key(seed)


def test_a_word_does_not_depend_on_how_many_are_drawn() -> None:
    np.testing.assert_array_equal(words64(3, (5, 6)), words64(1000, (5, 6))[:3])


def test_words64_reads_the_documented_counters() -> None:
    draw = 2**40 + 9
    block = scalar_philox([2, 0, draw % 2**32, draw >> 32], [5, 6])
    assert int(words64(3, (5, 6), draw=draw)[2]) == block[0] + (block[1] << 32)


@given(st.integers(0, 200), st.lists(word32, min_size=2, max_size=2))
def test_a_permutation_holds_each_number_once(n: int, key: list[int]) -> None:
    order = permutation(n, key)
    assert order.dtype == np.int64
    assert sorted(order.tolist()) == list(range(n))


def test_the_permutation_of_a_key_never_changes() -> None:
    blocks = [scalar_philox([i, 0, 0, 0], [7, 0]) for i in range(10)]
    expected = sorted(range(10), key=lambda i: blocks[i][0] + (blocks[i][1] << 32))
    assert permutation(10, seed_key(7)).tolist() == expected


def test_keys_and_draws_give_different_permutations() -> None:
    orders = {
        tuple(permutation(50, (key, 0), draw=draw)) for key in range(10) for draw in range(10)
    }
    assert len(orders) == 100


def test_every_place_is_equally_likely() -> None:
    # 6,000 permutations of 3: each of 6 orders 1,000 times, standard deviation 28.9; bound 5 sigma.
    seen: dict[tuple[int, ...], int] = {}
    for draw in range(6000):
        order = tuple(permutation(3, (1, 2), draw=draw).tolist())
        seen[order] = seen.get(order, 0) + 1
    assert len(seen) == 6
    assert all(abs(count - 1000) < 145 for count in seen.values())


@pytest.mark.parametrize(("n", "draw"), [(-1, 0), (1, -1), (1, 2**64)])
def test_wrong_draws_are_refused(n: int, draw: int) -> None:
    with pytest.raises(ValueError, match="words64 requires"):
        words64(n, (0, 0), draw=draw)
