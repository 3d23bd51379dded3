"""Batches keep the structure of their items, and items that differ are named."""

from __future__ import annotations

from dataclasses import dataclass, field
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple

import numpy as np
import PIL.Image
import pytest

import pyrite.data
from pyrite.data import ItemShapeError, ItemTypeError, default_collate, to_tensors
from pyrite.errors import ArgumentError, DTypeError, ShapeError
from pyrite.tensor.tensor import Tensor


class Pair(NamedTuple):
    x: Any
    y: Any


@dataclass(frozen=True)
class Sample:
    x: Any
    y: Any
    derived: int = field(default=0, init=False)


@pytest.mark.parametrize(
    ("items", "dtype"),
    [
        ([True, False], np.bool_),
        ([1, 2], np.int32),
        ([1.5, 2.5], np.float32),
        ([np.int64(1), np.int64(2)], np.int64),
        ([np.float64(1), np.float64(2)], np.float64),
        ([np.zeros((), np.uint8), np.ones((), np.uint8)], np.uint8),
    ],
)
def test_numbers_become_one_array(items: list[Any], dtype: type) -> None:
    batch = default_collate(items)
    assert batch.dtype == dtype
    assert batch.tolist() == items


def test_arrays_are_stacked() -> None:
    batch = default_collate([np.full((2, 3), i, np.float32) for i in range(4)])
    assert batch.shape == (4, 2, 3)
    assert batch[:, 0, 0].tolist() == [0, 1, 2, 3]


def test_records_keep_their_type() -> None:
    assert default_collate(["a", "b"]) == ["a", "b"]
    x, y = default_collate([(1, "a"), (2, "b")])
    assert (x.tolist(), y) == ([1, 2], ["a", "b"])
    pair = default_collate([Pair(1, 2.0), Pair(3, 4.0)])
    assert isinstance(pair, Pair)
    assert pair.y.tolist() == [2.0, 4.0]
    sample = default_collate([Sample(Pair(1, 2), 3), Sample(Pair(4, 5), 6)])
    assert isinstance(sample, Sample)
    assert sample.x.y.tolist() == [2, 5]
    by_key = default_collate([{"a": 1, "b": 2}, {"b": 4, "a": 3}])
    assert {key: value.tolist() for key, value in by_key.items()} == {"a": [1, 3], "b": [2, 4]}


def test_lists_are_sequences_and_are_stacked() -> None:
    assert default_collate([[1, 2, 3], [4, 5, 6]]).tolist() == [[1, 2, 3], [4, 5, 6]]
    windows = default_collate([[Pair(1, np.zeros(5)), Pair(2, np.ones(5))]] * 3)
    assert windows.x.shape == (3, 2)
    assert windows.y.shape == (3, 2, 5)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (
            [np.zeros(3), np.zeros(3), np.zeros(4)],
            r"collate requires items of one shape, got \(3,\) for item 0 and \(4,\) for item 2",
        ),
        ([[1, 2], [1, 2, 3]], r"one shape, got \(2,\) for item 0 and \(3,\) for item 1"),
        (
            [Pair(np.zeros(1), 0), Pair(np.zeros(2), 0)],
            r"items\[0\] of one shape, got \(1,\) for item 0 and \(2,\) for item 1",
        ),
        (
            [Sample(0, np.zeros(1)), Sample(0, np.zeros(2))],
            r"items\['y'\] of one shape",
        ),
        (
            [[np.zeros(1)] * 2, [np.zeros(1), np.zeros(2)]],
            r"within each list, got \(1,\) for item 1 and \(2,\) for item 1",
        ),
    ],
)
def test_the_first_item_of_another_shape_is_named(items: list[Any], message: str) -> None:
    with pytest.raises(ShapeError, match=message) as caught:
        default_collate(items)
    assert isinstance(caught.value, ItemShapeError)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([1, 2.0], "items of one type, got int for item 0 and float for item 1"),
        ([(1,), (None,)], r"items\[0\] of one type, got int for item 0 and NoneType for item 1"),
        ([np.zeros(1), np.zeros(1, np.float32)], "one dtype, got float64 for item 0 and float32"),
        ([(1, 2), (1,)], "equal fields"),
        ([{"a": 1}, {"b": 1}], "equal fields"),
    ],
)
def test_the_first_item_of_another_type_is_named(items: list[Any], message: str) -> None:
    with pytest.raises(DTypeError, match=message) as caught:
        default_collate(items)
    assert isinstance(caught.value, ItemTypeError)


def test_what_has_no_batch_is_refused() -> None:
    with pytest.raises(DTypeError, match="got NoneType for item; pass collate"):
        default_collate([None])
    with pytest.raises(DTypeError, match=r"int within int32, got 2147483648; give np.int64 items"):
        default_collate([1, 2**31])
    with pytest.raises(ArgumentError, match="at least one item"):
        default_collate([])


def test_an_error_can_be_told_in_the_numbers_of_the_dataset() -> None:
    error = ItemShapeError("collate requires items of one shape", (1,), (2,), (0, 1))
    assert str(error.renumbered([70, 80])).endswith("got (1,) for item 70 and (2,) for item 80")


def test_arrays_of_a_batch_become_tensors_and_the_rest_stays() -> None:
    batch = default_collate([Sample(Pair(1.0, "a"), {"k": np.zeros((2, 3))})])
    made = to_tensors(batch, "numpy")
    assert isinstance(made.x.x, Tensor)
    assert made.x.y == ["a"]
    assert made.y["k"].shape == (1, 2, 3)
    np.testing.assert_array_equal(np.asarray(made.x.x), [1.0])


def test_the_public_names_are_sorted_and_present() -> None:
    assert pyrite.data.__all__ == sorted(pyrite.data.__all__)
    assert all(hasattr(pyrite.data, name) for name in pyrite.data.__all__)


def test_a_mismatch_reaches_another_process_whole() -> None:
    error = ItemShapeError("collate requires one shape", (3,), (4,), (0, 2))
    copy = ForkingPickler.loads(ForkingPickler.dumps(error))
    assert type(copy) is ItemShapeError
    assert str(copy) == str(error)
    assert str(copy.renumbered([5, 6, 9])) == str(error.renumbered([5, 6, 9]))


class ArrayOfAnotherLibrary:
    def __init__(self, values: Any) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if self.values is None:
            raise TypeError("got an unsupported dtype")
        return np.asarray(self.values)


def test_arrays_of_other_libraries_are_read_by_numpy() -> None:
    batch = default_collate(
        [(ArrayOfAnotherLibrary([1, 2]), 0), (ArrayOfAnotherLibrary([3, 4]), 1)]
    )
    assert batch[0].tolist() == [[1, 2], [3, 4]]
    picture = PIL.Image.new("RGB", (3, 2), (1, 2, 3))
    assert default_collate([picture, picture]).shape == (2, 2, 3, 3)
    with pytest.raises(DTypeError, match=r"NumPy can read, got ArrayOfAnother.*unsupported dtype"):
        default_collate([ArrayOfAnotherLibrary(None)])
