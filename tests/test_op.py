"""Binding: what becomes of arguments before a backend sees them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pyrite import op
from pyrite.autodiff import tape
from pyrite.errors import DTypeError, PyriteError, ShapeError
from pyrite.op import OPS, primitive
from pyrite.tensor.creation import tensor
from pyrite.types import float16, float32, int8, int32


def test_numbers_take_the_dtype_of_the_tensor_they_meet():
    assert (tensor([1], dtype="int8") + 1).dtype is int8
    assert (tensor([1], dtype="int8") + 0.5).dtype is float32
    assert (tensor([1.0], dtype="float16") * 2).dtype is float16
    assert (2 - tensor([1])).dtype is int32
    assert (tensor([1]) + np.float64(0.5)).dtype is float32


def test_a_number_that_does_not_fit_says_so():
    with pytest.raises(DTypeError, match="a number between -128 and 127 beside int8, got 300"):
        tensor([1], dtype="int8") + 300


@pytest.mark.parametrize("other", [None, "1", [1.0], np.ones(2)], ids=repr)
def test_what_is_no_tensor_and_no_number_is_refused(other):
    with pytest.raises(DTypeError, match=r"add requires tensors or Python numbers, got"):
        tensor([1.0, 2.0]) + other
    with pytest.raises(DTypeError, match=r"add requires tensors or Python numbers, got"):
        other + tensor([1.0, 2.0])


def test_an_error_is_raised_at_the_users_line():
    with pytest.raises(ShapeError) as caught:
        tensor([1.0, 2.0]) + tensor([1.0, 2.0, 3.0])  # this line
    assert caught.value.location.startswith(f"{__file__}:")
    frames = caught.traceback
    assert (
        sum("pyrite" in str(frame.path) and "tests" not in str(frame.path) for frame in frames) <= 1
    )
    assert str(caught.value) == (
        "add requires sizes that are equal or 1 on every axis, got (2,) and (3,), which differ on "
        "axis -1"
    )


def test_two_calls_on_two_lines_name_their_own():
    lines = []
    for call in (
        lambda: tensor([1.0]) @ tensor([1.0, 2.0]),
        lambda: tensor([[1.0]]) @ tensor([1.0, 2.0]),
    ):
        with pytest.raises(PyriteError) as caught:
            call()
        lines.append(caught.value.location)
    assert all(line.startswith(f"{__file__}:") for line in lines)


def test_an_op_is_declared_once():
    with pytest.raises(TypeError, match="op exp is declared twice"):

        @primitive(scalar=lambda k, x: x)
        def exp(x, /):
            """Again."""

    with pytest.raises(TypeError, match="either a scalar rule or a reference"):

        @primitive()
        def nothing(x, /):
            """No rule."""


def test_nothing_in_the_core_names_an_op():
    """op.py, the tape and the decorators treat every op alike."""
    for module in (op, tape):
        source = Path(module.__file__).read_text()
        named = [n for n in OPS if len(n) > 3 and (f'"{n}"' in source or f"'{n}'" in source)]
        assert not named, f"{module.__name__} names {named}"
