"""Batches of one bucket each, all items once; padded batches say what is real."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pytest

from pyrite.data import DataLoader, InMemoryDataset, LengthBuckets, PadCollate
from pyrite.data.padding import Padded
from pyrite.errors import ArgumentError, DataError, DTypeError, ShapeError

LENGTHS = np.random.default_rng(2).integers(0, 60, 203)
SEQUENCES = InMemoryDataset([np.full(n, i, np.int32) for i, n in enumerate(LENGTHS)])


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(
    "settings",
    [
        {"batch_size": 8, "bounds": [10, 20, 30, 59]},
        {"batch_size": 500, "bounds": 3},
        {"max_elements": 64, "bounds": 8},
        {"batch_size": 1, "bounds": 1},
    ],
)
def test_batches_hold_every_item_once_and_one_bucket_each(settings: Any, shuffle: bool) -> None:
    buckets = LengthBuckets(LENGTHS, **settings)
    batches = buckets.batches(7, 3, shuffle=shuffle)
    assert len(buckets) == len(batches)
    assert sorted(chain.from_iterable(batch.tolist() for batch in batches)) == list(range(203))
    for batch in batches:
        within = np.searchsorted(buckets.bounds, LENGTHS[batch])
        assert len(set(within.tolist())) == 1
        if "max_elements" in settings:
            assert len(batch) * LENGTHS[batch].max() <= 64
        else:
            assert len(batch) <= settings["batch_size"]


def test_epochs_and_seeds_differ_and_repeat() -> None:
    buckets = LengthBuckets(LENGTHS, batch_size=8)

    def flat(seed: int, epoch: int) -> list[Any]:
        return [batch.tolist() for batch in buckets.batches(seed, epoch, shuffle=True)]

    assert flat(0, 0) == flat(0, 0)
    assert len({str(flat(*place)) for place in [(0, 0), (0, 1), (1, 0)]}) == 3
    # The batches are mixed, too: the buckets do not come in turn.
    bucket = [int(np.searchsorted(buckets.bounds, LENGTHS[batch[0]])) for batch in flat(0, 0)]
    assert bucket != sorted(bucket)
    assert len(LengthBuckets([], batch_size=3)) == 0


def test_a_loader_takes_its_batches_from_a_sampler_and_resumes_in_them() -> None:
    buckets = LengthBuckets(LENGTHS, max_elements=128)
    settings: Any = {"batch_sampler": buckets, "shuffle": True, "seed": 4, "tensors": False}
    loader = DataLoader(SEQUENCES, collate=PadCollate(-1), **settings)
    batches = list(loader.epoch(2))
    assert len(loader) == len(batches) == len(buckets)
    assert loader.num_items == 203
    for batch, indices in zip(batches, buckets.batches(4, 2, shuffle=True), strict=True):
        assert batch.mask.sum(axis=1).tolist() == LENGTHS[indices].tolist()
        assert (batch.values >= 0).tolist() == batch.mask.tolist()
    threads = DataLoader(SEQUENCES, collate=PadCollate(-1), workers=2, **settings)
    rest = list(threads.epoch(2, start=5))
    pairs = zip(rest, batches[5:], strict=True)
    assert all(np.array_equal(a.values, b.values) for a, b in pairs)
    assert "max_elements=128" in loader.settings["batch_sampler"]


class Tagged(NamedTuple):
    tokens: Any
    tags: Any
    name: str


@dataclass
class Sentence:
    tokens: Any
    label: int


def test_fields_are_padded_by_name_and_others_collated() -> None:
    items = [Tagged([1, 2, 3], np.ones((3, 2), np.float32), "a"), Tagged([4], [], "b")]
    items[1] = items[1]._replace(tags=np.ones((1, 2), np.float32))
    batch = PadCollate({"tokens": 0, "tags": -100}, multiple_of=4)(items)
    assert batch.tokens.values.tolist() == [[1, 2, 3, 0], [4, 0, 0, 0]]
    assert batch.tokens.values.dtype == np.int32
    assert batch.tags.values.shape == (2, 4, 2)
    assert batch.tags.values[1, 1:].tolist() == [[-100, -100]] * 3
    assert batch.name == ["a", "b"]
    record = PadCollate({"tokens": 0})([Sentence([1.5], 1), Sentence([1, 2.5], 2)])
    assert record.tokens.values.dtype == np.float32
    assert record.label.tolist() == [1, 2]
    assert PadCollate({0: 9})([([1], 5), ([], 6)])[0].values.tolist() == [[1], [9]]
    assert PadCollate({"x": 0})([{"x": [True, False], "y": 1}])["x"].mask.all()
    assert PadCollate(0)([[], []]).values.shape == (2, 0)
    assert isinstance(batch.tokens, Padded)


@pytest.mark.parametrize(
    ("collate", "items", "error", "message"),
    [
        (PadCollate({"x": 0}), [(1, 2)], ArgumentError, r"fields of the items, \[0, 1\], got"),
        (PadCollate(0), [], ArgumentError, "at least one item"),
        (PadCollate(0), [3], DTypeError, "got int"),
        (PadCollate(0), [["a"]], DTypeError, "sequences of numbers"),
        (PadCollate(0), [[[1], [2, 3]]], DTypeError, "sequences of numbers"),
        (PadCollate(300), [np.zeros(2, np.uint8)], DTypeError, "padding of uint8, got 300"),
        (PadCollate(0), [[1], [1.5]], DTypeError, "int32 for item 0 and float32 for item 1"),
        (PadCollate(0), [np.ones((1, 2)), np.ones((1, 3))], ShapeError, "all but their length"),
    ],
)
def test_what_cannot_be_padded_is_refused(
    collate: PadCollate, items: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        collate(items)


@pytest.mark.parametrize(
    ("lengths", "settings", "error", "message"),
    [
        ([1], {}, ArgumentError, "one of them"),
        ([1], {"batch_size": 1, "max_elements": 2}, ArgumentError, "one of them"),
        ([1], {"batch_size": 0}, ArgumentError, "batch_size >= 1"),
        ([1, 9], {"max_elements": 8}, ArgumentError, "got 9 for item 1"),
        ([1, 9], {"batch_size": 1, "bounds": [4, 8]}, ArgumentError, "9 for item 1; add a bound"),
        ([1], {"batch_size": 1, "bounds": [4, 4]}, ArgumentError, "ascend"),
        ([1], {"batch_size": 1, "bounds": 0}, ArgumentError, "1 buckets"),
        ([-1], {"batch_size": 1}, ArgumentError, "lengths >= 0"),
        ([1.5], {"batch_size": 1}, ShapeError, "float64"),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    lengths: Any, settings: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        LengthBuckets(lengths, **settings)


def test_a_sampler_that_changes_its_length_is_an_error() -> None:
    class Growing(LengthBuckets):
        def __len__(self) -> int:
            return 1

    with pytest.raises(DataError, match="instead of 1 from LengthBuckets"):
        list(DataLoader(SEQUENCES, batch_sampler=Growing(LENGTHS, batch_size=8)))
    for both in ({}, {"batch_size": 2, "batch_sampler": LengthBuckets([1], batch_size=1)}):
        with pytest.raises(ArgumentError, match="one of them"):
            DataLoader(SEQUENCES, **both)  # type: ignore[arg-type]
