"""The gradient of x where windows do not overlap: one product, whatever the stride."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.backend import device_problem
from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import Device
from pyrite.kernel.machine import Machine
from pyrite.runtime.interpreter import InterpreterRuntime

#: Shapes of x and weight, then stride, groups and dilation; with rests, and windows with gaps.
CASES: list[tuple[tuple[int, ...], tuple[int, ...], int, int, int]] = [
    ((2, 3, 17, 16), (4, 3, 8, 8), 8, 1, 1),
    ((1, 2, 9, 10), (6, 2, 2, 3), 4, 1, 1),
    ((3, 4, 12), (6, 2, 3), 3, 2, 1),
    ((2, 2, 5, 6, 7), (3, 2, 2, 2, 2), 2, 1, 1),
    ((2, 3, 20, 20), (4, 3, 2, 2), 4, 1, 2),
    ((1, 3, 8, 8), (4, 3, 8, 8), 8, 1, 1),
    ((2, 1, 4, 6), (1, 1, 2, 2), 2, 1, 1),
]


@pytest.mark.parametrize(
    ("device", "dtype", "cases"),
    [("cpu", "float32", CASES), ("cpu", "bfloat16", CASES[1:3]), ("wgpu", "float32", CASES[1:3])],
)
def test_patches_have_the_gradient_of_the_reference(
    device: str, dtype: str, cases: list[Any]
) -> None:
    if problem := device_problem(device):
        pytest.skip(problem)
    rng = np.random.default_rng(0)
    for case in cases:
        g, weight, attrs = operands(rng, *case)
        if dtype == "float32":
            g.flat[0], g.flat[-1] = np.nan, np.inf
        given = [pyrite.tensor(x, device="numpy").astype(dtype) for x in (g, weight)]
        wanted = gradient(*given, attrs).numpy()
        x, w = (pyrite.tensor(t.numpy(), device=device) for t in given)
        for view in (x, lies_channels_last(x), (x.flip(axis=-1) + 0).flip(axis=-1)):
            np.testing.assert_array_equal(gradient(view, w, attrs).numpy(), wanted, str(case))


def test_patches_take_one_product_and_maybe_zeros_before() -> None:
    backend = CubeBackend(InterpreterRuntime(Machine.cpu(16, 32)))
    device = Device(backend)
    rng = np.random.default_rng(0)
    for case, launches in ((CASES[0], 3), (CASES[5], 2)):
        g, weight, attrs = operands(rng, *case)
        gradient(*(pyrite.tensor(t, device=device) for t in (g, weight)), attrs).numpy()
        *_, recording = backend._recordings.young.values()
        # The last is what looks for sums that are NaN because of a zero that stands for no term.
        names = [step.executable.kernel.name for step in recording.steps]
        assert len(names) <= launches, names


def operands(
    rng: np.random.Generator, x: tuple[int, ...], weight: tuple[int, ...], stride: int,
    groups: int, dilation: int,
) -> tuple[Any, Any, dict[str, Any]]:  # fmt: skip
    """Return a cotangent and a weight of small whole numbers, and the attributes."""
    rank = len(x) - 2
    counts = [
        (n - (k - 1) * dilation - 1) // stride + 1 for n, k in zip(x[2:], weight[2:], strict=True)
    ]
    g = rng.integers(-2, 3, (x[0], weight[0], *counts)).astype("float32")
    attrs = {
        "stride": (stride,) * rank, "dilation": (dilation,) * rank, "groups": groups,
        "padding": ((0, 0),) * rank, "sizes": x[2:],
    }  # fmt: skip
    return g, rng.integers(-2, 3, weight).astype("float32"), attrs


def gradient(g: pyrite.Tensor, weight: pyrite.Tensor, attrs: dict[str, Any]) -> pyrite.Tensor:
    return g._convolution_input_gradient(weight, **attrs)


def lies_channels_last(x: pyrite.Tensor) -> pyrite.Tensor:
    """Return the tensor with its channels as neighbours in memory."""
    last = len(x.shape) - 1
    moved = x.permute_dims((0, *range(2, last + 1), 1)) + 0
    return moved.permute_dims((0, last, *range(1, last)))
