"""Convolutions that read windows in place: every config gives the reference's numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pyrite.kernel import verify
from pyrite.kernel.interpret import interpret
from pyrite.kernel.machine import Machine
from pyrite.kernel.template.direct_config import (
    DirectConfig,
    blocks,
    candidates,
    select,
    workgroups,
)
from pyrite.kernel.template.direct_convolution import direct_convolution
from pyrite.kernel.template.implicit_gemm import Windows, weight_map
from pyrite.kernel.template.packed_images import PackedImages
from pyrite.kernel.template.polyphase import joined, single
from pyrite.types import Array, DType, bfloat16, float32, float64, int32

AVX512, AVX2, SSE = Machine.cpu(64, 32), Machine.cpu(32, 16), Machine.cpu(16, 16)
PADDED = ((2, 3, 4, 1), (7, 9), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))


def run(layer: Any, layout: Callable[..., Any], config: DirectConfig) -> Array:
    p, dtype = single(layer.windows), layer.dtype
    config = config if config.room else with_room(config, p.windows)
    out = empty(layer.out, dtype)
    x, weight, to = (layout(a, dtype) for a in (layer.x, layer.weight, out))
    filters = weight_map(layer.windows, weight)
    kernel = verify(direct_convolution(p, x, filters, to, config))
    weights = layer.weight.ravel()
    interpret(kernel, workgroups(p, config), weights, layer.x.ravel(), out.reshape(-1))
    return out


def run_gradient(layer: Any, layout: Callable[..., Any], config: DirectConfig) -> Array:
    p, dtype = joined(layer.windows), layer.dtype
    config = config if config.room else with_room(config, p.windows)
    out = empty(layer.x, dtype)
    g, weight, to = (layout(a, dtype) for a in (layer.g, layer.weight, out))
    w = replace(p.windows, kernel_size=p.kernel_size)
    filters = weight_map(w, weight, is_transposed=True)
    kernel = verify(direct_convolution(p, g, filters, to, config))
    weights = layer.weight.ravel()
    interpret(kernel, workgroups(p, config), weights, layer.g.ravel(), out.reshape(-1))
    return out


def with_room(config: DirectConfig, w: Windows) -> DirectConfig:
    return replace(config, room=PackedImages(w, config.images, config.rows, config.width).room)


def empty(like: Array, dtype: DType) -> Array:
    return np.full(like.shape, np.nan if dtype.is_float else -1).astype(dtype.numpy)


def test_every_candidate_is_as_the_reference(
    layer: Any, layout: Callable[..., Any], quarter: Any
) -> None:
    p = single(layer.windows)
    found = set(candidates(p, float32, SSE))
    for config in {*quarter(found), select(p, float32, SSE)}:
        layer.check(run(layer, layout, config), layer.out)


def test_every_candidate_makes_the_gradient_of_x(
    layer: Any, layout: Callable[..., Any], quarter: Any
) -> None:
    for config in quarter({*candidates(joined(layer.windows), float32, SSE)}):
        layer.check(run_gradient(layer, layout, config), layer.x_gradient)


def test_edges_of_blocks_tiles_and_slabs_in_every_geometry(
    layer: Any, layout: Callable[..., Any]
) -> None:
    counts = layer.windows.counts[0], joined(layer.windows).windows.counts[0]
    some = DirectConfig(2, 3, 4, 2, 1, 0, images=2, rows=counts[0])
    layer.check(run(layer, layout, some), layer.out)
    some = replace(some, rows=counts[1])
    layer.check(run_gradient(layer, layout, some), layer.x_gradient)
    rows = DirectConfig(3, 2, 4, 3, 2, 0, images=1, rows=2)
    layer.check(run(layer, layout, rows), layer.out)
    layer.check(run_gradient(layer, layout, rows), layer.x_gradient)


@pytest.mark.parametrize("sizes", [(1, 1), (1, 7), (2, 6), (7, 5)], ids=str)
@pytest.mark.parametrize("stride", [(1, 2), (2, 2), (3, 1), (4, 3)], ids=str)
def test_rows_of_the_gradient_of_any_size_and_stride(
    layer_of: Callable[..., Any], layout: Callable[..., Any], sizes: Any, stride: Any
) -> None:
    made = layer_of(((2, 2, 2, 1), sizes, (2, 2), stride, ((1, 1), (1, 1)), (1, 1)), float32)
    config = select(joined(made.windows), float32, SSE)
    made.check(run_gradient(made, layout, config), made.x_gradient)


@pytest.mark.parametrize("dtype", [float64, bfloat16, int32], ids=lambda d: d.name)
def test_every_dtype_sums_in_its_accumulator(
    layer_of: Callable[..., Any], layout: Callable[..., Any], dtype: Any
) -> None:
    made = layer_of(PADDED, dtype)
    made.check(run(made, layout, select(single(made.windows), dtype, AVX2)), made.out)
    config = select(joined(made.windows), dtype, AVX2)
    made.check(run_gradient(made, layout, config), made.x_gradient)


def test_sums_of_every_shape_fit_in_registers() -> None:
    w = Windows(8, 1, 64, 64, (56, 56), (3, 3), (56, 56), (1, 1), (1, 1), (1, 1))
    for machine in (AVX512, AVX2):
        for c in candidates(single(w), float32, machine):
            assert (c.outputs + 1) * c.vectors + 1 <= machine.registers


def test_nothing_is_computed_behind_the_last_window() -> None:
    w = Windows(1, 1, 1, 1, (6, 6), (3, 3), (4, 4), (1, 1), (0, 0), (1, 1))
    packed = PackedImages(w, 1, 4, 4)
    assert (packed.image_size, packed.length) == (36, 3 * 6 + 4)
    assert blocks(packed, DirectConfig(1, 4, 4, 1, 1, packed.room, 1, 4)) == (1, 2)


@pytest.mark.parametrize(("padding", "shared"), [(0, 0), (1, 1), (2, 2), (3, 2)])
def test_rows_share_the_zeros_that_are_padding_to_both(padding: int, shared: int) -> None:
    counts = (4 + 2 * padding,) * 2
    w = Windows(1, 1, 1, 1, (6, 6), (3, 3), counts, (1, 1), (padding,) * 2, (1, 1))
    packed = PackedImages(w, 1, counts[0], 4)
    assert packed.pitches == (6 + 2 * padding, 6 + 2 * padding - shared)


def test_windows_too_large_to_write_out_are_left_to_others() -> None:
    def found(size: int, counts: int, stride: int) -> list[Any]:
        pair = (size, size), (counts, counts), (stride, stride), (0, 0), (1, 1)
        return candidates(single(Windows(1, 1, 1, 1, (24, 24), *pair)), float32, AVX512)

    assert found(9, 16, 1) == []
    assert found(8, 3, 8) == [], "windows that share nothing"
    assert found(8, 17, 1)
    assert found(7, 3, 7)
