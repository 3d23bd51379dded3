"""Each op of the table with pending calls before it and after it: what it gives is what it gave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor
from pyrite.backend.device import Device
from pyrite.backend.fusion import Fusion
from pyrite.testing import Example, examples
from pyrite.types import Array, dtype

#: How far results may be off, relative to the greatest, where sums are in another order.
TOLERANCE = {"float32": 2e-5, "float64": 1e-12, "float16": 1e-2, "bfloat16": 6e-2}


@pytest.fixture(scope="module")
def fused() -> Device:
    return Device(Fusion(pyrite.device("cpu").backend.root))


def pending(x: Any, device: Device, turn: int) -> Any:
    """Return an input as what other ops give: with another layout, or of a chain."""
    if not isinstance(x, np.ndarray):
        return x
    made = pyrite.tensor(x, device=device)
    if turn == 0 or not x.ndim:
        return made.logical_not().logical_not() if made.dtype.is_bool else made + 0
    if turn == 1:
        return (made.flip(-1) if made.dtype.is_bool else made.flip(-1) * 1).flip(-1)
    return pyrite.concat([made.mT, made.mT], -1).mT[: len(made)] if x.ndim == 2 else made[...]


def followed(results: Sequence[Tensor]) -> list[Array]:
    """Return what is read of results: themselves, a chain of each, and a fold of that."""
    found: list[Tensor] = []
    for x in results:
        chain = x.astype("float64" if x.dtype.name == "float64" else "float32") * 2 + 1
        found += [chain, chain.sum(-1) if x.ndim else chain.exp()]
    found += results[::2]
    return [x.numpy() for x in found]


def assert_near(x: Array, y: Array) -> None:
    assert (x.shape, x.dtype) == (y.shape, y.dtype)
    if not dtype(y.dtype).is_float:
        np.testing.assert_array_equal(x, y)
        return
    wide = y.astype(np.float64)
    scale = np.abs(wide[np.isfinite(wide)]).max(initial=1e-30)
    tolerance = TOLERANCE[dtype(y.dtype).name] * scale
    np.testing.assert_allclose(x.astype(np.float64), wide, 0, tolerance)


@pytest.mark.parametrize("turn", [0, 1, 2])
@pytest.mark.parametrize("example", [*examples()], ids=lambda e: e.id)
@pytest.mark.sample(20)
def test_an_op_between_others_gives_what_it_gives_alone(
    fused: Device, example: Example, turn: int
) -> None:
    for kind in ("float32", "bfloat16", "float64"):
        arrays = example.arrays(dtype(kind))
        is_of = any(getattr(a, "dtype", None) == dtype(kind).numpy for a in arrays)
        if kind != "float32" and not is_of:
            continue

        found = [run(example, arrays, turn, device) for device in (fused, pyrite.device("cpu"))]
        for x, y in zip(*found, strict=True):
            assert_near(x, y)


def run(example: Example, arrays: Sequence[Any], turn: int, device: Device) -> list[Array]:
    with pyrite.random_stream(3):
        return followed(example.call([pending(a, device, turn) for a in arrays], device))
