"""Extrema and their positions: every dtype, NaN, zeros, ties, and nothing to reduce."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad
from pyrite.errors import ShapeError
from pyrite.tensor.creation import tensor
from pyrite.types import DTYPES, DType, int32


def gradient(fn: Any, data: Any) -> Any:
    return grad(fn)(tensor(np.asarray(data, np.float64))).numpy().tolist()


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_extrema_keep_every_dtype(dtype: DType) -> None:
    least = 0 if dtype.kind in ("uint", "bool") else -9
    x = np.random.default_rng(0).integers(least, 10, (3, 4)).astype(dtype.numpy)
    for name in ("max", "min"):
        got = getattr(tensor(x), name)(1)
        assert got.dtype is dtype
        np.testing.assert_array_equal(got.numpy(), getattr(np, name)(x, axis=1))
    position = tensor(x).argmax(1)
    assert position.dtype is int32
    np.testing.assert_array_equal(position.numpy(), x.astype(np.float64).argmax(1))


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_nothing_has_no_extremum(name: str) -> None:
    x = tensor(np.zeros((2, 0), np.float32))
    with pytest.raises(ShapeError, match=rf"{name} requires sizes >= 1 on the reduced axes \(1,\)"):
        getattr(x, name)(1)


def test_nan_wins_every_extremum() -> None:
    x = tensor([[1.0, nan, 3.0], [1.0, 2.0, -inf]])
    assert np.isnan(x.max(1).numpy()).tolist() == [True, False]
    assert np.isnan(x.min(1).numpy()).tolist() == [True, False]
    assert x.argmax(1).tolist() == [1, 1]
    assert x.argmin(1).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("data", "greatest", "least"),
    [([0.0, -0.0], "0.0", "-0.0"), ([-0.0, -1.0], "-0.0", "-1.0"), ([-0.0, 1.0], "1.0", "-0.0")],
)
def test_zero_is_above_minus_zero(data: list[float], greatest: str, least: str) -> None:
    for order in (data, data[::-1]):
        assert str(tensor(order).max().item()) == greatest
        assert str(tensor(order).min().item()) == least


def test_the_first_of_equals_has_the_position() -> None:
    x = tensor([[2.0, 2.0], [0.0, -0.0]])
    assert x.argmax(1).tolist() == [0, 0]
    assert x.argmin(1).tolist() == [0, 0]
    assert x.argmax().item() == 0
    assert x.argmax(0, keepdims=True).tolist() == [[0, 0]]


def test_ties_share_the_gradient_of_an_extremum() -> None:
    assert gradient(lambda x: x.max(), [3, 1, 3, 3]) == pytest.approx([1 / 3, 0, 1 / 3, 1 / 3])
    assert gradient(lambda x: x.min(1).sum(), [[1, 1], [2, 3]]) == [[0.5, 0.5], [1, 0]]


def test_the_gradient_of_an_extremum_goes_to_nan() -> None:
    assert gradient(lambda x: x.max(), [3, nan, 5]) == [0, 1, 0]


def test_with_indices_the_first_of_equals_gets_the_whole_gradient() -> None:
    assert gradient(lambda x: x.max_with_indices(0)[0], [3, 1, 3]) == [1, 0, 0]
    assert gradient(lambda x: x.min_with_indices(0)[0], [3, 1, 1]) == [0, 1, 0]


def test_extrema_come_with_their_indices_as_in_torch() -> None:
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(1).normal(size=(2, 3, 4)).astype(np.float32)
    for axis in (0, 1, -1):
        for keepdims in (False, True):
            for name in ("max", "min"):
                got = getattr(tensor(x), f"{name}_with_indices")(axis, keepdims=keepdims)
                want = getattr(torch.tensor(x), name)(axis, keepdim=keepdims)
                np.testing.assert_array_equal(got[0].numpy(), want.values.numpy())
                np.testing.assert_array_equal(got[1].numpy(), want.indices.numpy())


def test_the_greatest_absolute_value() -> None:
    assert tensor([[1.0, -5.0], [2.0, 0.0]]).max_abs(1).tolist() == [5, 2]
    assert gradient(lambda x: x.max_abs(), [1, -5]) == [0, -1]
