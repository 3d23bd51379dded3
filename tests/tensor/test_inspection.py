"""Questions about dtypes, against NumPy's answers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import pyrite
from pyrite.errors import ArgumentError, DTypeError
from pyrite.types import DTYPES, FLOATS, INTEGERS

#: Pairs of which NumPy makes float64, which the standard leaves open or we refuse.
SAME_KIND = [
    (x, y)
    for x, y in itertools.product(DTYPES, DTYPES)
    if {x.is_float, y.is_float} != {True, False} and "bfloat16" not in (x.name, y.name)
]


@pytest.mark.parametrize(("x", "y"), SAME_KIND, ids=str)
def test_promotion_within_a_kind_is_numpys(x, y):
    want = np.promote_types(x.numpy, y.numpy)
    if want == np.float64 and not x.is_float:
        with pytest.raises(DTypeError, match="an integer dtype that holds both"):
            pyrite.result_type(x, y)
    else:
        assert pyrite.result_type(x, y).numpy == want
        assert pyrite.result_type(y, x).numpy == want


@pytest.mark.parametrize("real", FLOATS, ids=str)
@pytest.mark.parametrize("whole", [*INTEGERS, pyrite.bool], ids=str)
def test_an_integer_with_a_float_is_the_float(whole, real):
    assert pyrite.result_type(whole, real) is real
    assert pyrite.result_type(real, whole) is real


def test_the_two_narrow_floats_meet_in_float32():
    assert pyrite.result_type("float16", "bfloat16") is pyrite.float32


@pytest.mark.parametrize("kind", FLOATS, ids=str)
def test_finfo(kind):
    info = pyrite.finfo(kind)
    assert 1 + np.array(info.eps).astype(kind.numpy) > 1
    assert np.isfinite(np.array(info.max).astype(kind.numpy))
    with pytest.raises(DTypeError, match="use iinfo"):
        pyrite.finfo("int8")


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_iinfo(kind):
    assert pyrite.iinfo(kind).max == np.iinfo(kind.numpy).max
    assert pyrite.iinfo(kind).min == np.iinfo(kind.numpy).min
    with pytest.raises(DTypeError, match="use finfo"):
        pyrite.iinfo("float32")


def test_kinds():
    assert pyrite.isdtype("uint8", "unsigned integer")
    assert not pyrite.isdtype("uint8", "signed integer")
    assert pyrite.isdtype("bfloat16", ("bool", "real floating"))
    assert not pyrite.isdtype("float32", "complex floating")


def test_result_type_of_numbers_alone_has_no_answer():
    with pytest.raises(ArgumentError, match="got only numbers"):
        pyrite.result_type(1, 2.0)


def test_broadcast_arrays():
    x, y = pyrite.broadcast_arrays(pyrite.ones((3, 1)), pyrite.zeros((2,)))
    assert x.shape == y.shape == (3, 2)
