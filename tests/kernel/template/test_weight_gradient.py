"""The gradient of a weight, along positions and along outputs: every config is the reference's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from pyrite.kernel import verify
from pyrite.kernel.interpret import interpret
from pyrite.kernel.machine import Machine
from pyrite.kernel.template import outer_config, weight_gradient
from pyrite.kernel.template.gradient_blocks import workgroups
from pyrite.kernel.template.implicit_gemm import Windows
from pyrite.kernel.template.operand import accumulator_of
from pyrite.kernel.template.outer_config import OuterConfig
from pyrite.kernel.template.outer_products import outer_products
from pyrite.kernel.template.weight_gradient import WeightGradientConfig
from pyrite.types import Array, bfloat16, float32, float64, int32

AVX512, AVX2, SSE = Machine.cpu(64, 32), Machine.cpu(32, 16), Machine.cpu(16, 16)
PADDED = ((2, 3, 4, 1), (7, 9), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))


@dataclass(frozen=True)
class Template:
    """One of the two: its kernel, the module of its configs, and a config full of edges."""

    name: str
    kernel: Callable[..., Any]
    configs: Any
    edges: Callable[[int], Any]
    #: The rows of outputs of a second one, which has blocks of several images.
    block_o: int
    #: How many vectors its sums and operands take at once.
    registers: Callable[[Any], int]


TEMPLATES = [
    Template(
        "along positions",
        weight_gradient.weight_gradient,
        weight_gradient,
        lambda taps: WeightGradientConfig(2, 1, taps, 4, 2, 1, 0, images=1, rows=2, parts=3),
        4,
        lambda c: c.outputs * c.channels * c.taps + c.outputs + 1,
    ),
    Template(
        "along outputs",
        outer_products,
        outer_config,
        lambda taps: OuterConfig(1, 1, taps, 4, 4, 1, 0, 0, images=1, rows=2, parts=3),
        8,
        lambda c: len(c.lanes) * (c.channels * c.taps + 1) + 1,
    ),
]


@pytest.fixture(params=TEMPLATES, ids=lambda t: t.name)
def template(request: pytest.FixtureRequest) -> Template:
    found: Template = request.param
    return found


def run(template: Template, layer: Any, layout: Callable[..., Any], config: Any) -> Array:
    """Return the sum of the parts that a config makes."""
    w, dtype = layer.windows, layer.dtype
    to = accumulator_of(dtype) if config.parts > 1 else dtype
    lx, lg = layout(layer.x, dtype), layout(layer.g, dtype)
    out = np.zeros((config.parts, *layer.weight.shape), to.numpy)
    out[...] = np.nan if dtype.is_float else -1
    kernel = verify(template.kernel(w, lx, lg, dtype, config))
    count = workgroups(w, config)
    interpret(kernel, count, layer.x.ravel(), layer.g.ravel(), out.reshape(-1))
    total: Array = out.sum(0)
    return total


def test_every_candidate_is_as_the_reference(
    template: Template, layer: Any, layout: Callable[..., Any], quarter: Any
) -> None:
    found = set(template.configs.candidates(layer.windows, float32, SSE))
    for config in {*quarter(found), template.configs.select(layer.windows, float32, SSE)}:
        layer.check(run(template, layer, layout, config), layer.weight_gradient)


def test_edges_of_blocks_tiles_and_parts_in_every_geometry(
    template: Template, layer: Any, layout: Callable[..., Any]
) -> None:
    config, with_room = template.edges(layer.windows.kernel_size[-1]), template.configs.with_room
    config = with_room(config, layer.windows)
    layer.check(run(template, layer, layout, config), layer.weight_gradient)
    rows = layer.windows.counts[0]
    several = replace(config, block_o=template.block_o, block_c=3, images=2, rows=rows, parts=1)
    several = with_room(several, layer.windows)
    layer.check(run(template, layer, layout, several), layer.weight_gradient)


@pytest.mark.parametrize("dtype", [float64, bfloat16, int32], ids=lambda d: d.name)
@pytest.mark.parametrize("parts", [1, 2])
def test_every_dtype_sums_in_its_accumulator(
    template: Template,
    layer_of: Callable[..., Any],
    layout: Callable[..., Any],
    dtype: Any,
    parts: int,
) -> None:
    made = layer_of(PADDED, dtype)
    config = replace(template.configs.select(made.windows, dtype, AVX2), parts=parts)
    made.check(run(template, made, layout, config), made.weight_gradient)


@pytest.mark.parametrize(("dtype", "outputs"), [(float32, 20), (float64, 12), (bfloat16, 40)],
                         ids=lambda v: getattr(v, "name", v))  # fmt: skip
@pytest.mark.parametrize("panels", [1, 2])
def test_what_outputs_have_over_may_be_half_a_vector(
    layer_of: Callable[..., Any], layout: Callable[..., Any], dtype: Any, outputs: int, panels: int
) -> None:
    made = layer_of(((2, 3, outputs, 1), *PADDED[1:]), dtype)
    found = outer_config.candidates(made.windows, dtype, AVX512)
    halves = [c for c in found if c.has_half]
    assert {c.vectors for c in halves} == {outputs * accumulator_of(dtype).itemsize // 64}
    for config in (halves[0], halves[-1]):
        config = outer_config.with_room(
            replace(config, block_o=panels * config.panel), made.windows
        )
        got = run(TEMPLATES[1], made, layout, config)
        made.check(got, made.weight_gradient)


def test_infinite_elements_stay_with_the_taps_that_meet_them(
    template: Template, layer_of: Callable[..., Any], layout: Callable[..., Any]
) -> None:
    made = layer_of(PADDED, float32)
    made.x[0, 0, 0, 0] = np.inf  # the last column of the window never meets the first of x
    got = run(template, made, layout, template.configs.select(made.windows, float32, AVX512))
    assert np.isinf(got[:, 0, :2, :2]).all()
    assert np.isfinite(got[:, 0, 2]).all()
    assert np.isfinite(got[:, 0, :, 2]).all()


@pytest.mark.parametrize("outputs", [64, 24])
def test_sums_of_every_shape_fit_in_registers(template: Template, outputs: int) -> None:
    w = Windows(8, 1, 64, outputs, (56, 56), (3, 3), (56, 56), (1, 1), (1, 1), (1, 1))
    for machine in (AVX512, AVX2):
        for c in template.configs.candidates(w, float32, machine):
            assert template.registers(c) <= machine.registers


def test_a_long_batch_is_cut_until_every_thread_has_work() -> None:
    w = Windows(64, 1, 1, 8, (28, 28), (3, 3), (28, 28), (1, 1), (1, 1), (1, 1))
    machine = Machine.cpu(64, 32, threads=4)
    assert workgroups(w, weight_gradient.select(w, float32, machine)) >= machine.threads
