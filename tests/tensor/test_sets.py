"""Positions, unique values and counts against NumPy: waiting, awaited, and of a fixed size."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad
from pyrite.errors import ArgumentError, AxisError, ShapeError, SyncError
from pyrite.op import OPS
from pyrite.synchronization import no_sync, sync_count
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.types import DTYPES, DType, int32

NAN = float("nan")


def repeated(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, shape).astype(dtype.numpy)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_positions_are_those_of_numpy_in_every_dtype(dtype: DType) -> None:
    x = repeated((3, 4), dtype)
    got = tensor(x).argwhere()
    assert got.dtype is int32
    np.testing.assert_array_equal(got.numpy(), np.argwhere(x))
    for axis, want in zip(tensor(x).nonzero(), np.nonzero(x), strict=True):
        np.testing.assert_array_equal(axis.numpy(), want)


def test_positions_at_the_limits() -> None:
    assert tensor([NAN, -0.0, 1.0]).argwhere().tolist() == [[0], [2]]
    assert tensor(5.0).argwhere().shape == (1, 0)
    assert tensor(0.0).argwhere().shape == (0, 0)
    assert tensor(np.zeros((0, 2))).argwhere().shape == (0, 2)
    with pytest.raises(ShapeError, match=r"nonzero requires at least one axis, got shape \(\)"):
        tensor(5.0).nonzero()


def test_a_size_cuts_off_and_fills_up() -> None:
    x = tensor([[0, 5], [7, 0]])
    assert x.argwhere(size=1).tolist() == [[0, 1]]
    assert x.argwhere(size=3, fill_value=-1).tolist() == [[0, 1], [1, 0], [-1, -1]]
    assert [p.tolist() for p in x.nonzero(size=3)] == [[0, 1, 0], [1, 0, 0]]
    with pytest.raises(ArgumentError, match="argwhere requires size >= 0, got -1"):
        x.argwhere(size=-1)


def test_what_depends_on_values_waits_and_what_has_a_size_does_not() -> None:
    x = tensor([1, 0, 1])
    before = sync_count()
    x.argwhere()
    assert sync_count() == before + 1
    assert OPS["argwhere"].sync
    with no_sync():
        for name in (
            "argwhere",
            "nonzero",
            "unique_values",
            "unique_counts",
            "unique_all",
            "bincount",
        ):
            with pytest.raises(SyncError, match=f"^{name} requires waiting for the device"):
                getattr(x, name)()
            getattr(x, name)(size=2)
        x.isin(x)
    assert sync_count() == before + 1


def test_positions_may_be_awaited_where_waiting_is_forbidden() -> None:
    async def positions() -> Any:
        with no_sync():
            x = tensor([[0, 5], [7, 0]])
            return await asyncio.gather(
                x.argwhere_async(), x.nonzero_async(), x.unique_values_async()
            )

    points, (rows, columns), values = asyncio.run(positions())
    assert points.tolist() == [[0, 1], [1, 0]]
    assert (rows.tolist(), columns.tolist()) == ([0, 1], [1, 0])
    assert values.tolist() == [0, 5, 7]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_unique_values_are_those_of_numpy_in_every_dtype(dtype: DType) -> None:
    x = repeated((4, 5), dtype)
    values, indices, inverse, counts = np.unique(
        x.astype(float), return_index=True, return_inverse=True, return_counts=True
    )
    got = tensor(x).unique_all()
    assert got.values.dtype is dtype
    np.testing.assert_array_equal(got.values.numpy().astype(float), values)
    np.testing.assert_array_equal(got.indices.numpy(), indices)
    np.testing.assert_array_equal(got.inverse_indices.numpy(), inverse.reshape(x.shape))
    np.testing.assert_array_equal(got.counts.numpy(), counts)
    assert got.indices.dtype is got.inverse_indices.dtype is got.counts.dtype is int32


def test_each_form_of_unique_gives_its_part() -> None:
    x = tensor([[3, 1], [3, 2]])
    assert x.unique().tolist() == x.unique_values().tolist() == [1, 2, 3]
    assert [part.tolist() for part in x.unique_counts()] == [[1, 2, 3], [1, 1, 2]]
    assert x.unique_inverse().inverse_indices.tolist() == [[2, 0], [2, 1]]


def test_each_nan_is_a_value_of_its_own_and_zeros_are_one() -> None:
    got = tensor([NAN, 0.0, -0.0, NAN]).unique_all()
    np.testing.assert_array_equal(got.values.numpy(), [0, NAN, NAN])
    assert got.counts.tolist() == [2, 1, 1]
    assert got.indices.tolist() == [1, 0, 3]
    assert got.inverse_indices.tolist() == [1, 0, 0, 2]


def test_unique_values_of_nothing_and_of_one() -> None:
    nothing = tensor(np.zeros((0, 3), np.float32)).unique_all()
    assert [part.shape for part in nothing] == [(0,), (0,), (0, 3), (0,)]
    assert [part.tolist() for part in tensor(7).unique_all()] == [[7], [0], 0, [1]]


def test_unique_values_of_a_fixed_size() -> None:
    x = tensor([3, 1, 3, 2])
    assert x.unique_values(size=5, fill_value=-1).tolist() == [1, 2, 3, -1, -1]
    assert x.unique_values(size=2).tolist() == [1, 2]
    more = x.unique_all(size=4)
    assert more.values.tolist() == [1, 2, 3, 0]
    assert more.indices.tolist() == [1, 3, 0, 0]
    assert more.inverse_indices.tolist() == [2, 0, 2, 1]
    assert more.counts.tolist() == [1, 1, 2, 0]
    less = x.unique_counts(size=2)
    assert [part.tolist() for part in less] == [[1, 2], [1, 1]]
    nothing = tensor(np.zeros((0,), np.float32)).unique_counts(size=2, fill_value=9)
    assert [part.tolist() for part in nothing] == [[9, 9], [0, 0]]


def test_unique_results_keep_their_names_under_autodiff() -> None:
    def loss(x: Tensor) -> Tensor:
        found = x.unique_counts()
        return (found.values * found.counts.astype(x.dtype)).sum()

    assert grad(loss)(tensor(np.array([2.0, 5.0, 2.0]))).tolist() == [2, 1, 0]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_membership_is_that_of_numpy(dtype: DType) -> None:
    x, values = repeated((3, 4), dtype), repeated((2,), dtype, seed=4)
    got = tensor(x).isin(tensor(values))
    np.testing.assert_array_equal(got.numpy(), np.isin(x.astype(float), values.astype(float)))


def test_membership_at_the_limits() -> None:
    x = tensor([1.0, NAN, 2.0])
    assert x.isin(tensor([NAN, 2.0])).tolist() == [False, False, True]
    assert x.isin(1).tolist() == [True, False, False]
    assert x.isin(tensor(np.zeros((0,), np.float32))).tolist() == [False] * 3
    assert tensor(np.zeros((0, 2))).isin(tensor([1.0])).shape == (0, 2)


@pytest.mark.sample(1, varies=True)
@pytest.mark.parametrize("device", ["numpy", "cpu"])
@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.bool_, np.float64], ids=str)
def test_unique_slices_are_those_of_numpy(device: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    for shape in ((9, 2), (2, 7, 3), (6,), (1, 4), (5, 1)):
        x = rng.integers(0, 2, shape).astype(dtype)
        for axis in range(-len(shape), len(shape)):
            want = np.unique(x, axis=axis, return_index=True, return_inverse=True,
                             return_counts=True)  # fmt: skip
            # A tensor whose memory is in the reverse order.
            turned = tensor(np.ascontiguousarray(x.T), device=device)
            got = turned.permute_dims(tuple(reversed(range(x.ndim)))).unique_all(axis)
            for g, w in zip(got, want, strict=True):
                np.testing.assert_array_equal(g.numpy(), w.reshape(g.shape))
            y = tensor(x, device=device)
            assert y.unique(axis).tolist() == want[0].tolist()
            assert y.unique_counts(axis).counts.tolist() == want[3].tolist()
            assert y.unique_inverse(axis).inverse_indices.shape == (x.shape[axis],)


def test_unique_slices_of_a_fixed_size_and_of_none() -> None:
    x = tensor([[2, 1], [1, 3], [2, 1]])
    assert x.unique(0, size=4, fill_value=-1).tolist() == [[1, 3], [2, 1], [-1, -1], [-1, -1]]
    assert x.unique(0, size=1).tolist() == [[1, 3]]
    assert x.unique_counts(1, size=3).counts.tolist() == [1, 1, 0]
    with no_sync():
        x.unique(0, size=2)
        with pytest.raises(SyncError):
            x.unique(0)
    nothing = tensor(np.zeros((0, 2)))
    assert nothing.unique(0).shape == (0, 2)
    assert nothing.unique(1).shape == np.unique(np.zeros((0, 2)), axis=1).shape == (0, 1)
    assert np.isnan(tensor([[NAN, 1.0], [NAN, 1.0]]).unique(0).numpy()[:, 0]).tolist() == [True] * 2
    with pytest.raises(AxisError, match="unique requires -2 <= axis < 2, got axis=2"):
        x.unique(2)
    with pytest.raises(ShapeError, match="unique requires slices along axis 0 to fill 3"):
        nothing.unique(0, size=3)
