"""The promotion tables of the array API standard: every pair of dtypes, and Python's numbers."""

from __future__ import annotations

import itertools
from typing import Any

import array_api_strict as strict
import pytest

import pyrite
from pyrite import DType

from .judge import as_strict

DTYPES = [dtype for name in dir(strict) if isinstance(dtype := getattr(pyrite, name, 0), DType)]
PAIRS = list(itertools.product(DTYPES, repeat=2))


def is_fixed(x: DType, y: DType) -> bool:
    """Whether the standard says in which dtype two meet: in one kind, if any integer holds both."""
    integers = ("int", "uint")
    of_one_kind = x.kind == y.kind or (x.kind in integers and y.kind in integers)
    return of_one_kind and not (x.kind != y.kind and pyrite.uint64 in (x, y))


def test_every_dtype_of_the_standard_but_the_complex_is_here() -> None:
    assert len(DTYPES) == 11


@pytest.mark.parametrize(("x", "y"), [p for p in PAIRS if is_fixed(*p)], ids=str)
@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_two_dtypes_meet_where_the_standard_says(x: DType, y: DType, device: str) -> None:
    wanted = strict.result_type(as_strict(x), as_strict(y))
    one, other = (pyrite.ones((2,), dtype=d, device=device) for d in (x, y))
    truth = pyrite.ones((2,), dtype="bool", device=device)
    for met in (
        pyrite.result_type(x, y),
        pyrite.result_type(one, y),
        pyrite.where(truth, one, other).dtype,
        pyrite.concat([one, other]).dtype,
        (one & other if x.is_bool else one * other).dtype,
    ):
        assert as_strict(met) == wanted
    assert pyrite.can_cast(x, y) == strict.can_cast(as_strict(x), as_strict(y))


@pytest.mark.parametrize(("x", "y"), [p for p in PAIRS if pyrite.uint64 in p and not is_fixed(*p)
                                      and all(d.is_integer for d in p)], ids=str)  # fmt: skip
def test_uint64_and_a_signed_integer_meet_nowhere(x: DType, y: DType) -> None:
    with pytest.raises(TypeError):
        pyrite.result_type(x, y)
    with pytest.raises(TypeError):
        strict.result_type(as_strict(x), as_strict(y))


def numbers_of(dtype: DType) -> list[Any]:
    """Python numbers that the standard lets meet a tensor of a dtype."""
    return {"bool": [True], "int": [2], "uint": [2], "float": [2, 0.5]}[dtype.kind]


@pytest.mark.parametrize(("dtype", "number"), [(d, n) for d in DTYPES for n in numbers_of(d)])
def test_a_number_of_python_takes_the_dtype_of_the_tensor(dtype: DType, number: Any) -> None:
    x = pyrite.ones((2,), dtype=dtype)
    met = x & number if dtype.is_bool else x * number
    for found in (
        pyrite.result_type(dtype, number),
        met.dtype,
        pyrite.where(x == x, number, x).dtype,
    ):
        assert found is dtype


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.is_integer], ids=str)
def test_a_number_that_a_dtype_does_not_hold_is_an_error(dtype: DType) -> None:
    for number in (int(dtype.highest) + 1, int(dtype.lowest) - 1):
        with pytest.raises((TypeError, ValueError)):
            pyrite.ones((2,), dtype=dtype) + number
