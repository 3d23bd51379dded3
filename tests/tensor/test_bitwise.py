from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyrite.errors import DTypeError
from pyrite.tensor.creation import tensor
from pyrite.types import INTEGERS, DType


@pytest.mark.parametrize("symbol", [operator.and_, operator.or_, operator.xor])
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_bits_of_integers_combine_as_in_python(
    symbol: Callable[[Any, Any], Any], dtype: DType
) -> None:
    x, y = [0b1100, 3, 127], [0b1010, 5, 1]
    found = symbol(tensor(x, dtype=dtype), tensor(y, dtype=dtype))
    assert found.dtype is dtype
    assert found.numpy().tolist() == [symbol(a, b) for a, b in zip(x, y, strict=True)]
    assert symbol(6, tensor(x, dtype=dtype)).numpy().tolist() == [symbol(6, a) for a in x]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_inversion_turns_every_bit(dtype: DType) -> None:
    found = ~tensor([0, 5], dtype=dtype)
    assert found.numpy().tolist() == (~np.array([0, 5], dtype.numpy)).tolist()


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_shifts_by_the_width_and_more(dtype: DType) -> None:
    x = tensor([1, 2], dtype=dtype)
    assert (x << 3).numpy().tolist() == [8, 16]
    assert (x << dtype.bits).numpy().tolist() == [0, 0]
    assert ((x << 3) >> 2).numpy().tolist() == [2, 4]
    assert (x >> dtype.bits).numpy().tolist() == [0, 0]
    assert (1 << x).numpy().tolist() == [2, 4]
    assert (64 >> x).numpy().tolist() == [32, 16]


def test_right_shift_of_a_negative_integer_is_a_floor() -> None:
    x = tensor([-5, -1])
    assert (x >> 1).numpy().tolist() == [-3, -1]
    assert (x >> 100).numpy().tolist() == [-1, -1]


def test_on_bools_the_operators_are_logic() -> None:
    x, y = tensor([True, True, False]), tensor([True, False, False])
    assert (x & y).numpy().tolist() == [True, False, False]
    assert (x | y).numpy().tolist() == [True, True, False]
    assert (x ^ y).numpy().tolist() == [False, True, False]
    assert (~x).numpy().tolist() == [False, False, True]
    assert (x & y).dtype.is_bool


def test_popcount_is_that_of_python() -> None:
    values = [0, 1, 255, 2**31 - 1, 1234567]
    assert tensor(values).popcount().numpy().tolist() == [v.bit_count() for v in values]
    assert tensor([-1, -2], dtype="int16").popcount().numpy().tolist() == [16, 15]


def test_floats_have_no_bits_here() -> None:
    with pytest.raises(DTypeError, match=r"^bitwise_and requires an integer or bool dtype, got"):
        tensor([1.0]) & 1
    with pytest.raises(DTypeError, match=r"^bitwise_left_shift requires an integer dtype, got"):
        tensor([1.0]) << 1
    with pytest.raises(DTypeError, match=r"^popcount requires an integer dtype, got bool"):
        tensor([True]).popcount()
