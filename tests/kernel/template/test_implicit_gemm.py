"""Convolutions through windows: the reference's numbers, forward and both gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyrite.kernel import verify
from pyrite.kernel.interpret import interpret
from pyrite.kernel.machine import Machine
from pyrite.kernel.template import panel_config, tiled_gemm
from pyrite.kernel.template.implicit_gemm import (
    OperandLayout,
    Windows,
    forward,
    weight_gradient,
)
from pyrite.kernel.template.panel_gemm import panel_gemm
from pyrite.kernel.template.polyphase import input_gradient
from pyrite.kernel.template.product import Product
from pyrite.types import Array, float32


def check(product: Product, x: Array, y: Array, want: Array) -> None:
    """Run a product by each schedule."""
    machine = Machine.cpu(16, 16)
    plain = panel_config.select(product, machine)
    rows = min(product.m, 2)
    packed = panel_config.PanelConfig(rows, 2, 4, 4, 16, 8, packs_x=True, packs_y=True)
    tile = tiled_gemm.TiledConfig(16, 16, 16, 4, 4)
    runs = [
        (panel_gemm(product, c), panel_config.workgroups(product, c))
        for c in (plain, packed, panel_config.direct(product))
    ]
    runs.append((tiled_gemm.tiled_gemm(product, tile), tiled_gemm.workgroups(product, tile)))
    for kernel, workgroups in runs:
        out = np.full(want.size, np.nan, np.float32)
        interpret(verify(kernel), workgroups, x.ravel(), y.ravel(), out)
        np.testing.assert_allclose(out.reshape(want.shape), want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("lanes", [1, 4])
def test_every_geometry_is_as_the_reference(
    layer: Any, lanes: int, layout: Callable[..., OperandLayout]
) -> None:
    w = layer.windows
    lx, lw, lo = (layout(a, float32) for a in (layer.x, layer.weight, layer.out))
    check(forward(w, lx, lw, lo, lanes), layer.weight, layer.x, layer.out)
    check(weight_gradient(w, lx, lo, lw), layer.g, layer.x, layer.weight_gradient)


def test_the_phases_of_x_make_its_gradient(
    layer: Any, layout: Callable[..., OperandLayout]
) -> None:
    w, got = layer.windows, np.full(layer.x.shape, np.nan, np.float32)
    for phase in input_gradient(w):
        part = got[_every(phase.start, w.stride)]
        assert part.shape[2:] == phase.windows.counts
        if 0 in phase.windows.kernel_size:
            part[...] = 0
            continue
        taps = np.ascontiguousarray(layer.weight[_every(phase.first_tap, phase.tap_step)])
        assert taps.shape[2:] == phase.windows.kernel_size
        want = layer.x_gradient[_every(phase.start, w.stride)]
        made = np.empty(part.shape, np.float32)
        x, weight, out = (layout(a, float32) for a in (layer.g, taps, made))
        product = forward(phase.windows, x, weight, out, 1, is_transposed=True)
        check(product, taps, layer.g, want)
        part[...] = want
    np.testing.assert_array_equal(got, layer.x_gradient)


def _every(start: tuple[int, ...], step: tuple[int, ...]) -> Any:
    return (..., *(slice(i, None, n) for i, n in zip(start, step, strict=True)))


def test_a_kernel_of_size_one_needs_no_windows() -> None:
    w = Windows(2, 1, 3, 5, (4, 4), (1, 1), (4, 4), (1, 1), (0, 0), (1, 1))
    image, kernel = OperandLayout(float32, (48, 16, 4, 1)), OperandLayout(float32, (3, 1, 1, 1))
    assert forward(w, image, kernel, OperandLayout(float32, (80, 16, 4, 1)), 4).y.windows == ()
