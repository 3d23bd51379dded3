"""What differs between machines, on every dtype: the promises of `pyrite.algebra`."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from pyrite.algebra import Algebra
from pyrite.backend.numpy.algebra import NumPyAlgebra
from pyrite.types import DTYPES, FLOATS, INTEGERS, DType, bool_, int8, int32, int64, uint8, uint64

SIGNED = [d for d in INTEGERS if d.kind == "int"]
UNSIGNED = [d for d in INTEGERS if d.kind == "uint"]
WIDE_FLOATS = [d for d in FLOATS if d.compute is d]

k = NumPyAlgebra()


@pytest.fixture(autouse=True)
def _as_in_the_backend() -> Any:
    with np.errstate(all="ignore"):
        yield


def array(values: Any, dtype: DType) -> Any:
    return np.array(values, dtype=dtype.numpy)


def test_every_intrinsic_is_there_and_no_other() -> None:
    wanted = {n for n, _ in inspect.getmembers(Algebra, inspect.isfunction) if n[0] != "_"}
    assert {n for n in dir(NumPyAlgebra) if n[0] != "_"} == wanted


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_divided_by_zero_give_zero(dtype: DType) -> None:
    x, zero = array([0, 1, 7], dtype), array([0, 0, 0], dtype)
    for divide in (k.floor_divide, k.remainder, k.truncated_remainder):
        found = divide(x, zero)
        assert found.tolist() == [0, 0, 0]
        assert found.dtype == dtype.numpy


@pytest.mark.parametrize("dtype", SIGNED, ids=str)
def test_the_least_integer_is_its_own_negative_magnitude_and_quotient_by_minus_one(
    dtype: DType,
) -> None:
    least = array([dtype.lowest], dtype)
    minus_one = array([-1], dtype)
    for found in (-least, k.abs(least), k.floor_divide(least, minus_one), least * minus_one):
        assert found.tolist() == [dtype.lowest]
    assert k.remainder(least, minus_one).tolist() == [0]
    assert k.truncated_remainder(least, minus_one).tolist() == [0]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_sums_and_products_wrap_around(dtype: DType) -> None:
    most = array([dtype.highest], dtype)
    assert (most + array([1], dtype)).tolist() == [dtype.lowest]
    assert (array([dtype.lowest], dtype) - array([1], dtype)).tolist() == [dtype.highest]
    assert (most * array([2], dtype)).tolist() == [-2 if dtype.kind == "int" else dtype.highest - 1]


def test_floor_division_and_remainder_follow_the_divisor_and_fmod_the_dividend() -> None:
    x, y = array([7, -7, 7, -7], int32), array([2, 2, -2, -2], int32)
    assert k.floor_divide(x, y).tolist() == [3, -4, -4, 3]
    assert k.remainder(x, y).tolist() == [1, 1, -1, -1]
    assert k.truncated_remainder(x, y).tolist() == [1, -1, 1, -1]
    floats = x.astype(np.float32), y.astype(np.float32)
    assert k.floor_divide(*floats).tolist() == [3, -4, -4, 3]
    assert k.remainder(*floats).tolist() == [1, 1, -1, -1]
    assert k.truncated_remainder(*floats).tolist() == [1, -1, 1, -1]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_shifts_past_the_width_empty_the_integer_or_repeat_its_sign(dtype: DType) -> None:
    width = dtype.bits
    amounts = array([0, 1, width - 1, width, width + 3], dtype)
    one, most = array([1], dtype), array([dtype.highest], dtype)
    top = dtype.lowest if dtype.kind == "int" else 1 << (width - 1)
    assert k.shift_left(one, amounts).tolist() == [1, 2, top, 0, 0]
    high = int(dtype.highest)
    expected = [high, high >> 1, high >> (width - 1), 0, 0]
    assert k.shift_right(most, amounts).tolist() == expected
    if dtype.kind == "int":
        assert k.shift_right(array([-8], dtype), amounts).tolist() == [-8, -4, -1, -1, -1]
        negative = array([-1], dtype)
        assert k.shift_left(one, negative).tolist() == [0]
        assert k.shift_right(one, negative).tolist() == [0]
        assert k.shift_right(array([-8], dtype), negative).tolist() == [-1]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_popcount_counts_twos_complement(dtype: DType) -> None:
    found = k.popcount(array([0, 1, 7, dtype.highest], dtype))
    ones = dtype.bits - (dtype.kind == "int")
    assert found.tolist() == [0, 1, 3, ones]
    assert found.dtype == dtype.numpy
    if dtype.kind == "int":
        assert k.popcount(array([-1], dtype)).tolist() == [dtype.bits]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_powers_of_integers_are_exact_and_negative_ones_truncate(dtype: DType) -> None:
    assert k.pow(array([0, 0, 2, 3], dtype), array([0, 3, 6, 4], dtype)).tolist() == [1, 0, 64, 81]
    if dtype.kind == "int":
        x, y = array([0, 1, -1, -1, 2, -2], dtype), array([-1, -5, -2, -3, -1, -1], dtype)
        assert k.pow(x, y).tolist() == [0, 1, 1, -1, 0, 0]
    assert k.pow(array([2], dtype), array([dtype.bits], dtype)).tolist() == [0]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("source", WIDE_FLOATS, ids=str)
def test_floats_become_integers_by_truncation_and_saturation(dtype: DType, source: DType) -> None:
    x = array([np.nan, np.inf, -np.inf, 1e30, -1e30, 2.9, -0.9, -0.0], source)
    high, low = dtype.highest, dtype.lowest
    assert k.cast(x, dtype).tolist() == [0, high, low, high, low, 2, 0, 0]
    assert k.cast(array([-2.9], source), dtype).tolist() == [-2 if dtype.kind == "int" else 0]


def test_the_bounds_of_64_bit_integers_are_met_exactly() -> None:
    x = np.array([2.0**63, np.nextafter(2.0**63, 0), -(2.0**63), np.nextafter(-(2.0**63), -1e30)])
    assert k.cast(x, int64).tolist() == [2**63 - 1, 2**63 - 1024, -(2**63), -(2**63)]
    y = np.array([2.0**64, np.nextafter(2.0**64, 0)])
    assert k.cast(y, uint64).tolist() == [2**64 - 1, 2**64 - 2048]


def test_integers_become_narrower_by_their_low_bits_and_bools_by_not_being_zero() -> None:
    x = array([256 + 7, -1, 128], int32)
    assert k.cast(x, uint8).tolist() == [7, 255, 128]
    assert k.cast(x, int8).tolist() == [7, -1, -128]
    assert k.cast(np.array([0.0, -0.0, np.nan, 0.5]), bool_).tolist() == [False, False, True, True]


@pytest.mark.parametrize("dtype", WIDE_FLOATS, ids=str)
def test_extrema_propagate_nan_and_order_zeros(dtype: DType) -> None:
    nan, x = array([np.nan, 1.0, np.nan], dtype), array([1.0, np.nan, np.nan], dtype)
    for extremum in (k.minimum, k.maximum):
        assert np.isnan(extremum(nan, x)).all()
    plus, minus = array([0.0], dtype), array([-0.0], dtype)
    for pair in ((plus, minus), (minus, plus)):
        assert np.signbit(k.minimum(*pair)).all()
        assert not np.signbit(k.maximum(*pair)).any()
        assert k.minimum(*pair).dtype == k.maximum(*pair).dtype == dtype.numpy
    assert np.signbit(k.maximum(minus, minus)).all()
    assert not np.signbit(k.minimum(plus, plus)).any()


@pytest.mark.parametrize("dtype", WIDE_FLOATS, ids=str)
def test_sign_of_zeros_is_zero_and_of_nan_nan_and_rint_goes_to_even(dtype: DType) -> None:
    found = k.sign(array([-3.0, -0.0, 0.0, 2.0, np.nan], dtype))
    assert found[:4].tolist() == [-1, 0, 0, 1]
    assert np.signbit(found[:4]).tolist() == [True, False, False, False]
    assert np.isnan(found[4])
    assert k.rint(array([0.5, 1.5, 2.5, -0.5, -1.5], dtype)).tolist() == [0, 2, 2, 0, -2]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_whole_numbers_are_their_own_rounding(dtype: DType) -> None:
    x = array([0, 5, dtype.highest], dtype)
    for rounding in (k.floor, k.ceil, k.trunc, k.rint):
        assert rounding(x).tolist() == x.tolist()
        assert rounding(x).dtype == x.dtype


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.compute is d and not d.is_bool], ids=str)
def test_a_python_number_takes_the_dtype_of_the_value_beside_it(dtype: DType) -> None:
    x = array([1, 2], dtype)
    for found in (k.where(x > 1, x, 0), k.maximum(x, 0), k.minimum(x, 1), x + 1, x * 2):
        assert found.dtype == dtype.numpy
