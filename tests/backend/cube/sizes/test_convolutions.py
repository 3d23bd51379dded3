"""Convolutions and their gradients at batches and sizes of images that come in turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite

Op = Callable[[Any, Any, dict[str, Any]], Any]


@pytest.fixture(autouse=True)
def _ahead() -> None:
    """Compile nothing ahead: counted is what a second size makes itself."""


#: The shape of the weight (O, C/groups, kh, kw), and how it slides.
LAYERS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "same": ((4, 2, 3, 3), {"padding": 1}),
    "valid": ((3, 2, 3, 2), {"padding": 0}),
    "strided": ((4, 2, 3, 3), {"stride": 2, "padding": 1}),
    "dilated": ((3, 2, 2, 2), {"dilation": 2, "padding": 1}),
    "depthwise": ((2, 1, 3, 3), {"padding": 1, "groups": 2}),
}


def forward(x: Any, weight: Any, how: dict[str, Any]) -> Any:
    """Return the convolution."""
    return x.convolution(weight, **how)


def gradient_of_input(x: Any, weight: Any, how: dict[str, Any]) -> Any:
    """Return the gradient of x, for a g that is made of it."""
    g = x.convolution(weight, **how)
    return g._convolution_input_gradient(weight, sizes=x.shape[2:], **how)


def gradient_of_weight(x: Any, weight: Any, how: dict[str, Any]) -> Any:
    """Return the gradient of the weight, for a g that is made of x."""
    g = x.convolution(weight, **how)
    return x._convolution_weight_gradient(g, kernel_size=weight.shape[2:], **how)


def results(op: Op, name: str) -> Callable[[Any, Any], Any]:
    """Return the case of a layer, judged by the numpy device; numbers are whole, sums exact."""
    shape, given = LAYERS[name]
    pad = given["padding"]
    how = {
        "stride": (given.get("stride", 1),) * 2, "padding": ((pad, pad),) * 2,
        "dilation": (given.get("dilation", 1),) * 2, "groups": given.get("groups", 1),
    }  # fmt: skip
    random = np.random.default_rng(0)

    def case(device: Any, size: Any) -> tuple[pyrite.Tensor, Any]:
        arrays = [random.integers(-3, 4, of).astype("float32") for of in (size, shape)]
        on_device = (pyrite.tensor(array, device=device) for array in arrays)
        on_numpy = (pyrite.tensor(array, device="numpy") for array in arrays)
        return op(*on_device, how), op(*on_numpy, how).numpy()

    return case


OPS = [forward, gradient_of_input, gradient_of_weight]
#: Batches of one class: its greatest, and smaller ones.
BATCHES = [(8, 2, 12, 12), (6, 2, 12, 12), (5, 2, 12, 12), (7, 2, 12, 12)]
#: The first sizes are built in; the second build what serves the others.
IMAGES = [(3, 2, 9, 10), (3, 2, 14, 20), (4, 2, 14, 20), (4, 2, 9, 10)]
#: Sizes for which the best configs differ.
CLASSES = [(2, 2, n, m) for n, m in ((12, 12), (15, 21), (10, 31), (26, 13), (19, 19), (36, 9))]


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.__name__)
@pytest.mark.sample(2, by="op")
def test_other_batches_build_nothing(
    op: Op, name: str, cpu_built: Callable[..., list[int]]
) -> None:
    first, *others = cpu_built(results(op, name), BATCHES)

    assert first > 0
    assert others == [0, 0, 0]


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.__name__)
@pytest.mark.sample(2, by="op")
def test_other_sizes_of_images_build_for_any_batch(
    op: Op, name: str, cpu_built: Callable[..., list[int]]
) -> None:
    first, second, *others = cpu_built(results(op, name), IMAGES)

    assert first + 1 >= second > 0  # partial sums may be needed now
    assert others == [0, 0]


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.__name__)
@pytest.mark.sample(1, by="op")
def test_images_of_all_classes_share_kernels(
    op: Op, name: str, cpu_built: Callable[..., list[int]]
) -> None:
    # Of the third an image may be cut, or several go together, which the second did not.
    _, _, _, *others = cpu_built(results(op, name), CLASSES)

    assert others == [0, 0, 0]


@pytest.mark.parametrize("name", LAYERS)
def test_other_batches_build_nothing_on_a_gpu(name: str, built: Callable[..., list[int]]) -> None:
    first, *others = built(results(forward, name), BATCHES)

    assert first > 0
    assert others == [0, 0, 0]
