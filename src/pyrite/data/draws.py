"""Draws: the random numbers of one item in one epoch, counted from (seed, epoch, index).

Nothing is stored between items, so an item is augmented alike in whichever worker, in whichever
order and after whichever resume; another epoch augments it anew.

Invariant: word i of an item is the Philox word at counter i under the item's own key, which is the
Philox word at (index, epoch) under the seed's key.  Python's integers compute it, because the few
words of an item cost less so than one call of NumPy.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pyrite.data.order import checked_seed
from pyrite.errors import ArgumentError
from pyrite.philox import MULTIPLIERS, ROUNDS, WEYL, words64

_WORD = 0xFFFFFFFF

# The high half of the draw ids is free of the epochs of `epoch_order`; `order` has those that begin
# with 0b1000 and 0b1001.
_ITEMS, _BATCHES = 0b11 << 62, 0b101 << 61

MOST_EPOCHS = 1 << 61
"""As many epochs have random numbers of their own."""


class Draws:
    """Random numbers of item `index` in an epoch; each call takes the next ones.

    With batch=True they are those of batch number `index`, independent of every item's.

    Raises ArgumentError unless 0 <= seed < 2**64, 0 <= epoch < 2**61 and 0 <= index < 2**64.

    >>> Draws(seed=0, epoch=2, index=7).integer(100) == Draws(seed=0, epoch=2, index=7).integer(100)
    True
    """

    __slots__ = ("_count", "_key", "_words")

    def __init__(self, seed: int, epoch: int, index: int, *, batch: bool = False) -> None:
        if not (0 <= epoch < MOST_EPOCHS and 0 <= index < 1 << 64):
            raise ArgumentError(
                f"draws require 0 <= epoch < 2**61 and 0 <= index < 2**64, got {epoch}, {index}"
            )
        seed, draw = checked_seed(seed), (_BATCHES if batch else _ITEMS) | epoch
        counter = (index & _WORD, index >> 32, draw & _WORD, draw >> 32)
        self._key = _four_words(counter, (seed & _WORD, seed >> 32))[:2]
        self._count = 0
        self._words: list[int] = []

    def uniform(self, low: float = 0.0, high: float = 1.0) -> float:
        """Return a float in [low, high), one of 2**53 at equal distances."""
        return low + (high - low) * ((self._word64() >> 11) * 2.0**-53)

    def integer(self, n: int) -> int:
        """Return an integer from 0 to n - 1; each is as likely, up to n / 2**64.

        Raises ArgumentError unless n >= 1.
        """
        if n < 1:
            raise ArgumentError(f"integer requires n >= 1, got {n}")
        return self._word64() * n >> 64

    def chance(self, p: float) -> bool:
        """Return True with probability p."""
        return self.uniform() < p

    def permutation(self, n: int) -> NDArray[np.int64]:
        """Return the numbers 0 to n - 1 in random order: int64 (n,)."""
        return np.argsort(self.words(n), kind="stable").astype(np.int64, copy=False)

    def uniforms(self, *shape: int) -> NDArray[np.float32]:
        """Return floats in [0, 1) of a shape, by NumPy: float32 (*shape)."""
        words = self.words(math.prod(shape)) >> np.uint64(40)
        return (words.astype(np.float32) * np.float32(2.0**-24)).reshape(shape)

    def normal(self, *shape: int) -> NDArray[np.float32]:
        """Return standard normal numbers of a shape: float32 (*shape).

        Source: G. E. P. Box & M. E. Muller, "A note on the generation of random normal deviates",
        1958.
        """
        count = math.prod(shape)
        words = self.words(2 * count)
        radius = np.sqrt(-2.0 * np.log1p(-((words[:count] >> np.uint64(11)) * 2.0**-53)))
        angle = (2.0 * np.pi) * ((words[count:] >> np.uint64(11)) * 2.0**-53)
        normal: NDArray[np.float32] = (radius * np.cos(angle)).astype(np.float32)
        return normal.reshape(shape)

    def beta(self, alpha: float) -> float:
        """Return a draw of the distribution Beta(alpha, alpha), in [0, 1].

        Raises ArgumentError unless alpha > 0.
        """
        if not 0 < alpha < math.inf:
            raise ArgumentError(f"beta requires 0 < alpha < inf, got {alpha}")
        first, second = self._log_gamma(alpha), self._log_gamma(alpha)
        ratio = math.exp(-abs(first - second))  # of the smaller to the larger: it cannot overflow
        return 1 / (1 + ratio) if first > second else ratio / (1 + ratio)

    def words(self, n: int) -> NDArray[np.uint64]:
        """Return n random words of 64 bits: uint64 (n,), by NumPy, for arrays."""
        self._count += 1
        return words64(n, self._key, draw=self._count << 32)

    def _log_gamma(self, alpha: float) -> float:
        """Return the logarithm of a draw of Gamma(alpha), which itself underflows at small alpha.

        Source: G. Marsaglia & W. W. Tsang, "A simple method for generating gamma variables", 2000;
        section 6 for alpha < 1.
        """
        if alpha < 1:
            return self._log_gamma(alpha + 1) + math.log1p(-self.uniform()) / alpha
        d = alpha - 1 / 3
        while True:
            x = math.sqrt(-2 * math.log1p(-self.uniform())) * math.cos(math.tau * self.uniform())
            v = (1 + x / math.sqrt(9 * d)) ** 3
            if v > 0 and math.log1p(-self.uniform()) < x * x / 2 + d - d * v + d * math.log(v):
                return math.log(d * v)

    def _word64(self) -> int:
        if not self._words:
            counter = (self._count & _WORD, self._count >> 32, 0, 0)
            first, second, third, fourth = _four_words(counter, self._key)
            self._count += 1
            self._words = [third | fourth << 32, first | second << 32]
        return self._words.pop()


def _four_words(
    counter: tuple[int, int, int, int], key: tuple[int, ...]
) -> tuple[int, int, int, int]:
    """Return Philox 4x32's words of one counter, as `pyrite.philox.philox4x32` gives them."""
    x0, x1, x2, x3 = counter
    key0, key1 = key
    for _ in range(ROUNDS):
        product0, product1 = x0 * MULTIPLIERS[0], x2 * MULTIPLIERS[1]
        x0, x1 = (product1 >> 32) ^ x1 ^ key0, product1 & _WORD
        x2, x3 = (product0 >> 32) ^ x3 ^ key1, product0 & _WORD
        key0, key1 = (key0 + WEYL[0]) & _WORD, (key1 + WEYL[1]) & _WORD
    return x0, x1, x2, x3
