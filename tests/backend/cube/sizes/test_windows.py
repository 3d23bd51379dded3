"""Pools, interpolation, fold and unfold at sizes that come in turn: which build kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite

Draw = Callable[..., Any]
Op = Callable[[pyrite.Tensor], pyrite.Tensor]

#: Images (N, C, H, W) of which each axis changes, alone and with others; the first builds.
SIZES = [(2, 2, 6, 10), (3, 2, 6, 10), (2, 3, 8, 18), (3, 2, 4, 14), (2, 2, 6, 10)]

OPS: dict[str, Op] = {
    "max pool": lambda x: x.max_pool2d(2),
    "max pool with padding": lambda x: x.max_pool2d(3, stride=2, padding=1),
    "avg pool": lambda x: x.avg_pool2d(2),
    "avg pool with padding": lambda x: x.avg_pool2d(3, 1, padding=1),
    "avg pool of elements": lambda x: x.avg_pool2d(3, 1, 1, count_include_pad=False),
    "adaptive avg pool": lambda x: x.adaptive_avg_pool2d((2, 2)),
    "adaptive max pool": lambda x: x.adaptive_max_pool((2, 2)),
    "nearest": lambda x: x.interpolate(scale_factor=2, mode="nearest"),
    "linear": lambda x: x.interpolate(scale_factor=2, mode="linear"),
    "cubic, smaller": lambda x: x.interpolate(scale_factor=0.5, mode="cubic"),
    "fold of unfold": lambda x: x.unfold4d(2, stride=2).fold4d(x.shape[2:], 2, stride=2),
}


def results(op: Op, *, of: str) -> Callable[[Any, Any], Any]:
    """Return the case of an op, or of its gradient, judged by the numpy device."""

    def slope(x: pyrite.Tensor) -> pyrite.Tensor:
        return pyrite.grad(lambda x: (op(x) ** 2).sum())(x)

    run = op if of == "result" else slope
    random = np.random.default_rng(0)

    def case(device: Any, size: Any) -> tuple[pyrite.Tensor, Any]:
        array = random.normal(size=size).astype("float32")
        wanted = run(pyrite.tensor(array, device="numpy"))
        return run(pyrite.tensor(array, device=device)), wanted.numpy()

    return case


#: Windows that cover the axes evenly slide, and their form is the model's: a kernel for each.
FORMS = {"adaptive avg pool", "adaptive max pool"}
#: What is built before and not counted: unfolding is a move, whose kernels are not of windows.
BEFORE: dict[str, Op] = {"fold of unfold": lambda x: x.unfold4d(2, stride=2)}


@pytest.mark.parametrize("name", sorted(OPS.keys() - FORMS))
def test_windows_of_other_sizes_build_nothing(name: str, built: Callable[..., list[int]]) -> None:
    if name in BEFORE:
        built(results(BEFORE[name], of="result"), SIZES)

    counts = built(results(OPS[name], of="result"), SIZES)

    assert counts[0] > 0
    assert counts[1:] == [0] * (len(SIZES) - 1)


@pytest.mark.parametrize("name", sorted(OPS.keys() - FORMS))
@pytest.mark.sample(5)
def test_gradients_of_windows_of_other_sizes_build_nothing(
    name: str, built: Callable[..., list[int]]
) -> None:
    op = OPS[name]
    shapes = [op(pyrite.tensor(np.zeros(size, "float32"), device="numpy")).shape for size in SIZES]
    built(results(lambda y: y, of="gradient"), shapes)  # the kernels around the op's own
    for forward in (op, BEFORE.get(name, op)):
        built(results(forward, of="result"), SIZES)

    counts = built(results(op, of="gradient"), SIZES)

    assert counts[1:] == [0] * (len(SIZES) - 1)


@pytest.mark.parametrize("name", sorted(FORMS))
@pytest.mark.parametrize("sizes", [(5, 7), (4, 6)])
def test_windows_that_cover_are_built_by_form(
    name: str, sizes: tuple[int, int], built: Callable[..., list[int]]
) -> None:
    height, width = sizes
    # A mean is read by tables, and how many taps of them an element has is built in.
    is_any = height % 2 and name == "adaptive max pool"
    further = (height + 2, width + 4) if is_any else sizes

    counts = built(
        results(OPS[name], of="result"), [(2, 3, *sizes), (5, 2, *sizes), (5, 2, *further)]
    )

    assert counts[0] > 0
    assert counts[1:] == [0, 0]
