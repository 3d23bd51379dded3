"""Convolutions through windows: the reference's numbers, forward and both gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.kernel import verify
from pyrite.kernel.interpret import interpret
from pyrite.kernel.template import panel_gemm, tiled_gemm
from pyrite.kernel.template.implicit_gemm import (
    Layout,
    Windows,
    forward,
    input_gradient,
    weight_gradient,
)
from pyrite.kernel.template.product import Product
from pyrite.op import OPS
from pyrite.types import Array, float32

#: (batch, channels, outputs, groups), sizes, kernel, stride, (before, after), dilation.
CASES: list[Any] = [
    ((2, 3, 4, 1), (7, 9), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    ((1, 4, 6, 2), (8, 6), (3, 2), (2, 1), ((1, 0), (0, 2)), (1, 2)),
    ((2, 4, 4, 4), (6, 8), (3, 3), (1, 2), ((1, 1), (0, 0)), (1, 1)),
    ((1, 2, 3, 1), (11,), (3,), (2,), ((2, 1),), (2,)),
    ((1, 2, 3, 1), (4, 5, 3), (2, 2, 2), (1, 2, 1), ((0, 0), (1, 1), (1, 0)), (1, 1, 1)),
    ((2, 3, 5, 1), (4, 4), (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1)),
]


def layout(array: Array) -> Layout:
    return Layout(float32, tuple(s // 4 for s in array.strides))


def check(product: Product, x: Array, y: Array, want: Array) -> None:
    """Run a product by each schedule."""
    facts = panel_gemm.CpuFacts(16, 16)
    plain = panel_gemm.select(product, facts)
    packed = panel_gemm.PanelConfig(2, 2, 4, 4, 16, 8, packs_x=True, packs_y=True)
    tile = tiled_gemm.TiledConfig(16, 16, 16, 4, 4)
    runs = [
        (panel_gemm.panel_gemm(product, c), panel_gemm.workgroups(product, c))
        for c in (plain, packed, panel_gemm.direct(product))
    ]
    runs.append((tiled_gemm.tiled_gemm(product, tile), tiled_gemm.workgroups(product, tile)))
    for kernel, workgroups in runs:
        out = np.full(want.size, np.nan, np.float32)
        interpret(verify(kernel), workgroups, x.ravel(), y.ravel(), out)
        np.testing.assert_allclose(out.reshape(want.shape), want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("lanes", [1, 4])
def test_every_geometry_is_as_the_reference(case: Any, lanes: int) -> None:
    (batch, channels, outputs, groups), sizes, kernel_size, stride, padding, dilation = case
    random = np.random.default_rng(0)
    x = random.standard_normal((batch, channels, *sizes)).astype(np.float32)
    weight = random.standard_normal((outputs, channels // groups, *kernel_size))
    weight = weight.astype(np.float32)
    attrs = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    out: Any = OPS["convolution"].reference(x, weight, **attrs)
    g = random.standard_normal(out.shape).astype(np.float32)
    gradient = OPS["convolution_input_gradient"].reference(g, weight, sizes=sizes, **attrs)
    of_weight = OPS["convolution_weight_gradient"].reference(x, g, kernel_size=kernel_size, **attrs)
    w = Windows(
        batch, groups, channels // groups, outputs // groups, sizes, kernel_size, out.shape[2:],
        stride, tuple(before for before, _ in padding), dilation,
    )  # fmt: skip
    lx, lw, lo = layout(x), layout(weight), layout(out)
    check(forward(w, lx, lw, lo, lanes), weight, x, out)
    check(input_gradient(w, lo, lw, lx, lanes), weight, g, np.asarray(gradient))
    check(weight_gradient(w, lx, lo, lw), g, x, np.asarray(of_weight))


def test_a_kernel_of_size_one_needs_no_windows() -> None:
    w = Windows(2, 1, 3, 5, (4, 4), (1, 1), (4, 4), (1, 1), (0, 0), (1, 1))
    image, kernel = Layout(float32, (48, 16, 4, 1)), Layout(float32, (3, 1, 1, 1))
    assert forward(w, image, kernel, Layout(float32, (80, 16, 4, 1)), 4).y.windows == ()
