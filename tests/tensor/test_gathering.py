"""Reading by index tensors, and the writes that undo it, against NumPy and PyTorch."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.autodiff import grad
from pyrite.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError, SyncError
from pyrite.tensor.creation import tensor, zeros

RNG = np.random.default_rng(0)


def test_take_along_axis_is_numpys_with_broadcasting_and_negative_indices() -> None:
    array = RNG.normal(size=(3, 4))
    for indices, axis in [
        (RNG.integers(-4, 4, (3, 2)), 1),
        (RNG.integers(-3, 3, (5, 4)), 0),
        (RNG.integers(-3, 3, (5, 1)), 0),
        (np.zeros((3, 0), int), -1),
    ]:
        found = tensor(array).take_along_axis(tensor(indices), axis)
        np.testing.assert_array_equal(found.numpy(), np.take_along_axis(array, indices, axis))
        np.testing.assert_array_equal(tensor(array).gather(axis, tensor(indices)), found)


def test_gather_nd_and_scatter_nd_are_fancy_indexing() -> None:
    array = RNG.normal(size=(3, 4, 2))
    for depth in (1, 2, 3):
        indices = np.stack([RNG.integers(-n, n, (2, 5)) for n in array.shape[:depth]], -1)
        key = tuple(np.moveaxis(indices, -1, 0))
        np.testing.assert_array_equal(tensor(array).gather_nd(tensor(indices)), array[key])
        updates = RNG.normal(size=array[key].shape)
        for reduction, at in [("add", np.add.at), ("mul", np.multiply.at), ("min", np.minimum.at)]:
            expected = array.copy()
            at(expected, key, updates)
            written = tensor(array).scatter_nd(
                tensor(indices),
                tensor(updates),
                reduction=reduction,  # type: ignore[arg-type]
            )
            np.testing.assert_array_equal(written.numpy(), expected)


def test_take_and_its_writes_are_numpys() -> None:
    array = RNG.normal(size=(3, 4))
    for indices, axis in itertools.product(
        (RNG.integers(-3, 3, (2, 2)), np.array(1), np.array([], int)), (0, 1, None)
    ):
        found = tensor(array).take(tensor(indices), axis)
        np.testing.assert_array_equal(found.numpy(), np.take(array, indices, axis), strict=True)
    values = RNG.normal(size=(3, 2))
    expected = array.copy()
    expected[:, [3, 0]] = values
    written = tensor(array).select_assign(1, tensor([3, 0]), tensor(values))
    np.testing.assert_array_equal(written.numpy(), expected)
    assert zeros((2, 2)).select_assign(0, tensor([1]), 5, reduction="add").tolist() == [
        [0, 0],
        [5, 5],
    ]
    rows = tensor(array).index_select(0, tensor([2]))
    np.testing.assert_array_equal(rows.numpy(), array[[2]])


def test_embedding_and_its_gradients_are_torchs() -> None:
    torch = pytest.importorskip("torch")
    weight, ids = RNG.normal(size=(5, 3)), RNG.integers(0, 5, (2, 4))
    cotangent = RNG.normal(size=(2, 4, 3))
    w = torch.tensor(weight, requires_grad=True)
    theirs = torch.nn.functional.embedding(torch.tensor(ids), w)
    (theirs * torch.tensor(cotangent)).sum().backward()
    ours = tensor(weight).embedding(tensor(ids))
    np.testing.assert_array_equal(ours.numpy(), theirs.detach().numpy())
    g = grad(lambda w: (w.embedding(tensor(ids)) * tensor(cotangent)).sum())(tensor(weight))
    np.testing.assert_allclose(g.numpy(), w.grad.numpy())
    square = grad(lambda w: (w.embedding(tensor(ids)) ** 3).sum())
    second = grad(lambda w: square(w).sum())(tensor(weight))
    counts = np.bincount(ids.reshape(-1), minlength=5)[:, None]
    np.testing.assert_allclose(second.numpy(), 6 * weight * counts)


def test_masked_select_has_a_waiting_a_static_and_an_awaited_form() -> None:
    array = RNG.normal(size=(3, 4))
    mask = array > 0
    x, m = tensor(array), tensor(mask)
    chosen = array[mask]
    np.testing.assert_array_equal(x.masked_select(m).numpy(), chosen)
    with pyrite.no_sync():
        few, many = x.masked_select(m, size=2), x.masked_select(m, size=20, fill_value=-1)
        with pytest.raises(SyncError, match=r"^masked_select requires waiting"):
            x.masked_select(m)
        awaited = asyncio.run(x.masked_select_async(m))
    np.testing.assert_array_equal(few.numpy(), chosen[:2])
    np.testing.assert_array_equal(many.numpy(), [*chosen, *[-1] * (20 - len(chosen))])
    np.testing.assert_array_equal(awaited.numpy(), chosen)
    rows = tensor([True, False, True])
    np.testing.assert_array_equal(x.masked_select(rows).numpy(), array[[0, 2]])
    np.testing.assert_array_equal(x.masked_select(rows, size=1).numpy(), array[:1])
    assert zeros((0,)).masked_select(zeros((0,), dtype=bool), size=2).tolist() == [0, 0]
    assert x.masked_select(tensor(True)).shape == (1, 3, 4)


def test_gradients_flow_through_masked_select() -> None:
    x, m = tensor([1.0, 2.0, 3.0]), tensor([True, False, True])
    assert grad(lambda x: (x.masked_select(m) ** 2).sum())(x).tolist() == [2, 0, 6]
    sized = grad(lambda x: (x.masked_select(m, size=3, fill_value=9) ** 2).sum())
    assert sized(x).tolist() == [2, 0, 6]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "uint64"])
def test_narrow_and_wide_dtypes_are_kept(dtype: str) -> None:
    x = tensor([1, 2, 3], dtype=dtype)
    index = tensor([2, 2, 0])
    for result in (
        x.take_along_axis(index, 0),
        x.scatter(0, index, x, reduction="add"),
        x.gather_nd(index.expand_dims(-1)),
        x.take(index, 0),
    ):
        assert result.dtype.name == dtype
    assert x.scatter(0, index, x, reduction="add").tolist() == [4, 2, 6]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda x: x.take_along_axis(tensor([[0, 3]]), 1),
            IndexRangeError,
            "take_along_axis requires -3 <= index < 3 on axis 1, got index 3",
        ),
        (lambda x: x.take(tensor([-3]), 0), IndexRangeError, "take requires -2 <= index < 2"),
        (lambda x: x.embedding(tensor([2])), IndexRangeError, "embedding requires -2 <= index"),
        (lambda x: x.scatter(1, tensor([[5]]), 0), IndexRangeError, "got index 5"),
        (lambda x: x.gather_nd(tensor([[0, 9]])), IndexRangeError, "on axis 1, got index 9"),
        (lambda x: x.take(tensor([0.5]), 0), DTypeError, "take requires integer indices"),
        (lambda x: x.take_along_axis(tensor([0]), 0), ShapeError, "indices with 2 axes"),
        (lambda x: x.gather_nd(tensor([[0, 0, 0]])), ShapeError, "indices.shape"),
        (lambda x: x.scatter(0, tensor([[0, 0]]), 0), ShapeError, "scatter requires"),
        (lambda x: x.scatter(0, tensor([[0]]), x), ShapeError, "updates of shape"),
        (
            lambda x: x.scatter(0, tensor([[0]]), 0, reduction="mean"),
            ArgumentError,
            "a reduction of assign, add, mul, min, max, got 'mean'",
        ),
        (
            lambda x: (x > 0).scatter(0, tensor([[0]]), True, reduction="add"),
            DTypeError,
            "requires a number dtype to add, got bool",
        ),
        (lambda x: x.masked_select(x), DTypeError, "requires a bool mask, got float32"),
        (lambda x: x.masked_select(tensor([True])), ShapeError, r"got mask \(1,\)"),
    ],
)
def test_what_does_not_fit_is_an_error(call: Any, error: type, text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        call(zeros((2, 3)))
    assert __file__ in caught.value.location
