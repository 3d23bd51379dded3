"""A batch's random numbers are counted, so every way to make it gives the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.data import DataLoader, Draws, InMemoryDataset
from pyrite.data.augment import Compose, Mixup, RandomCrop, RandomErasing, RandomHorizontalFlip
from pyrite.data.order import epoch_order
from pyrite.errors import DataError

RNG = np.random.default_rng(8)
IMAGES = InMemoryDataset(
    [(RNG.random((3, 8, 8), np.float32), int(label)) for label in RNG.integers(0, 4, 23)]
)
AUGMENT = Compose(RandomCrop(8, padding=2), RandomHorizontalFlip(), RandomErasing(value="random"))


def loader(**arguments: Any) -> DataLoader[Any]:
    settings = {"shuffle": True, "seed": 6, "augment": AUGMENT, "mix": Mixup(0.4, 4)}
    return DataLoader(IMAGES, 4, tensors=False, **{**settings, **arguments})


def bits(batches: Any) -> list[bytes]:
    return [array.tobytes() for batch in batches for array in batch]


def test_augmented_epochs_are_the_same_bits_for_any_workers_and_after_a_resume() -> None:
    alone = loader()
    epochs = [bits(alone) for _ in range(2)]
    assert epochs[0] != epochs[1]
    for workers in (1, 3):
        assert bits(loader(workers=workers).epoch(1)) == epochs[1]
        assert bits(loader(workers=workers).epoch(1, start=2)) == epochs[1][4:]
    assert bits(loader(seed=7).epoch(0)) != epochs[0]


def test_an_item_has_the_draws_of_its_index_in_the_dataset() -> None:
    (batch,) = DataLoader(
        list(range(5)), 5, shuffle=True, seed=2, tensors=False,
        augment=lambda item, draws: (item, draws.uniform()),
    ).epoch(3)  # fmt: skip
    assert batch[0].tolist() == epoch_order(5, 2, 3).tolist()
    expected = [Draws(2, 3, index).uniform() for index in batch[0].tolist()]
    assert batch[1].tolist() == np.float32(expected).tolist()


def test_a_batch_is_mixed_by_the_draws_of_its_number() -> None:
    made = DataLoader(list(range(5)), 2, tensors=False, mix=lambda batch, draws: draws.uniform())
    expected = [Draws(0, 4, number, batch=True).uniform() for number in range(3)]
    assert list(made.epoch(4)) == expected
    assert list(made.epoch(4, start=1)) == expected[1:]


def test_an_augmentation_that_fails_names_its_item_and_a_mix_its_batch() -> None:
    with pytest.raises(DataError, match=r"got ShapeError: RandomCrop requires .*for item 0$"):
        list(loader(augment=RandomCrop(9), shuffle=False))
    with pytest.raises(DataError, match=r"IndexRangeError: Mixup .*batch of items \[0, 1, 2, 3\]$"):
        list(loader(mix=Mixup(1.0, 1), shuffle=False))
    with pytest.raises(DataError, match=r"batch of items \[0, 1, .*15, … 23 in all\]$"):
        list(DataLoader(IMAGES, 23, collate=lambda items: 1 // 0))
