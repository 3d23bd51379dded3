"""The random numbers of an item are words of Philox, and have the distributions that they claim."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pyrite.data import Draws
from pyrite.data.draws import MOST_EPOCHS
from pyrite.errors import ArgumentError
from pyrite.philox import philox4x32


def words(counter: list[int], key: list[int]) -> list[int]:
    return [int(word) for word in philox4x32(np.array(counter, np.uint32), key)]


@pytest.mark.parametrize("batch", [False, True])
def test_a_number_is_the_philox_word_of_seed_epoch_and_index(batch: bool) -> None:
    seed, epoch, index = 7 << 33 | 5, 3 << 32 | 9, 2 << 32 | 1
    high = (0b101 << 29 if batch else 0b11 << 30) | 3
    key = words([1, 2, 9, high], [5, 14])[:2]
    draws = Draws(seed, epoch, index, batch=batch)
    for count in range(2):
        low0, high0, low1, high1 = words([count, 0, 0, 0], key)
        for word in (low0 | high0 << 32, low1 | high1 << 32):
            assert draws.uniform() == (word >> 11) * 2.0**-53


def test_items_epochs_seeds_and_batches_have_numbers_of_their_own() -> None:
    places = [(seed, epoch, index) for seed in range(3) for epoch in range(3) for index in range(3)]
    seen = {Draws(*place, batch=batch).uniform() for place in places for batch in (False, True)}
    assert len(seen) == 2 * len(places)


@pytest.mark.parametrize("alpha", [0.05, 0.2, 1.0, 5.0])
def test_beta_has_its_distribution(alpha: float) -> None:
    drawn = [Draws(0, 0, index).beta(alpha) for index in range(1000)]
    assert abs(np.mean(drawn) - 0.5) < 0.06
    # The lower half: near 1 a float has no room for what small alphas draw.
    low = [x for x in drawn if x < 0.5]
    assert stats.kstest(low, lambda x: 2 * stats.beta(alpha, alpha).cdf(x)).pvalue > 1e-3


def test_uniforms_integers_and_normals_have_their_distributions() -> None:
    draws = Draws(1, 2, 3)
    uniform = [draws.uniform(-1, 3) for _ in range(2000)]
    assert stats.kstest(uniform, stats.uniform(-1, 4).cdf).pvalue > 1e-3
    counts = np.bincount([draws.integer(7) for _ in range(3500)], minlength=7)
    assert stats.chisquare(counts).pvalue > 1e-3
    normal = draws.normal(40, 50)
    assert normal.shape == (40, 50)
    assert normal.dtype == np.float32
    assert stats.kstest(normal.ravel(), stats.norm.cdf).pvalue > 1e-3
    assert sorted(draws.permutation(9).tolist()) == list(range(9))
    assert not np.array_equal(draws.permutation(99), draws.permutation(99))


@pytest.mark.parametrize("place", [(-1, 0, 0), (0, MOST_EPOCHS, 0), (0, -1, 0), (0, 0, 1 << 64)])
def test_a_place_out_of_range_is_refused(place: tuple[int, int, int]) -> None:
    with pytest.raises(ArgumentError, match="require"):
        Draws(*place)


def test_arguments_out_of_range_are_refused() -> None:
    with pytest.raises(ArgumentError, match="n >= 1, got 0"):
        Draws(0, 0, 0).integer(0)
    with pytest.raises(ArgumentError, match="alpha"):
        Draws(0, 0, 0).beta(0.0)
