"""Convolutions by windows of one element are run with all positions on one axis."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.backend.cube.lowering.convolution_positions import with_one_axis
from pyrite.backend.cube.tensor import unstored
from pyrite.kernel.template.implicit_gemm import Windows
from pyrite.types import TensorType, float32

POINTS = Windows(2, 1, 3, 4, (9, 11), (1, 1), (9, 11), (1, 1), (0, 0), (1, 1))


def test_positions_become_one_axis_where_they_lie_so() -> None:
    x, out = (unstored(TensorType((2, n, 9, 11), float32)) for n in (3, 4))
    w, (flat, _) = with_one_axis(POINTS, [x, out])
    assert (w.sizes, w.counts, w.kernel_size) == ((99,), (99,), (1,))
    assert (flat.shape, flat.strides) == ((2, 3, 99), (297, 99, 1))
    turned = out.permuted((0, 1, 3, 2)).strided((2, 4, 9, 11), (396, 99, 1, 9))
    assert with_one_axis(POINTS, [x, turned]) == (POINTS, [x, turned])


@pytest.mark.parametrize("change", [
    {"kernel_size": (3, 1)}, {"padding": (0, 1)}, {"counts": (5, 6), "stride": (2, 2)},
    {"sizes": (7, 7), "counts": (7, 7)},
])  # fmt: skip
def test_other_windows_stay(change: dict[str, Any]) -> None:
    w, x = replace(POINTS, **change), unstored(TensorType((2, 3, 9, 11), float32))
    assert with_one_axis(w, [x])[0] is w


@pytest.mark.parametrize("order", [(0, 1, 3, 2)])
def test_every_layout_gives_numpys_numbers(order: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    shape = (2, 3, 9, 11)
    laid = rng.standard_normal([shape[a] for a in order]).astype("float32")
    weight, bias = (rng.standard_normal(s).astype("float32") for s in ((4, 3, 1, 1), (4,)))
    back = tuple(int(a) for a in np.argsort(order))

    def run(where: str) -> list[np.ndarray]:
        x, w, b = (pyrite.tensor(a, device=where) for a in (laid, weight, bias))

        def loss(x: pyrite.Tensor, w: pyrite.Tensor) -> pyrite.Tensor:
            return x.permute_dims(back).conv2d(w, b).square().sum()

        found = x.permute_dims(back).conv2d(w, b), pyrite.grad(loss)(x, w)
        return [t.numpy() for t in found]

    for got, want in zip(run("cpu"), run("numpy"), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
