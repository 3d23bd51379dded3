"""Tensors from nothing, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import random_bits
from pyrite.errors import ArgumentError, DTypeError, ShapeError
from pyrite.tensor import creation
from pyrite.tensor.creation import (
    arange,
    asarray,
    empty,
    empty_like,
    full,
    full_like,
    linspace,
    logspace,
    ones,
    ones_like,
    tensor,
    zeros,
    zeros_like,
)


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1, "int32"),
        (1.0, "float32"),
        (True, "bool"),
        ([[1, 2], [3, 4.5]], "float32"),
        ([], "float32"),
        (np.float64(1), "float64"),
        (np.arange(3, dtype=np.uint8), "uint8"),
        (range(3), "int32"),
        ([True, 2], "int32"),
    ],
)
def test_python_numbers_take_defaults_and_arrays_keep_their_dtype(data: Any, dtype: str) -> None:
    x = tensor(data)
    assert x.dtype.name == dtype
    np.testing.assert_array_equal(x.numpy(), np.asarray(data))


def test_tensor_of_a_tensor_is_that_tensor_or_a_cast() -> None:
    x = tensor([1, 2])
    assert tensor(x).tolist() == [1, 2]
    assert asarray(x) is x
    assert tensor(x, dtype="float16").dtype is pyrite.float16


@pytest.mark.parametrize("data", [[1, [2]], [[1, 2], [3]]])
def test_ragged_lists_are_a_shape_error(data: Any) -> None:
    with pytest.raises(ShapeError, match="nested sequences of equal lengths"):
        tensor(data)


@pytest.mark.parametrize("data", ["text", ["a"], None, object(), 1 + 2j, [None]])
def test_what_is_no_number_is_a_dtype_error(data: Any) -> None:
    with pytest.raises(DTypeError):
        tensor(data)


def test_an_integer_that_does_not_fit_is_an_error_and_no_wrap() -> None:
    with pytest.raises(DTypeError, match=r"for int32, got 2147483648; give dtype=pyrite\.int64"):
        tensor([0, 2**31])
    assert tensor(2**31, dtype="int64").item() == 2**31
    assert tensor(2**64 - 1, dtype="uint64").item() == 2**64 - 1
    with pytest.raises(DTypeError):
        tensor(2**70)
    with pytest.raises(DTypeError):
        tensor(-1, dtype="uint8")


def test_a_float_that_does_not_fit_is_converted_as_by_astype() -> None:
    values = [float("nan"), 1e20, -1e20, 300.0]
    for dtype in ("int32", "uint8"):
        assert tensor(values, dtype=dtype).tolist() == tensor(values).astype(dtype).tolist()
        narrow = tensor(values, dtype="bfloat16")
        assert tensor(narrow.numpy(), dtype=dtype).tolist() == narrow.astype(dtype).tolist()
    assert tensor(values, dtype="uint8").tolist() == [0, 255, 0, 255]
    assert tensor([1e40, -1e40]).tolist() == [float("inf"), float("-inf")]
    assert tensor([7e4], dtype="float16").item() == float("inf")


def test_constants_fill_a_shape() -> None:
    assert zeros((2, 0)).shape == (2, 0)
    assert ones(3).tolist() == [1, 1, 1]
    assert empty((2,)).tolist() == [0, 0]
    assert full((), True).dtype is pyrite.bool
    assert full((2,), 3.5, dtype="bfloat16").tolist() == [3.5, 3.5]
    with pytest.raises(ShapeError, match="sizes >= 0"):
        zeros((-1,))


@pytest.mark.parametrize("shape", [True, (True,), [2, False]])
def test_a_bool_is_no_size(shape: Any) -> None:
    """What is kept by shape was made of (True,), and then raised for (1,)."""
    for make in (zeros, random_bits):
        with pytest.raises(ShapeError, match=r"requires a shape of integers, got"):
            make(shape)
    assert random_bits((1,)).shape == (1,)


def test_like_functions_take_shape_dtype_and_device() -> None:
    x = tensor([[1, 2]], dtype="int8", device=pyrite.autodiff("numpy"))
    for made, value in ((zeros_like(x), 0), (ones_like(x), 1), (full_like(x, 7), 7)):
        assert made.tolist() == [[value, value]]
        assert made.dtype is pyrite.int8
        assert made.device.level == 1
    assert empty_like(x, dtype="float32").dtype is pyrite.float32


@pytest.mark.parametrize(
    "args",
    [
        (5,), (2, 7), (2, 7, 2), (7, 2, -2), (0,), (3, 1), (5, 5), (0, -6, -5),
        (0.5,), (0.0, 1.0, 0.25), (1.0, -1.0, -0.5), (2.5,),
    ],
)  # fmt: skip
def test_arange_is_numpys(args: Any) -> None:
    np.testing.assert_allclose(arange(*args).numpy(), np.arange(*args))
    assert arange(*args).shape == np.arange(*args).shape


def test_arange_of_zero_steps_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="arange requires step != 0"):
        arange(0, 1, 0)


@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize(("start", "stop"), [(0, 1), (-3, 5), (1e6, 1e6 + 1), (2, 2), (5, -1)])
def test_linspace_is_numpys_and_meets_its_ends(start: float, stop: float, endpoint: bool) -> None:
    for num in (0, 1, 2, 7, 50):
        found = linspace(start, stop, num, endpoint=endpoint).numpy()
        expected = np.linspace(start, stop, num, endpoint=endpoint)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
        if endpoint and num > 1:
            assert (found[0], found[-1]) == (np.float32(start), np.float32(stop))


def test_logspace_is_numpys() -> None:
    np.testing.assert_allclose(logspace(-2, 3, 6).numpy(), np.logspace(-2, 3, 6), rtol=1e-5)
    np.testing.assert_allclose(logspace(0, 4, 5, base=2).numpy(), [1, 2, 4, 8, 16], rtol=1e-6)
    with pytest.raises(ArgumentError, match="linspace requires num >= 0"):
        linspace(0, 1, -1)


def test_creation_places_tensors_on_the_device_that_is_named() -> None:
    device = pyrite.autodiff("numpy")
    for made in (zeros(2, device=device), arange(3, device=device), full(2, 1, device=device)):
        assert made.device.level == 1
    assert creation.linspace(0, 1, 3, device=device).device.level == 1


def test_integers_on_both_sides_of_the_greatest_int64_are_exact() -> None:
    values = [[0, 2**63 + 1], [7, 2**64 - 1]]
    assert tensor(values, dtype="uint64").tolist() == values
    for dtype in (None, "int64"):
        with pytest.raises(DTypeError, match=rf"got {2**64 - 1}"):
            tensor(values, dtype=dtype)
    assert tensor([1, 2.5]).tolist() == [1.0, 2.5]


def test_the_value_of_full_may_be_given_by_the_name_of_the_standard() -> None:
    x = full((2,), fill_value=7)
    assert x.tolist() == full_like(x, fill_value=7).tolist() == [7, 7]
