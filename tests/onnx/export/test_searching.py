"""Running folds, places and counts in onnxruntime: NaN, infinities, equal elements, other sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, nn

ENDS = np.array(
    [[1, 2, 2, -np.inf, 7, 7, 0], [np.nan, 9, np.inf, np.nan, 1, 2, 3], [-np.inf] * 6 + [np.inf],
     [-0.0, 0.0, -0.0, 1e38, 3e38, -1e38, 5], [np.inf, -np.inf, 0, np.nan, 2, 1, 8]], np.float32,
)  # fmt: skip


class Model(nn.Module):
    """A function as a model."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def forward(self, **inputs: Tensor) -> Any:
        return self.function(**inputs)


RUNNING: dict[str, Callable[[Tensor], Any]] = {
    "max": lambda x: x.cummax(1),
    "max and place": lambda x: x.cummax_with_indices(1),
    "min and place": lambda x: x.cummin_with_indices(-1),
    "over rows": lambda x: x.cummin(0),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.int64, np.uint8])
@pytest.mark.parametrize("name", RUNNING)
def test_extrema_so_far_have_the_place_of_the_first(name: str, dtype: Any, judge: Any) -> None:
    is_float = np.issubdtype(dtype, np.floating)
    with np.errstate(over="ignore"):
        array = ENDS if is_float else np.array([[1, 5, 5, 0, 9, 9, 2], [3] * 7, [0, 1] * 3 + [0]])
        x = pyrite.tensor(array.astype(dtype))

    judge(Model(lambda x: RUNNING[name](x)), {"x": x}, opset=20)


@pytest.mark.parametrize("array", [ENDS, ENDS[:, :1], ENDS[:, :0]], ids=lambda a: str(a.shape))
def test_sums_of_powers_so_far(array: Any, judge: Any) -> None:
    x = pyrite.tensor(array)

    judge(Model(lambda x: x.cumulative_logsumexp(1)), {"x": x})


@pytest.mark.parametrize("side", ["left", "right"])
def test_values_are_placed_among_any_number_of_sorted_ones(side: Any, judge: Any) -> None:
    def given(n: int, m: int) -> dict[str, Tensor]:
        ordered = np.sort(np.random.default_rng(n).integers(-2, 3, n).astype(np.float32))
        ordered[-1:] = np.nan
        ends = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 2, 7], np.float32)
        return {"x": pyrite.tensor(ordered), "values": pyrite.tensor(ends[:m])}

    judge(
        Model(lambda x, values: x.searchsorted(values, side=side)), given(4, 5),
        others=[given(7, 7), given(1, 1)], dynamic={"x": {0: "n"}, "values": {0: "m"}},
    )  # fmt: skip


def test_counts_of_what_has_a_bin(judge: Any) -> None:
    def given(n: int) -> dict[str, Tensor]:
        x = np.random.default_rng(n).integers(-3, 9, n).astype(np.int32)
        return {"x": pyrite.tensor(x), "weights": pyrite.tensor(x.astype(np.float32) / 3)}

    def count(x: Tensor, weights: Tensor) -> Any:
        return x.bincount(size=5), x.bincount(weights, size=4)

    judge(Model(count), given(9), others=[given(30), given(2)],
          dynamic={"x": {0: "n"}, "weights": {0: "n"}})  # fmt: skip


def test_places_of_a_number_that_is_given(judge: Any) -> None:
    x = pyrite.tensor(np.array([[0, 2.0, np.nan], [0, -0.0, 1]], np.float32))

    # Not exported again: the file's NonZero has a result whose shape depends on values.
    judge(
        Model(lambda x: (x.argwhere(size=2), x.argwhere(size=6, fill_value=-7))), {"x": x},
        imports=False,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32, np.uint64])
def test_unsigned_integers_are_shifted_until_nothing_is_left(dtype: Any, judge: Any) -> None:
    values = np.array([0, 1, 100, np.iinfo(dtype).max], dtype)
    amounts = np.array([0, 1, 3, 7, 8, 31, 32, 63, 64, 100], dtype)
    given = {"x": pyrite.tensor(values[:, None]), "n": pyrite.tensor(amounts)}

    judge(Model(lambda x, n: (x.bitwise_right_shift(n), x.bitwise_left_shift(n))), given)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])  # onnxruntime chooses no int16
def test_signed_integers_are_shifted_with_their_sign(dtype: Any, judge: Any) -> None:
    ends = np.iinfo(dtype)
    values = np.array([ends.min, ends.min + 1, -7, -1, 0, 1, 100, ends.max], dtype)
    amounts = np.array([0, 1, 3, 7, 15, 31, 63, 100, -1], dtype)
    given = {"x": pyrite.tensor(values[:, None]), "n": pyrite.tensor(amounts)}

    judge(Model(lambda x, n: x.bitwise_right_shift(n)), given)
