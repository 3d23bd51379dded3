"""Each transform against the list operation that it stands for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.data import (
    ComposedDataset,
    Dataset,
    InMemoryDataset,
    MapperDataset,
    PartialDataset,
    SamplerDataset,
    SelectionDataset,
    ShuffledDataset,
    WindowsDataset,
)
from pyrite.errors import ArgumentError, DTypeError, IndexRangeError

LETTERS = InMemoryDataset("abcdefg")

EACH = [
    LETTERS,
    MapperDataset(LETTERS, str.upper),
    SelectionDataset(LETTERS, [3, 3, -1]),
    ShuffledDataset(LETTERS, 0),
    SamplerDataset(LETTERS, 4),
    PartialDataset(LETTERS, 2, 5),
    WindowsDataset(LETTERS, 3),
    ComposedDataset([LETTERS, "xy"]),
]


@pytest.mark.parametrize("dataset", EACH, ids=lambda dataset: type(dataset).__name__)
def test_indexing_follows_the_rules_of_a_list(dataset: Dataset[Any]) -> None:
    items = list(dataset)
    n = len(dataset)
    assert len(items) == n
    assert [dataset[index] for index in range(-n, n)] == items + items
    for outside in (n, -n - 1):
        with pytest.raises(IndexRangeError, match=f"dataset requires {-n} <= index < {n}"):
            dataset[outside]


def test_a_map_computes_only_what_is_read() -> None:
    seen: list[str] = []
    mapped = LETTERS.map(lambda item: seen.append(item) or item.upper())
    assert mapped[2] == "C"
    assert seen == ["c"]


def test_a_shuffle_holds_each_item_once_and_depends_on_its_seed() -> None:
    numbers = InMemoryDataset(range(100))
    assert sorted(numbers.shuffle(1)) == list(range(100))
    assert list(numbers.shuffle(1)) == list(numbers.shuffle(1))
    assert list(numbers.shuffle(1)) != list(numbers.shuffle(2))


def test_a_split_is_disjoint_and_whole() -> None:
    numbers = InMemoryDataset(range(10))
    train, test = numbers.split([0.8, 0.2], seed=4)
    assert (len(train), len(test)) == (8, 2)
    assert sorted([*train, *test]) == list(range(10))
    assert [list(part) for part in numbers.split([3, 7])] == [[0, 1, 2], [3, 4, 5, 6, 7, 8, 9]]


def test_a_selection_may_repeat_and_count_from_the_end() -> None:
    assert "".join(LETTERS.select([0, 0, -1])) == "aag"
    assert "".join(LETTERS.select(np.array([1, 2], np.uint64))) == "bc"
    assert list(LETTERS.select([])) == []


@pytest.mark.parametrize("indices", [[0, 7], [-8], np.array([2**63], np.uint64)])
def test_a_selection_outside_the_dataset_is_refused(indices: Any) -> None:
    with pytest.raises(IndexRangeError, match="select requires -7 <= index < 7"):
        LETTERS.select(indices)


@pytest.mark.parametrize("indices", [[0.5], [True, False], [[1, 2]], 3])
def test_a_selection_by_anything_but_integers_is_refused(indices: Any) -> None:
    with pytest.raises(DTypeError, match="list of integers"):
        LETTERS.select(indices)


def test_a_sample_has_the_size_or_the_ratio_asked_for() -> None:
    assert len(LETTERS.sample(3)) == 3
    assert len(LETTERS.sample(ratio=0.5)) == 4
    assert len(LETTERS.sample(ratio=3.0, replacement=True)) == 21
    assert set(LETTERS.sample(7)) == set(LETTERS)
    assert list(LETTERS.sample(3, seed=1)) == list(LETTERS.sample(3, seed=1))


@pytest.mark.parametrize("arguments", [{}, {"size": 3, "ratio": 0.5}])
def test_a_sample_of_no_or_two_sizes_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="sample requires size or ratio"):
        LETTERS.sample(**arguments)


def test_windows_slide_by_their_stride_and_leave_out_the_rest() -> None:
    assert ["".join(window) for window in LETTERS.windows(3, stride=2)] == ["abc", "cde", "efg"]
    assert ["".join(window) for window in LETTERS.windows(4, stride=3)] == ["abcd", "defg"]
    assert len(LETTERS.windows(8)) == 0


@pytest.mark.parametrize(("size", "stride"), [(0, 1), (1, 0), (-1, 1)])
def test_windows_without_extent_are_refused(size: int, stride: int) -> None:
    with pytest.raises(ArgumentError, match="windows requires"):
        LETTERS.windows(size, stride=stride)


def test_sources_are_joined_in_order_past_empty_ones() -> None:
    joined = InMemoryDataset("ab").concatenate([], "c", "", "de")
    assert "".join(joined) == "abcde"
    assert len(ComposedDataset([])) == 0


def test_a_part_outside_its_source_is_refused() -> None:
    with pytest.raises(ArgumentError, match="0 <= start <= end <= 7, got start=5, end=8"):
        PartialDataset(LETTERS, 5, 8)


def test_transforms_read_any_sequence_and_chain() -> None:
    chained = MapperDataset(range(10), lambda x: x * x).select([4, 5]).map(str).windows(2)
    assert list(chained) == [["16", "25"]]


def test_the_representation_tells_the_number_of_items() -> None:
    assert repr(LETTERS.windows(3)) == "WindowsDataset(5 items)"
