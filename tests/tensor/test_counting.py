"""Counts against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad
from pyrite.errors import ArgumentError, DTypeError, ShapeError
from pyrite.tensor.creation import tensor
from pyrite.types import INTEGERS, DType, float32, int32


def repeated(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, shape).astype(dtype.numpy)


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.name)
def test_counts_are_those_of_numpy(dtype: DType) -> None:
    x = repeated((20,), dtype)
    got = tensor(x).bincount(minlength=6)
    assert got.dtype is int32
    np.testing.assert_array_equal(got.numpy(), np.bincount(x.astype(int), minlength=6))


def test_weights_are_added_in_their_dtype() -> None:
    x, weights = tensor([1, 0, 1]), tensor([0.5, 2.0, 4.0])
    got = x.bincount(weights)
    assert got.dtype is float32
    assert got.tolist() == [2, 4.5]
    assert grad(lambda w: (x.bincount(w, size=1) ** 2).sum())(weights).tolist() == [0, 4, 0]


def test_with_a_size_what_is_outside_is_not_counted() -> None:
    assert tensor([-1, 5, 1, 1]).bincount(size=3).tolist() == [0, 2, 0]
    assert tensor([3]).bincount(size=0).tolist() == []
    with pytest.raises(ArgumentError, match="bincount requires x >= 0, got -1; give size="):
        tensor([-1, 5]).bincount()
    assert tensor(np.zeros((0,), np.int32)).bincount(minlength=2).tolist() == [0, 0]


def test_only_rows_of_integers_are_counted() -> None:
    with pytest.raises(DTypeError, match="bincount requires an integer dtype, got float32"):
        tensor([1.0]).bincount()
    with pytest.raises(ShapeError, match=r"bincount requires shape \(N,\), got \(1, 1\)"):
        tensor([[1]]).bincount()
    with pytest.raises(ShapeError, match=r"got \(1,\) and weights of shape \(2,\)"):
        tensor([1]).bincount(tensor([1.0, 2.0]))


def test_the_weights_of_bins_may_be_given_by_name() -> None:
    x, weights = tensor([1, 0, 1]), tensor([0.5, 1.0, 2.0])
    assert x.bincount(weights=weights, minlength=3).tolist() == [1.0, 2.5, 0.0]
