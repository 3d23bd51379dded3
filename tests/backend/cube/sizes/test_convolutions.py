"""Convolutions and their gradients at batches and sizes of images that come in turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import pyrite

Op = Callable[[pyrite.Tensor, pyrite.Tensor, dict[str, Any]], pyrite.Tensor]

#: The shape of the weight (O, C/groups, kh, kw), and how it slides.
LAYERS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "same": ((4, 2, 3, 3), {"padding": 1}),
    "valid": ((3, 2, 3, 2), {}),
    "strided": ((4, 2, 3, 3), {"stride": 2, "padding": 1}),
    "dilated": ((3, 2, 2, 2), {"dilation": 2, "padding": 1}),
    "depthwise": ((2, 1, 3, 3), {"padding": 1, "groups": 2}),
    "pointwise": ((6, 2, 1, 1), {}),
}


def forward(x: pyrite.Tensor, weight: pyrite.Tensor, how: dict[str, Any]) -> pyrite.Tensor:
    """Return the convolution."""
    return x.conv2d(weight, **how)


def slope_of_input(x: pyrite.Tensor, weight: pyrite.Tensor, how: dict[str, Any]) -> pyrite.Tensor:
    """Return the gradient of x."""
    return pyrite.grad(lambda x: (x.conv2d(weight, **how) ** 2).sum())(x)


def slope_of_weight(x: pyrite.Tensor, weight: pyrite.Tensor, how: dict[str, Any]) -> pyrite.Tensor:
    """Return the gradient of the weight."""
    return pyrite.grad(lambda weight: (x.conv2d(weight, **how) ** 2).sum())(weight)


def results(op: Op, name: str) -> Callable[[Any, Any], Any]:
    """Return the case of a layer, judged by the numpy device."""
    shape, how = LAYERS[name]
    random = np.random.default_rng(0)

    def case(device: Any, size: Any) -> tuple[pyrite.Tensor, Any]:
        x, weight = (random.normal(size=s).astype("float32") for s in (size, shape))
        given = (pyrite.tensor(array, device="numpy") for array in (x, weight))
        return op(*(pyrite.tensor(array, device=device) for array in (x, weight)), how), op(
            *given, how
        ).numpy()

    return case


OPS = [forward, slope_of_input, slope_of_weight]
#: Batches of one class: its greatest, and smaller ones.
BATCHES = [(8, 2, 12, 12), (6, 2, 12, 12), (5, 2, 12, 12), (7, 2, 12, 12)]
#: The first sizes are built in; the second build what serves the others.
IMAGES = [(3, 2, 9, 10), (3, 2, 14, 20), (4, 2, 14, 20), (4, 2, 14, 19), (3, 2, 14, 18)]


@pytest.mark.parametrize("name", sorted(LAYERS.keys() - {"pointwise"}))
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.__name__)
def test_other_batches_build_nothing(op: Op, name: str, built: Callable[..., list[int]]) -> None:
    first, *others = built(results(op, name), BATCHES)

    assert first > 0
    assert others == [0, 0, 0]


@pytest.mark.parametrize("name", sorted(LAYERS.keys() - {"pointwise", "strided"}))
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.__name__)
def test_the_second_sizes_of_images_build_what_serves_all(
    op: Op, name: str, cpu_built: Callable[..., list[int]]
) -> None:
    first, second, *others = cpu_built(results(op, name), IMAGES)

    assert first >= second > 0
    assert others == [0, 0, 0]
