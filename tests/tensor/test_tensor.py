"""What a tensor is to Python: a number, a sequence, a value."""

from __future__ import annotations

import asyncio
import copy
import pickle  # noqa: TID251 - to see that it is refused
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.errors import DTypeError, RecordError, ShapeError, SyncError
from pyrite.tensor.creation import tensor, zeros


def test_a_tensor_of_one_element_is_a_number() -> None:
    x = tensor([[2.5]])
    assert x.item() == 2.5
    assert float(x) == 2.5
    assert int(x) == 2
    assert bool(x)
    assert [10, 20, 30][tensor(1)] == 20
    assert tensor(7).tolist() == 7


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (bool, ShapeError, r"bool requires one element, got shape \(2,\); use any\(\) or all\(\)"),
        (float, ShapeError, r"float requires one element, got shape \(2,\)"),
        (int, ShapeError, "int requires one element"),
        (lambda x: x.item(), ShapeError, "item requires one element"),
        (lambda x: [0][x], DTypeError, "an index requires a zero-d integer tensor"),
        (lambda x: [0][x.sum()], DTypeError, "got float32"),
        (lambda x: len(x.sum()), ShapeError, r"len requires at least one axis, got shape \(\)"),
        (hash, TypeError, r"unhashable; key by id\(x\)"),
        (pickle.dumps, RecordError, r"save a module, or send"),
        (lambda x: x + np.ones(2), DTypeError, r"convert it: pyrite\.tensor"),
    ],
)
def test_more_is_a_clear_error(call: Any, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        call(tensor([1.0, 2.0]))


def test_an_array_on_the_left_leaves_the_operator_to_the_tensor() -> None:
    with pytest.raises((DTypeError, TypeError)):
        np.ones(2) + tensor([1.0, 2.0])
    assert (np.float64(2) * tensor([1.0, 2.0])).tolist() == [2.0, 4.0]
    assert (np.float64(2) * tensor([1.0])).dtype is pyrite.float32


def test_copies_are_the_value_itself() -> None:
    x = tensor([1.0])
    assert copy.copy(x) is x
    assert copy.deepcopy({"a": x})["a"] is x
    assert np.shares_memory(x.clone().numpy(), x.numpy())


def test_reading_waits_and_no_sync_says_so() -> None:
    x = zeros((2,))
    with pyrite.no_sync():
        for name, read in {
            "numpy": x.numpy,
            "tolist": x.tolist,
            "item": x.sum().item,
            "bool": lambda: bool(x.any()),
            "int": lambda: int(x.sum()),
            "print": lambda: str(x),
            "format": lambda: f"{x:.2f}",
            "asarray": lambda: np.asarray(x),
        }.items():
            with pytest.raises(SyncError, match=f"^{name} requires waiting for the device"):
                read()
        assert asyncio.run(x.to_numpy_async()).tolist() == [0, 0]
    before = pyrite.sync_count()
    x.numpy()
    assert pyrite.sync_count() == before + 1


def test_a_tensor_moves_up_and_keeps_its_values() -> None:
    x = tensor([1.0])
    lifted = x.to(pyrite.autodiff("numpy"))
    assert lifted.device == x.device
    assert lifted.device.level == 1
    assert lifted.inner().tolist() == [1.0]
    assert x.to("numpy") is x
