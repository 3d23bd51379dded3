"""The gradient of a weight along outputs: every config gives the reference's numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pyrite.kernel import verify
from pyrite.kernel.interpret import interpret
from pyrite.kernel.template.implicit_gemm import Windows
from pyrite.kernel.template.operand import accumulator_of
from pyrite.kernel.template.outer_config import OuterConfig, candidates, select, workgroups
from pyrite.kernel.template.outer_products import outer_products
from pyrite.kernel.template.panel_config import CpuFacts
from pyrite.types import Array, bfloat16, float32, float64, int32

AVX512, AVX2, SSE = CpuFacts(64, 32), CpuFacts(32, 16), CpuFacts(16, 16)
PADDED = ((2, 3, 4, 1), (7, 9), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))


def run(layer: Any, layout: Callable[..., Any], config: OuterConfig) -> Array:
    """Return the sum of the parts that a config makes."""
    w, dtype = layer.windows, layer.dtype
    to = accumulator_of(dtype) if config.parts > 1 else dtype
    lx, lg = layout(layer.x, dtype), layout(layer.g, dtype)
    out = np.zeros((config.parts, *layer.weight.shape), to.numpy)
    out[...] = np.nan if dtype.is_float else -1
    kernel = verify(outer_products(w, lx, lg, dtype, config))
    interpret(kernel, workgroups(w, config), layer.x.ravel(), layer.g.ravel(), out.reshape(-1))
    total: Array = out.sum(0)
    return total


def test_every_candidate_is_as_the_reference(layer: Any, layout: Callable[..., Any]) -> None:
    found = set(candidates(layer.windows, float32, SSE))
    assert select(layer.windows, float32, SSE) in found
    for config in found:
        layer.check(run(layer, layout, config), layer.weight_gradient)


def test_edges_of_blocks_tiles_and_parts_in_every_geometry(
    layer: Any, layout: Callable[..., Any]
) -> None:
    taps = layer.windows.kernel_size[-1]
    config = OuterConfig(1, 1, taps, 4, 4, 1, images=1, rows=2, parts=3)
    layer.check(run(layer, layout, config), layer.weight_gradient)
    several = replace(config, block_o=8, block_c=3, images=2, rows=layer.windows.counts[0], parts=1)
    layer.check(run(layer, layout, several), layer.weight_gradient)


@pytest.mark.parametrize("dtype", [float64, bfloat16, int32], ids=lambda d: d.name)
@pytest.mark.parametrize("parts", [1, 2])
def test_every_dtype_sums_in_its_accumulator(
    layer_of: Callable[..., Any], layout: Callable[..., Any], dtype: Any, parts: int
) -> None:
    made = layer_of(PADDED, dtype)
    config = replace(select(made.windows, dtype, AVX2), parts=parts)
    made.check(run(made, layout, config), made.weight_gradient)


def test_infinite_elements_stay_with_the_taps_that_meet_them(
    layer_of: Callable[..., Any], layout: Callable[..., Any]
) -> None:
    made = layer_of(PADDED, float32)
    made.x[0, 0, 0, 0] = np.inf  # the last column of the window never meets the first of x
    got = run(made, layout, select(made.windows, float32, AVX512))
    assert np.isinf(got[:, 0, :2, :2]).all()
    assert np.isfinite(got[:, 0, 2]).all()
    assert np.isfinite(got[:, 0, :, 2]).all()


def test_sums_of_every_shape_fit_in_registers() -> None:
    w = Windows(8, 1, 64, 64, (56, 56), (3, 3), (56, 56), (1, 1), (1, 1), (1, 1))
    for facts in (AVX512, AVX2):
        for c in candidates(w, float32, facts):
            assert c.vectors * (c.channels * c.taps + 1) + 1 <= facts.registers


def test_gradients_whose_channels_are_last_are_read_where_they_lie(
    layer_of: Callable[..., Any], layout: Callable[..., Any]
) -> None:
    made = layer_of(PADDED, float32)
    last = np.ascontiguousarray(np.moveaxis(made.g, 1, -1))
    config = select(made.windows, float32, SSE)
    lg = layout(np.moveaxis(last, -1, 1), float32)
    kernel = verify(outer_products(made.windows, layout(made.x, float32), lg, float32, config))
    out = np.full(made.weight.shape, np.nan, np.float32)
    count = workgroups(made.windows, config)
    assert config.parts == 1
    interpret(kernel, count, made.x.ravel(), last.ravel(), out.reshape(-1))
    made.check(out, made.weight_gradient)
