"""What counts as not zero, and as close."""

from __future__ import annotations

from math import nan

import numpy as np
import pytest

from pyrite.tensor.creation import tensor
from pyrite.types import DTYPES, DType, int32


def test_nan_is_not_zero_and_minus_zero_is() -> None:
    x = tensor([nan, -0.0])
    assert x.any().item() is True
    assert x.all().item() is False
    assert x.count_nonzero().item() == 1
    assert x.count_nonzero().dtype is int32
    assert tensor([-0.0]).any().item() is False


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_counting_takes_every_dtype(dtype: DType) -> None:
    x = np.random.default_rng(0).integers(0, 3, (3, 4)).astype(dtype.numpy)
    got = tensor(x).count_nonzero(0)
    np.testing.assert_array_equal(got.numpy(), np.count_nonzero(x, axis=0))


def test_closeness_and_nan_are_found() -> None:
    x = tensor([1.0, nan])
    assert x.contains_nan().item() is True
    assert tensor([1, 2]).contains_nan().item() is False
    assert x.allclose(x).item() is False
    assert x.allclose(x, equal_nan=True).item() is True
    assert tensor([1.0]).all_close(1.0 + 1e-7).item() is True
