"""Functions that ONNX has no op for, at their ends: poles, roots, subnormals, infinities, NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, nn


class Model(nn.Module):
    """A function of tensors as a model."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def forward(self, **inputs: Tensor) -> Any:
        return self.function(**inputs)


def test_the_inverse_of_erf_at_its_ends(judge: Any) -> None:
    inner = np.linspace(-0.999, 0.999, 91, dtype=np.float32)
    ends = np.array([1, -1, 0, -0.0, 1.5, np.nan, 1 - 2**-24, 2**-149, np.inf], np.float32)

    judge(Model(lambda x: x.erfinv()), {"x": pyrite.tensor(np.concatenate([inner, ends]))})


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_the_gamma_family_at_poles_roots_and_far_away(dtype: Any, judge: Any) -> None:
    middle = np.linspace(-12.25, 30.25, 173)
    ends = [
        0.0,
        -0.0,
        -1,
        -2,
        1,
        2,
        1.4616321,
        np.inf,
        -np.inf,
        np.nan,
        -2e4,
        6e4,
        2**-24,
        -(2**-24),
    ]
    x = pyrite.tensor(np.concatenate([middle, ends]).astype(dtype))

    def family(x: Tensor) -> Any:
        return x.lgamma(), x.digamma(), x._trigamma()

    judge(Model(family), {"x": x}, atol=1e-14 if dtype == np.float64 else 2e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_neighbours_of_a_number_are_exact(dtype: Any, judge: Any) -> None:
    ends = np.finfo(dtype)
    lowest = ends.minexp - ends.nmant
    powers = 2.0 ** np.arange(max(lowest, -1074), ends.maxexp, dtype=np.float64)
    rng = np.random.default_rng(0)
    some = (rng.uniform(1, 2, 400) * rng.choice(powers, 400)).astype(dtype)
    limits = np.array([0, np.inf, np.nan, ends.max, ends.tiny, ends.smallest_subnormal], dtype)
    x = np.concatenate([powers.astype(dtype), some, limits])
    toward = np.array([np.inf, -np.inf, 0, 1, np.nan], dtype)[:, None]
    given = {"x": pyrite.tensor(np.concatenate([x, -x])), "y": pyrite.tensor(toward)}

    judge(Model(lambda x, y: x.nextafter(y)), given, atol=0, rtol=0)


@pytest.mark.parametrize("dtype", "int8 uint8 int16 uint16 int32 uint32 int64 uint64".split())
def test_bits_are_counted_with_that_of_the_sign(dtype: str, judge: Any) -> None:
    ends = np.iinfo(dtype)
    x = pyrite.tensor(np.array([[0, 1, 7], [ends.min, ends.max, ends.max - 1]], dtype))

    judge(Model(lambda x: x.popcount()), {"x": x})


@pytest.mark.parametrize("reduction", ["mul", "min", "max"])
def test_several_writes_to_a_place_are_joined(reduction: Any, judge: Any) -> None:
    def given(n: int) -> dict[str, Tensor]:
        rng = np.random.default_rng(n)
        places = rng.integers(-3, 3, (n, 5)).astype(np.int32)
        values = rng.uniform(0.5, 2, (n, 5)).astype(np.float32)
        return {
            "x": pyrite.tensor(rng.uniform(0.5, 2, (n, 3)).astype(np.float32)),
            "places": pyrite.tensor(places), "values": pyrite.tensor(values),
        }  # fmt: skip

    def write(x: Tensor, places: Tensor, values: Tensor) -> Any:
        return (
            x.scatter(1, places, values, reduction=reduction),
            x.scatter_nd(pyrite.tensor([[0], [1], [0], [-1]]), x.sum(0), reduction=reduction),
        )

    dynamic = {name: {0: "n"} for name in ("x", "places", "values")}
    judge(Model(write), given(4), others=[given(6), given(5)], dynamic=dynamic)


@pytest.mark.parametrize("dtype", [pyrite.float16, pyrite.bfloat16])
def test_half_floats_are_widened_for_ops_that_onnx_has_none_of_theirs_for(
    dtype: Any, judge: Any
) -> None:
    x = pyrite.tensor(np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4))

    def both(x: Tensor) -> Any:
        narrow = x.astype(dtype)
        return narrow.celu(0.5), pyrite.einsum("ij,kj->ik", narrow, narrow)

    # onnxruntime takes the casts between two ops away, and what they would have rounded.
    judge(
        Model(lambda x: tuple(y.astype("float32") for y in both(x))), {"x": x}, opset=18, rtol=8e-3
    )
