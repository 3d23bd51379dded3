"""Orders are permutations, the same for ever, and splits lose nothing."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrite.data.order import epoch_order, sampled_order, shuffled_order, split_bounds
from pyrite.errors import ArgumentError

FROZEN = {
    "epoch 0": [5, 7, 2, 1, 3, 4, 6, 0],
    "epoch 1": [6, 4, 5, 7, 3, 2, 1, 0],
    "shuffle": [7, 5, 6, 2, 3, 0, 1, 4],
    "sample": [5, 2, 0, 2],
}


def test_the_orders_of_a_seed_never_change() -> None:
    # Frozen: a resumed run and another platform rely on these numbers.
    assert epoch_order(8, seed=0, epoch=0).tolist() == FROZEN["epoch 0"]
    assert epoch_order(8, seed=0, epoch=1).tolist() == FROZEN["epoch 1"]
    assert shuffled_order(8, seed=0).tolist() == FROZEN["shuffle"]
    assert sampled_order(8, 4, seed=0, replacement=True).tolist() == FROZEN["sample"]


def test_seeds_that_differ_in_the_high_word_differ() -> None:
    assert shuffled_order(50, 1).tolist() != shuffled_order(50, 1 + 2**32).tolist()


def test_a_shuffled_dataset_and_an_epoch_are_independent_draws() -> None:
    assert shuffled_order(50, 0).tolist() != epoch_order(50, 0, 0).tolist()


def test_a_sample_without_replacement_has_no_repetition() -> None:
    order = sampled_order(100, 60, seed=3, replacement=False).tolist()
    assert len(order) == len(set(order)) == 60


def test_a_sample_with_replacement_may_exceed_the_dataset() -> None:
    order = sampled_order(3, 1000, seed=3, replacement=True)
    counts = np.bincount(order, minlength=3)
    # 1000 draws of 3: mean 333.3, standard deviation 14.9; bound 5 sigma.
    assert counts.sum() == 1000
    assert np.all(np.abs(counts - 333.3) < 75)


@pytest.mark.parametrize(
    ("size", "replacement", "message"),
    [(-1, True, "size >= 0"), (4, False, "size <= 3 items, got 4; pass replacement=True")],
)
def test_a_sample_that_cannot_be_drawn_is_refused(
    size: int, replacement: bool, message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        sampled_order(3, size, seed=0, replacement=replacement)


def test_nothing_can_be_sampled_from_nothing() -> None:
    assert sampled_order(0, 0, seed=0, replacement=True).tolist() == []
    with pytest.raises(ArgumentError, match="a dataset with items"):
        sampled_order(0, 1, seed=0, replacement=True)


@given(st.integers(0, 1000), st.lists(st.integers(0, 9), min_size=1, max_size=6))
def test_fractions_split_every_item_into_one_part(n: int, weights: list[int]) -> None:
    total = sum(weights) or 1
    fractions = [weight / total for weight in weights] if sum(weights) else [1.0]
    bounds = split_bounds(n, fractions)
    assert len(bounds) == len(fractions)
    assert bounds[0][0] == 0
    assert bounds[-1][1] == n
    assert all(start <= end for start, end in bounds)
    assert all(before[1] == after[0] for before, after in pairwise(bounds))


def test_lengths_split_exactly() -> None:
    assert split_bounds(10, [3, 0, 7]) == [(0, 3), (3, 3), (3, 10)]


@pytest.mark.parametrize("parts", [[], [5, 0.5], [5, 6], [0.5, 0.6], [-5, 15], [0.5, 0.4]])
def test_parts_with_a_wrong_sum_or_mixed_kinds_are_refused(parts: list[float]) -> None:
    with pytest.raises(ArgumentError, match="split requires"):
        split_bounds(10, parts)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_outside_64_bits_is_refused(seed: int) -> None:
    with pytest.raises(ArgumentError, match="seed requires 0 <= seed"):
        shuffled_order(3, seed)


@pytest.mark.parametrize("epoch", [-1, 2**63])
def test_an_epoch_outside_its_range_is_refused(epoch: int) -> None:
    with pytest.raises(ArgumentError, match="epoch requires"):
        epoch_order(3, 0, epoch)
