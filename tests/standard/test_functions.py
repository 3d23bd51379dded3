"""Every function of the array API standard, on NumPy and on the CPU, judged by array-api-strict."""

from __future__ import annotations

import inspect
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyrite

from .calls import CALLS, FLOATS, INTEGERS, tensors
from .exclusions import MISSING, UNJUDGED
from .judge import Call, as_strict, assert_agree

#: 8 calls of each function in a sample, 40 in a full run.
EXAMPLES = settings(max_examples=40 if settings.default.max_examples > 50 else 8)

DEVICES = ("numpy", "cpu")

#: Functions whose results are no arrays to compare: each has a test of its own below.
OTHERS = {"empty", "empty_like", "finfo", "iinfo", "imag", "__array_namespace_info__"}

FUNCTIONS = sorted(name for name in strict.__all__ if inspect.isfunction(getattr(strict, name)))
STANDARD = [name for name in FUNCTIONS if name not in {*MISSING, *UNJUDGED}]


def test_every_function_of_the_standard_has_calls_here() -> None:
    assert set(STANDARD) - OTHERS <= set(CALLS)


@pytest.mark.parametrize("name", sorted(MISSING))
def test_what_is_said_to_be_missing_is(name: str) -> None:
    assert hasattr(strict, name)
    assert not hasattr(pyrite, name)


@pytest.mark.parametrize("name", sorted(set(strict.__all__) - set(MISSING)))
def test_every_name_of_the_standard_is_there(name: str) -> None:
    assert hasattr(pyrite, name)


@pytest.mark.sample(60)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", sorted(set(STANDARD) - OTHERS))
def test_a_function_returns_what_the_standard_says(name: str, device: str) -> None:
    @EXAMPLES
    @given(CALLS[name])
    def agrees(call: Call) -> None:
        assert_agree(name, call, device)

    agrees()


@pytest.mark.parametrize("name", [n for n in STANDARD if n != "__array_namespace_info__"])
def test_arguments_have_the_names_and_places_of_the_standard(name: str) -> None:
    ours = inspect.signature(getattr(pyrite, name)).parameters
    variadic = any(p.kind is p.VAR_POSITIONAL for p in ours.values())
    by_place = [p for p in ours.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for place, p in enumerate(inspect.signature(getattr(strict, name)).parameters.values()):
        if p.kind is p.POSITIONAL_ONLY:
            assert place < len(by_place) or variadic, p.name
        elif p.kind is p.VAR_POSITIONAL:
            assert variadic
        else:
            assert p.name in ours, p.name
            if p.kind is p.POSITIONAL_OR_KEYWORD:
                assert by_place[place].name == p.name


@EXAMPLES
@given(tensors(INTEGERS | FLOATS))
def test_the_imaginary_part_of_real_numbers_is_zero(x: Any) -> None:
    assert pyrite.imag(x).dtype is x.dtype
    assert not pyrite.imag(x).any()


@EXAMPLES
@given(CALLS["empty"])
def test_empty_has_the_shape_and_dtype_asked_for(call: Call) -> None:
    ours, theirs = pyrite.empty(*call.args, **call.kwargs), strict.zeros(*call.of_strict().args)
    assert ours.shape == theirs.shape
    assert ours.dtype is (call.kwargs.get("dtype") or pyrite.float32)


@EXAMPLES
@given(CALLS["empty_like"])
def test_empty_like_has_the_shape_and_dtype_of_another(call: Call) -> None:
    ours = pyrite.empty_like(*call.args, **call.kwargs)
    assert ours.shape == call.args[0].shape
    assert ours.dtype is (call.kwargs.get("dtype") or call.args[0].dtype)


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_the_limits_of_floats_are_those_of_the_standard(name: str) -> None:
    of = getattr(pyrite, name)
    for found in (pyrite.finfo(of), pyrite.finfo(pyrite.zeros((), dtype=of))):
        theirs = strict.finfo(as_strict(of))
        for field in ("bits", "eps", "max", "min", "smallest_normal"):
            assert getattr(found, field) == getattr(theirs, field)
        assert found.dtype is of


@given(INTEGERS)
def test_the_limits_of_integers_are_those_of_the_standard(of: Any) -> None:
    for found in (pyrite.iinfo(of), pyrite.iinfo(pyrite.zeros((), dtype=of))):
        theirs = strict.iinfo(as_strict(of))
        assert (found.bits, found.max, found.min) == (theirs.bits, theirs.max, theirs.min)
        assert found.dtype is of


@pytest.mark.parametrize("name", ["e", "inf", "pi", "newaxis"])
def test_constants_are_those_of_the_standard(name: str) -> None:
    assert getattr(pyrite, name) == getattr(strict, name)
    assert np.isnan(pyrite.nan)


@pytest.mark.parametrize("device", DEVICES)
@EXAMPLES
@given(st.floats(-8, 8, width=32), st.floats(-8, 8, width=32), st.integers(0, 9))
def test_without_its_endpoint_linspace_is_the_beginning_of_the_next(
    device: str, start: float, stop: float, num: int
) -> None:
    found = pyrite.linspace(start, stop, num, endpoint=False, device=device)
    wanted = pyrite.linspace(start, stop, num + 1, device=device)[:num]
    np.testing.assert_array_equal(found.numpy(), wanted.numpy())
