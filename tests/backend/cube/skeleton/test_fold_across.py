"""Rows that lie across memory have the bits of dense rows, however few elements they have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.types import Array

#: Those with a kernel for few, their neighbours, and those of one turn and more of all lanes.
SIZES = (2, 3, 4, 5, 8, 9, 15, 16, 17, 33, 63, 64, 65)


def rows(outputs: int, size: int, dtype: str) -> Array:
    """Numbers whose sums depend on their order, zeros of both signs and what is not finite."""
    rng = np.random.default_rng([outputs, size])
    x = rng.normal(size=(outputs, size)) * 10.0 ** rng.integers(-3, 4, (outputs, size))
    x[rng.random((outputs, size)) < 0.2] = -0.0
    x[outputs // 2, rng.integers(size)] = np.inf
    x[0] = -0.0
    return x.astype(dtype)


@pytest.mark.parametrize("fold", ["sum", "mean", "prod", "max", "argmin", "var"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.sample(6)
def test_few_elements_across_memory_are_folded_as_dense_ones(fold: str, dtype: str) -> None:
    for outputs in (1, 5, 129, 400):
        for size in SIZES:
            x = rows(outputs, size, dtype)
            dense = pyrite.tensor(x, device="cpu")
            across = pyrite.tensor(np.ascontiguousarray(x.T), device="cpu").mT
            want, got = (getattr(t, fold)(1).numpy() for t in (dense, across))
            assert same(got, want), (outputs, size)


def test_short_rows_of_several_axes_are_folded_as_dense_ones() -> None:
    for size in SIZES:
        x = rows(3 * 70, size, "float32").reshape(3, 70, size)
        dense = pyrite.tensor(x, device="cpu")
        turned = np.ascontiguousarray(x.transpose(0, 2, 1))
        across = pyrite.tensor(turned, device="cpu").permute_dims((0, 2, 1))
        assert same(across.sum(2).numpy(), dense.sum(2).numpy()), size
        assert same(across[:, ::-1].sum(2).numpy(), dense[:, ::-1].sum(2).numpy()), size


def same(x: Any, y: Any) -> bool:
    """Whether arrays have the same bits; a NaN is one whatever it carries."""
    return bool(((x == y) & (np.signbit(x) == np.signbit(y)) | (np.isnan(x) & np.isnan(y))).all())
