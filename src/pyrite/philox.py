"""Philox 4x32-10: random words as a pure function of a counter and a key, in NumPy.

Every random number of Pyrite comes from this function or from a kernel that equals it bit for bit.
A counter-based generator has no state to advance: the word at any counter is computed alone, so
results do not depend on layout, vector width, thread or platform, and a draw can be made again
without replaying those before it.

Invariant: integer arithmetic on 32-bit words only, hence the same bits with every NumPy and CPU.

Source: Salmon, Moraes, Dror & Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROUNDS = 10
"""Ten rounds: the paper's recommended setting with a safety margin; seven already pass BigCrush."""

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
"""Salmon et al. 2011, table 2: chosen for avalanche by the authors' search."""

WEYL = (0x9E3779B9, 0xBB67AE85)
"""Key increments, section 4.1: the golden ratio and sqrt(3) - 1, as 32-bit fractions."""

WORDS = 4
"""Words that a counter gives."""

_WORD = 0xFFFFFFFF

Words = NDArray[np.uint32]
"""An array of 32-bit words."""


def philox4x32(counters: Words, key: Words | Sequence[int]) -> Words:
    """Four random words for each counter: uint32 (..., 4), uint32 (2,) -> uint32 (..., 4).

    Raises ValueError if the shapes are not as above, or if the words are not uint32.
    Source: Salmon et al. 2011, section 3.3; agrees with Random123's known-answer vectors.

    >>> [hex(word) for word in philox4x32(np.zeros(4, np.uint32), (0, 0))]
    ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    x0, x1, x2, x3 = _columns(counters)
    key0, key1 = _key_words(key)
    for _ in range(ROUNDS):
        product0, product1 = x0 * np.uint64(MULTIPLIERS[0]), x2 * np.uint64(MULTIPLIERS[1])
        x0 = _high(product1) ^ x1 ^ np.uint64(key0)
        x2 = _high(product0) ^ x3 ^ np.uint64(key1)
        x1, x3 = _low(product1), _low(product0)
        key0, key1 = (key0 + WEYL[0]) & _WORD, (key1 + WEYL[1]) & _WORD
    return np.stack((x0, x1, x2, x3), axis=-1).astype(np.uint32)


def philox_words(k: Any, counter: Sequence[Any], key: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
    """Return the four words of a counter of four words, against an algebra (`pyrite.algebra`)."""
    x0, x1, x2, x3 = counter
    key0, key1 = key
    for _ in range(ROUNDS):
        high0, low0 = k.multiply_high(x0, MULTIPLIERS[0]), x0 * MULTIPLIERS[0]
        high1, low1 = k.multiply_high(x2, MULTIPLIERS[1]), x2 * MULTIPLIERS[1]
        x0, x1, x2, x3 = high1 ^ x1 ^ key0, low1, high0 ^ x3 ^ key1, low0
        key0, key1 = key0 + WEYL[0], key1 + WEYL[1]
    return x0, x1, x2, x3


def seed_key(seed: int) -> Words:
    """Return the key of a seed, low word first: int -> uint32 (2,).

    Raises ValueError unless 0 <= seed < 2**64: distinct seeds have distinct keys.

    >>> seed_key(2**32 + 7)
    array([7, 1], dtype=uint32)
    """
    if not 0 <= seed < 1 << 64:
        raise ValueError(f"seed requires 0 <= seed < 2**64, got {seed}")
    return np.array([seed & _WORD, seed >> 32], np.uint32)


def words64(n: int, key: Words | Sequence[int], *, draw: int = 0) -> NDArray[np.uint64]:
    """Return n random 64-bit words, one per element index: uint64 (n,).

    Element i reads the counter (i low, i high, draw low, draw high) and joins the first two words,
    low word first, so word i does not depend on n.  Draws of one key are independent.

    Raises ValueError if n is negative or unless 0 <= draw < 2**64.

    >>> hex(words64(2, (0, 0))[0])
    '0xe169c58d6627e8d5'
    """
    if n < 0:
        raise ValueError(f"words64 requires n >= 0, got {n}")
    if not 0 <= draw < 1 << 64:
        raise ValueError(f"words64 requires 0 <= draw < 2**64, got {draw}")
    index = np.arange(n, dtype=np.uint64)
    counters = np.empty((n, 4), np.uint32)
    counters[:, 0], counters[:, 1] = _low(index), _high(index)
    counters[:, 2], counters[:, 3] = draw & _WORD, draw >> 32
    words = philox4x32(counters, key).astype(np.uint64)
    return words[:, 0] | (words[:, 1] << np.uint64(32))


def permutation(n: int, key: Words | Sequence[int], *, draw: int = 0) -> NDArray[np.int64]:
    """Return the numbers 0 to n - 1 in random order: int64 (n,).

    The order that sorts n random 64-bit words.  The sort is stable, so equal words (odds below
    n**2 / 2**65) keep their order and the result is one on every platform.

    Raises ValueError as words64.

    >>> sorted(permutation(5, (0, 0)).tolist())
    [0, 1, 2, 3, 4]
    """
    return np.argsort(words64(n, key, draw=draw), kind="stable").astype(np.int64, copy=False)


def _columns(counters: Words) -> list[NDArray[np.uint64]]:
    """Return the four words of each counter, each column widened so that products are exact."""
    if counters.dtype != np.uint32 or counters.ndim == 0 or counters.shape[-1] != 4:
        raise ValueError(
            f"philox4x32 requires uint32 counters of shape (..., 4), "
            f"got {counters.dtype} {counters.shape}"
        )
    return [counters[..., i].astype(np.uint64) for i in range(4)]


def _key_words(key: Words | Sequence[int]) -> tuple[int, int]:
    words = [int(word) for word in key]
    if len(words) != 2 or not all(0 <= word <= _WORD for word in words):
        raise ValueError(f"philox4x32 requires a key of two 32-bit words, got {words}")
    return words[0], words[1]


def _high(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return x >> np.uint64(32)


def _low(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return x & np.uint64(_WORD)
