"""Dropout as a function: its draw, its scale, and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad, saved_bytes, value_and_grad
from pyrite.autodiff.tape import autodiff
from pyrite.errors import ArgumentError
from pyrite.tensor.creation import tensor
from pyrite.tensor.dropout import dropout
from pyrite.tensor.random import draw_words
from pyrite.tensor.stream import random_stream
from pyrite.tensor.tensor import Tensor
from pyrite.types import bfloat16


def ones(*shape: int) -> Tensor:
    return tensor(np.ones(shape))


def test_elements_are_dropped_where_the_word_of_the_draw_is_below_p() -> None:
    with random_stream(1):
        got = dropout(ones(4, 100), 0.3).numpy()
    with random_stream(1):
        kept = draw_words((4, 100)) >= 0.3 * 2**32
    np.testing.assert_allclose(got, kept / 0.7)
    assert 0 < kept.sum() < kept.size


def test_the_expected_value_stays() -> None:
    with random_stream(2):
        mean = dropout(ones(100_000), 0.2).mean().item()
    assert abs(float(mean) - 1) < 0.01


def test_the_gradient_drops_the_same_elements() -> None:
    with random_stream(3):
        (_, out), g = value_and_grad(lambda x: ((out := dropout(x, 0.5)).sum(), out), has_aux=True)(
            ones(64)
        )
    np.testing.assert_array_equal(g.numpy(), out.numpy())


def test_only_the_words_are_kept_for_the_backward_pass() -> None:
    x = tensor(np.ones(100), device=autodiff("numpy")).require_grad()
    assert saved_bytes(dropout(x, 0.5).sum()) == 100 * 4


@pytest.mark.parametrize(("p", "expected"), [(0.0, 1.0), (1.0, 0.0)])
def test_nothing_and_everything_can_be_dropped(p: float, expected: float) -> None:
    value, g = value_and_grad(lambda x: dropout(x, p).sum())(ones(50))
    assert value.item() == 50 * expected
    np.testing.assert_array_equal(g.numpy(), np.full(50, expected))


def test_dropped_nan_is_zero_and_narrow_dtypes_stay() -> None:
    x = tensor(np.full(64, np.nan, np.float32)).astype(bfloat16)
    with random_stream(4):
        got = dropout(x, 0.5)
    assert got.dtype is bfloat16
    assert set(np.isnan(got.numpy())) == {True, False}


def test_the_second_derivative_of_a_power_sees_the_same_words() -> None:
    def curvature(x: Tensor) -> Any:
        with random_stream(5):
            return (dropout(x, 0.5) ** 3).sum()

    got = grad(lambda x: grad(curvature)(x).sum())(ones(8)).numpy()
    with random_stream(5):
        scale = dropout(ones(8), 0.5).numpy()
    np.testing.assert_allclose(got, 6 * scale**3)


def test_a_probability_out_of_range_is_an_error() -> None:
    with pytest.raises(ArgumentError, match=r"dropout requires 0 <= p <= 1, got -0\.1"):
        dropout(ones(2), -0.1)
