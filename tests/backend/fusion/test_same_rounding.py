"""Elementwise ops that share a kernel are each rounded as if they ran alone.

On a GPU drivers rewrite arithmetic that meets: they contract a product and a sum, take a common
factor out, cancel what was added, and make x of the square of its root.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor
from pyrite.backend import device_problem
from pyrite.backend.device import Device
from pyrite.backend.fusion import Fusion

Op = Callable[[Tensor, Tensor], Tensor]

#: Ops of two tensors, of which some take the first alone.
OPS: dict[str, Op] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "scale": lambda x, y: x * 0.3,
    "shift": lambda x, y: x + 0.7,
    "negative": lambda x, y: -x,
    "square": lambda x, y: x.square(),
    "root": lambda x, y: x.abs().sqrt(),
    "reciprocal root": lambda x, y: x.abs().rsqrt(),
    "exp": lambda x, y: x.exp(),
    "tanh": lambda x, y: x.tanh(),
    "erf": lambda x, y: x.erf(),
    "choice": lambda x, y: pyrite.where(x < y, x * y, y),
    "half": lambda x, y: x.astype("float16").astype(x.dtype),
}
PAIRS = [*itertools.product(OPS, OPS)]
#: What two results of one tensor are when they meet again.
MEETING: dict[str, Callable[[Tensor], Tensor]] = {
    "a common factor": lambda x: x * 0.3 + x * 0.4,
    "what was added": lambda x: (x + 1.0) - x,
    "numbers in a row": lambda x: x * 0.7 * 0.3 + 0.1 + 0.3,
    "a quotient and a product": lambda x: x / 3.0 * 3.0,
    "the square of a root": lambda x: x.abs().sqrt() ** 2,
    "three products": lambda x: x * x.exp() + x.exp() * x.sin() + x.sin() * x,
    "a rounding to float16": lambda x: x.astype("float16").astype(x.dtype) * 3.0 + 0.1,
    "subnormals of float16": lambda x: (x * 1e-6).astype("float16").astype(x.dtype) * 3e5 + 0.1,
    "what float16 does not hold": lambda x: (x * 3e4).astype("float16").astype(x.dtype) * 0.5 + 0.1,
    "a rounding to bfloat16": lambda x: x.astype("bfloat16").astype(x.dtype) * 3.0 + 0.1,
    "what a sum loses": lambda x: ((x + 1e4) - 1e4) - x,
}
RNG = np.random.default_rng(0)


def values(dtype: str) -> list[np.ndarray]:
    return [(RNG.standard_normal(1031) * 3).astype(dtype) for _ in range(3)]


@pytest.fixture(params=["cpu", "wgpu"])
def devices(request: pytest.FixtureRequest) -> tuple[Device, Device]:
    """The device op by op, and with fusion from the first call."""
    if problem := device_problem(request.param):
        pytest.skip(problem)
    root = pyrite.device(request.param).backend.root
    return Device(root), Device(Fusion(root))


def bits(run: Callable[..., Tensor], arrays: list[np.ndarray], device: Device) -> np.ndarray:
    found = run(*(pyrite.tensor(x, device=device) for x in arrays)).numpy()
    # All NaNs are one.
    return np.where(np.isnan(found), np.float32("nan"), found).view(f"u{found.itemsize}")


def require_same(run: Callable[..., Tensor], dtype: str, devices: tuple[Device, Device]) -> None:
    given = values(dtype)
    try:
        alone = bits(run, given, devices[0])
    except pyrite.DTypeError:
        if dtype != "float64":
            raise
        pytest.skip("a device without float64")
    np.testing.assert_array_equal(bits(run, given, devices[1]), alone)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", MEETING)
def test_results_that_meet_again_are_rounded_alone(
    devices: tuple[Device, Device], name: str, dtype: str
) -> None:
    require_same(lambda x, _y, _z: MEETING[name](x), dtype, devices)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("is_second", [False, True])
@pytest.mark.parametrize(("first", "second"), PAIRS)
@pytest.mark.sample(12)
def test_a_pair_of_ops_is_rounded_op_by_op(
    devices: tuple[Device, Device], first: str, second: str, is_second: bool, dtype: str
) -> None:
    def run(x: Any, y: Any, z: Any) -> Any:
        made = OPS[first](x, y)
        return OPS[second](z, made) if is_second else OPS[second](made, z)

    require_same(run, dtype, devices)
