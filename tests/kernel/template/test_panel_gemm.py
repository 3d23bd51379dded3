"""Panels of wide vectors: every config gives NumPy's numbers, with and without copies."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyrite.kernel.extent import pattern_of, with_extents
from pyrite.kernel.machine import Machine
from pyrite.kernel.target.llvm import lowered, to_llvm
from pyrite.kernel.template.panel_config import (
    PanelConfig,
    candidates,
    direct,
    select,
    streamed,
    workgroups,
)
from pyrite.kernel.template.panel_gemm import panel_gemm
from pyrite.runtime.cache import DiskCache
from pyrite.symbol import Symbols
from pyrite.types import bfloat16, float16, float64, int8, int32, uint8

Make = Callable[..., Any]
AVX512, AVX2, NEON = Machine.cpu(64, 32), Machine.cpu(32, 16), Machine.cpu(16, 32)


@pytest.mark.parametrize("packs_x", [False, True])
@pytest.mark.parametrize("packs_y", [False, True])
@pytest.mark.parametrize("turned", ["", "x", "y", "xy"])
@pytest.mark.parametrize("rows", [3, 5])
def test_edges_slabs_and_copies_in_every_combination(
    problem: Make, rows: int, packs_x: bool, packs_y: bool, turned: str
) -> None:
    made = problem(2, 21, 37, 23, turned)
    # Two tiles of rows and of columns, three slabs, and something left over of each; of 5 rows a
    # turn of the inner loop takes several steps.
    config = PanelConfig(rows, 2, 4, 4 * rows, 16, 8, packs_x, packs_y)
    made.check(made.run(panel_gemm(made.product, config), workgroups(made.product, config)))


@pytest.mark.parametrize("machine", [AVX512, AVX2, NEON], ids=["avx512", "avx2", "neon"])
def test_every_candidate_multiplies(problem: Make, machine: Machine, quarter: Any) -> None:
    made = problem(1, 17, 39, 10)
    for config in quarter({*candidates(made.product, machine)}):
        made.check(made.run(panel_gemm(made.product, config), workgroups(made.product, config)))


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_few_rows_stream_a_long_matrix(problem: Make, rows: int) -> None:
    made = problem(2, rows, 1031, 21)
    config = streamed(made.product, AVX2)
    assert config in candidates(made.product, AVX2)
    made.check(made.run(panel_gemm(made.product, config), workgroups(made.product, config)))
    long = problem(1, rows, 2048, 9).product
    assert select(long, AVX2) == streamed(long, AVX2)


@pytest.mark.parametrize(
    "size", [(1, 1, 1), (1, 50, 9), (50, 1, 9), (5, 7, 3), (64, 64, 64), (30, 65, 301)]
)
@pytest.mark.parametrize("turned", ["", "x", "y", "xy"])
@pytest.mark.parametrize("machine", [AVX512, AVX2], ids=["avx512", "avx2"])
def test_what_is_selected_multiplies_any_size(
    problem: Make, size: tuple[int, int, int], turned: str, machine: Machine
) -> None:
    made = problem(1, *size, turned)
    config = select(made.product, machine)
    assert config in candidates(made.product, machine)
    made.check(made.run(panel_gemm(made.product, config), workgroups(made.product, config)))


@pytest.mark.parametrize(
    "dtype", [float64, float16, bfloat16, int32, int8, uint8], ids=lambda d: d.name
)
def test_every_dtype_sums_in_its_accumulator_and_rounds_once(problem: Make, dtype: Any) -> None:
    made = problem(1, 20, 18, 301, dtype=dtype)
    config = select(made.product, AVX2)
    made.check(made.run(panel_gemm(made.product, config), workgroups(made.product, config)))


@pytest.mark.parametrize("turned", ["", "y"])
def test_the_direct_schedule_has_a_panel_for_each_invocation(problem: Make, turned: str) -> None:
    made = problem(3, 2, 33, 40, turned)
    config = direct(made.product)
    made.check(made.run(panel_gemm(made.product, config), workgroups(made.product, config)))


def test_a_grid_of_two_axes_may_be_larger_than_needed(problem: Make) -> None:
    made = problem(1, 21, 37, 9)
    config = PanelConfig(3, 2, 4, 3, 8, 8)
    count = workgroups(made.product, config)
    got = made.run(panel_gemm(made.product, config, grid=2), (8, -(-count // 8)))
    made.check(got)


def test_the_transposed_product_gives_the_same_numbers(problem: Make) -> None:
    made = problem(1, 33, 3, 10)
    product = made.product.transposed
    config = select(product, AVX2)
    kernel = panel_gemm(product, config)
    swapped = type(made)(product, made.y, made.x, made.want)
    swapped.check(swapped.run(kernel, workgroups(product, config)))


@pytest.mark.parametrize("turned", ["", "x", "y"])
@pytest.mark.parametrize("name", ["x86-64-v4", "x86-64-v3"])
def test_no_sum_waits_in_memory_inside_the_inner_loop(
    problem: Make, name: str, turned: str
) -> None:
    """Of any sizes: their strides are numbers that the kernel gets, and registers are few."""
    pytest.importorskip("llvmlite")
    from pyrite.runtime.cpu.host import host_target, is_arm, machine_of
    from pyrite.runtime.cpu.level import X86
    from pyrite.runtime.cpu.module import Compiler

    if is_arm(host_target().triple):
        pytest.skip("LLVM has the code of this machine's processor only")
    (target,) = (one.target("x86_64-unknown-linux-gnu") for one in X86 if one.name == name)
    product = problem(1, 512, 512, 300, turned).product
    given = product, select(product, machine_of(target, threads=2))
    symbols, (_, extents) = Symbols(), pattern_of(given)
    of, config = with_extents(given, iter([symbols.symbol(n) for n in extents]))
    kernel = lowered(panel_gemm(of, config), target)
    text = Compiler(target, DiskCache(None)).assembly(to_llvm(kernel, target))

    blocks = [block.splitlines() for block in re.split(r"^\.LBB\w+:", text, flags=re.MULTILINE)]
    inner = max(blocks, key=lambda block: sum("vfmadd" in line for line in block))
    assert sum("vfmadd" in line for line in inner) == 4 * config.rows * config.vectors
    assert not [line for line in inner if "vmov" in line and "rsp" in line]


@pytest.mark.parametrize(("terms", "lines"), [(32, 6 * 4), (300, 0)])
def test_lines_that_a_short_sum_writes_are_asked_for(problem: Make, terms: int, lines: int) -> None:
    product = problem(1, 64, 512, terms).product
    kernel = panel_gemm(product, select(product, AVX512))
    asked = [n for n in kernel.walk() if n.kind == "prefetch"]

    (out,) = {
        n.inputs[0] for n in kernel.walk() if n.kind == "store" and n.inputs[0].kind == "buffer"
    }
    assert {n.inputs[0] for n in asked} == ({out} if lines else set())
    blocks = [n for n in kernel.walk() if n.kind == "for" and n.regions[0].body]
    most = max(sum(m.kind == "prefetch" for m in n.regions[0].body) for n in blocks)
    assert most == lines


def test_registers_hold_the_sums_of_every_shape(problem: Make) -> None:
    product = problem(1, 512, 512, 8).product
    for machine in (AVX512, AVX2, NEON):
        for c in candidates(product, machine):
            row_of_y = c.vectors if c.rows > 1 else 1  # what is used once is read in passing
            assert c.rows * c.vectors + row_of_y + 1 <= machine.registers


@pytest.mark.parametrize("size", [64, 96])
def test_a_small_product_is_cut_into_about_equal_tiles(problem: Make, size: int) -> None:
    product, machine = problem(1, size, size, size).product, Machine.cpu(64, 32, threads=2)
    config = select(product, machine)
    assert -size % config.block_m < 2 * config.rows
    assert config.block_n == size
    assert workgroups(product, config) % machine.threads == 0


def test_a_turned_right_side_is_copied_and_a_dense_one_within_a_page_is_not(problem: Make) -> None:
    assert select(problem(1, 128, 128, 8, "y").product, AVX512).packs_y
    assert not select(problem(1, 128, 128, 8).product, AVX512).packs_y
    assert np.lcm(4, select(problem(1, 128, 128, 8).product, AVX2).width) == 8


def test_what_many_share_is_copied_where_it_lies_apart(problem: Make) -> None:
    # A gradient of weights: x turned, of more columns than a panel has; and a product of rows.
    weights, rows = problem(1, 256, 256, 32, "x").product, problem(1, 64, 256, 32).product
    assert [select(weights, m).packs_x for m in (AVX2, AVX512)] == [True, True]
    assert [select(weights, m).packs_y for m in (AVX2, AVX512)] == [True, False]
    assert not select(rows, AVX2).packs_x
    assert [select(rows, m).packs_y for m in (AVX2, AVX512)] == [True, False]
    assert select(problem(1, 64, 2048, 32).product, AVX512).packs_y
    assert not select(problem(1, 64, 128, 32).product, AVX2).packs_y
    assert not select(problem(1, 128, 256, 32, "x").product, AVX2).packs_x
