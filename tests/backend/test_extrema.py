"""One rule for every op that takes an extreme: NaN wins, and of two zeros 0.0 is the greater.

Ops that say where the extreme is take the first of equals instead, and to them zeros are equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from pyrite.backend.device import device_names, device_problem
from pyrite.tensor.creation import tensor, zeros
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array

pytestmark = pytest.mark.filterwarnings("ignore::pyrite.backend.fallback.FallbackWarning")

WORKING = [n for n in device_names() if device_problem(n) is None]
VALUES = (-0.0, 0.0, math.nan, -1.0, 1.0, -math.inf, math.inf)
PAIRS = np.array(list(product(VALUES, VALUES)), np.float32)

#: Where a library's own kernel decides the sign of a zero among -0.0 and 0.0, and why that stays.
SIGN_IS_OPEN = {
    ("torch:cpu", "pool"): "PyTorch's pools take the first of two zeros",
    ("torch:cuda", "pool"): "PyTorch's pools take the first of two zeros",
    ("candle", "pool"): "Candle's pools take the first of two zeros",
    ("candle", "maximum of rows"): "Candle's extrema of an axis do not order zeros",
    ("candle", "minimum of rows"): "Candle's extrema of an axis do not order zeros",
    ("candle", "scatter"): "made of Candle's extrema of an axis",
}


def first(x: Tensor) -> Tensor:
    return x[:, 0]


def scattered(reduction: Any) -> Callable[[Tensor], Tensor]:
    def write(x: Tensor) -> Tensor:
        places = zeros((x.shape[0], x.shape[1] - 1), dtype="int32", device=x.device)
        return first(x[:, :1].scatter(1, places, x[:, 1:], reduction=reduction))

    return write


def pooled(x: Tensor) -> Tensor:
    return x.expand_dims(1).max_pool1d(x.shape[1]).reshape((-1,))


def pooled_in_two(x: Tensor) -> Tensor:
    return x.reshape((-1, 1, x.shape[1], 1)).max_pool2d((x.shape[1], 1)).reshape((-1,))


#: By family and name: ops of the rows of a matrix, and whether they take the greatest.
FOLDS: dict[tuple[str, str], tuple[Callable[[Tensor], Tensor], bool]] = {
    ("pairs", "maximum"): (lambda x: first(x).maximum(x[:, -1]), True),
    ("pairs", "minimum"): (lambda x: first(x).minimum(x[:, -1]), False),
    ("maximum of rows", "max"): (lambda x: x.max(1), True),
    ("maximum of rows", "max of columns"): (lambda x: x.mT.max(0), True),
    ("minimum of rows", "min"): (lambda x: x.min(1), False),
    ("minimum of rows", "min of columns"): (lambda x: x.mT.min(0), False),
    ("pool", "max_pool1d"): (pooled, True),
    ("pool", "max_pool2d"): (pooled_in_two, True),
    ("pool", "adaptive_max_pool1d"): (
        lambda x: x.expand_dims(1).adaptive_max_pool1d(1).reshape((-1,)),
        True,
    ),
    ("scatter", "scatter max"): (scattered("max"), True),
    ("scatter", "scatter min"): (scattered("min"), False),
}


def extreme(row: Array, is_greatest: bool) -> float:
    """The rule, for one row at a time."""
    if np.isnan(row).any():
        return math.nan
    order = sorted(row.tolist(), key=lambda v: (v, -math.copysign(1, -v)))
    return order[-1] if is_greatest else order[0]


@pytest.mark.parametrize("repeats", [1, 20])
@pytest.mark.parametrize("device", WORKING)
@pytest.mark.parametrize("fold", FOLDS, ids=lambda fold: fold[1])
def test_an_extreme_follows_the_rule(fold: tuple[str, str], device: str, repeats: int) -> None:
    take, is_greatest = FOLDS[fold]
    rows = np.repeat(PAIRS, repeats, axis=1)
    want = np.array([extreme(row, is_greatest) for row in rows], np.float32)
    got = take(tensor(rows, device=device)).numpy()
    np.testing.assert_array_equal(got, want)
    if (device, fold[0]) not in SIGN_IS_OPEN:
        number = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(want)[number])


#: Ops that take the first of equals: the value at a position, and clamps, which keep x.
POSITIONS: dict[str, Callable[[Tensor], Any]] = {
    "argmax": lambda x: x.argmax(1),
    "argmin": lambda x: x.argmin(1),
    "max_with_indices": lambda x: x.max_with_indices(1)[0],
    "min_with_indices": lambda x: x.min_with_indices(1)[0],
    "max_pool1d's index": lambda x: x.expand_dims(1).max_pool1d_with_indices(x.shape[1])[1],
    "adaptive_max_pool's index": lambda x: x.expand_dims(1).adaptive_max_pool_with_indices((1,))[1],
    "cummax": lambda x: x.cummax(1),
    "cummin": lambda x: x.cummin(1),
    "clamp_min": lambda x: x.clamp_min(0.0),
    "clamp_max": lambda x: x.clamp_max(-0.0),
    "clip": lambda x: x.clip(-0.0, 0.0),
    "relu": lambda x: x.relu(),
    "sort": lambda x: x.sort(1),
    "median": lambda x: x.median(1),
}


@pytest.mark.parametrize("device", [n for n in WORKING if n != "numpy"])
@pytest.mark.parametrize("op", POSITIONS)
def test_what_takes_the_first_of_equals_does_so_everywhere(op: str, device: str) -> None:
    rows = np.repeat(PAIRS, 3, axis=1)
    if device == "torch:cuda" and "pool" in op:
        # There PyTorch gives the last of several NaNs, and any of two zeros.
        rows = rows[~np.isnan(rows).any(1) & (rows != 0).all(1)]
    want = POSITIONS[op](tensor(rows, device="numpy")).numpy()
    got = POSITIONS[op](tensor(rows, device=device)).numpy()
    np.testing.assert_array_equal(got, want)
    if want.dtype.kind == "f":
        number = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(want)[number])
