"""Convolutions that read windows in place: every config gives the reference's numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyrite.kernel import verify
from pyrite.kernel.interpret import interpret
from pyrite.kernel.template.direct_convolution import (
    DirectConfig,
    candidates,
    direct_convolution,
    select,
    workgroups,
)
from pyrite.kernel.template.implicit_gemm import Windows, weight_map
from pyrite.kernel.template.panel_config import CpuFacts
from pyrite.types import Array, bfloat16, float32, float64, int32

AVX512, AVX2, SSE = CpuFacts(64, 32), CpuFacts(32, 16), CpuFacts(16, 16)
PADDED = ((2, 3, 4, 1), (7, 9), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))


def run(layer: Any, layout: Callable[..., Any], config: DirectConfig) -> Array:
    w, dtype = layer.windows, layer.dtype
    out = np.full(layer.out.shape, np.nan if dtype.is_float else -1).astype(dtype.numpy)
    x, weight, to = (layout(a, dtype) for a in (layer.x, layer.weight, out))
    kernel = verify(direct_convolution(w, x, weight_map(w, weight), to, config))
    weights = layer.weight.ravel()
    interpret(kernel, workgroups(w, config), weights, layer.x.ravel(), out.reshape(-1))
    return out


def test_every_candidate_is_as_the_reference(layer: Any, layout: Callable[..., Any]) -> None:
    found = set(candidates(layer.windows, float32, SSE))
    assert select(layer.windows, float32, SSE) in found
    for config in found:
        layer.check(run(layer, layout, config), layer.out)


def test_edges_of_blocks_tiles_and_slabs_in_every_geometry(
    layer: Any, layout: Callable[..., Any]
) -> None:
    some = DirectConfig(2, 3, 4, 2, 1, images=2, rows=layer.windows.counts[0])
    layer.check(run(layer, layout, some), layer.out)
    rows = DirectConfig(3, 2, 4, 3, 2, images=1, rows=2)
    layer.check(run(layer, layout, rows), layer.out)


@pytest.mark.parametrize("dtype", [float64, bfloat16, int32], ids=lambda d: d.name)
def test_every_dtype_sums_in_its_accumulator(
    layer_of: Callable[..., Any], layout: Callable[..., Any], dtype: Any
) -> None:
    made = layer_of(PADDED, dtype)
    made.check(run(made, layout, select(made.windows, dtype, AVX2)), made.out)


def test_sums_of_every_shape_fit_in_registers() -> None:
    w = Windows(8, 1, 64, 64, (56, 56), (3, 3), (56, 56), (1, 1), (1, 1), (1, 1))
    for facts in (AVX512, AVX2):
        for c in candidates(w, float32, facts):
            assert (c.outputs + 1) * c.vectors + 1 <= facts.registers


def test_windows_too_large_to_write_out_are_left_to_others() -> None:
    w = Windows(1, 1, 1, 1, (20, 20), (8, 8), (13, 13), (1, 1), (0, 0), (1, 1))
    assert candidates(w, float32, AVX512) == []
