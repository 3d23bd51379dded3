"""Attributes that were given before are found again, and no others for them."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pytest

from pyrite import Tensor, tensor
from pyrite.op import OPS
from pyrite.op.arguments import Sorter, _key
from pyrite.op.signature import Signature
from pyrite.op.size import SizeInt

SAME: list[Any] = [0.5, 1, True, "name", None, (1, 2), 1e-5, -2.5]
OTHERS: list[Any] = [
    (0.5, 0.25),
    (1, 1.0),
    (1, True),
    (1.0, True),
    ((1, 2), (2, 1)),
    (None, 0),
    ("1", 1),
    (2.0, -2.0),
]


@pytest.mark.parametrize("value", SAME)
def test_equal_attributes_have_one_key(value: Any) -> None:
    assert _key((value,), {}) == _key((value,), {}) is not None
    assert _key((), {"p": value}) == _key((), {"p": value}) is not None


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_others_have_others(one: Any, other: Any) -> None:
    assert _key((one,), {}) != _key((other,), {})
    assert _key((), {"p": one}) != _key((), {"p": other})
    assert _key((one, 1), {}) != _key((other, 1), {})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (((1, 2, 3), {}), ((1,), {"p": 2, "q": 3})),
        (((1, 2), {}), ((1,), {"p": 2})),
        (((), {"p": 1, "q": 2}), ((), {"q": 2, "p": 1})),
        ((("p", 1), {}), ((), {"p": 1})),
        (((), {}), ((None,), {})),
    ],
)
def test_keys_tell_places_from_names(one: Any, other: Any) -> None:
    assert None is not _key(*one) != _key(*other) is not None


def test_sizes_that_are_marked_have_none() -> None:
    assert _key((SizeInt(3, "n"),), {}) is None
    assert _key(((SizeInt(3, "n"), 2),), {}) is None


@pytest.mark.parametrize("value", [-0.0, math.nan, math.inf, [1], (1, 2.0), (True,)])
def test_what_may_be_equal_to_another_has_none(value: Any) -> None:
    assert _key((value,), {}) is None
    assert _key((), {"p": value}) is None
    assert _key((1, value), {}) is None


def test_inputs_that_are_left_out_are_so_again() -> None:
    sorter = Sorter(OPS["linear"], Signature.of(inspect.unwrap(Tensor.linear)))
    x, w, b = (tensor(np.ones((2, 2), np.float32)) for _ in range(3))

    for _ in range(2):
        assert sorter.sorted((x, w), {})[0] == (x, w, None)
        assert sorter.sorted((x, w, b), {})[0] == (x, w, b)
        with pytest.raises(TypeError, match="missing"):
            sorter.sorted((x,), {})
