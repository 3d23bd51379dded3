"""Tiles in shared memory: every config gives NumPy's numbers, no barrier is missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pyrite.kernel import KernelBuilder, Value, verify
from pyrite.kernel.interpret import interpret
from pyrite.kernel.machine import Machine
from pyrite.kernel.template import split_k
from pyrite.kernel.template.operand import Digit, OperandMap
from pyrite.kernel.template.product import BEHIND, At, Product
from pyrite.kernel.template.tiled_config import CONFIGS, TiledConfig, select, workgroups
from pyrite.kernel.template.tiled_gemm import tiled_gemm
from pyrite.types import bfloat16, float16, float32, float64, int8, int32, uint8

Make = Callable[..., Any]


def name_of(config: TiledConfig) -> str:
    return f"{config.block_m}x{config.block_n}x{config.block_k}-{config.stages}-{config.pad}"


@pytest.mark.parametrize("config", CONFIGS, ids=name_of)
@pytest.mark.parametrize("turned", ["", "x", "y", "xy"])
def test_every_config_multiplies_sizes_that_do_not_divide(
    problem: Make, config: TiledConfig, turned: str
) -> None:
    made = problem(2, 37, 45, 35, turned)
    kernel = tiled_gemm(made.product, config)
    made.check(made.run(kernel, workgroups(made.product, config)))


@pytest.mark.parametrize("config", CONFIGS, ids=name_of)
@pytest.mark.parametrize("turned", ["", "x", "y", "xy"])
def test_every_config_reads_vectors_of_narrow_dtypes(
    problem: Make, config: TiledConfig, turned: str
) -> None:
    dtypes = (int8, float16, float32, bfloat16, uint8)
    dtype = dtypes[(CONFIGS.index(config) + len(turned)) % len(dtypes)]
    made = problem(2, 44, 36, 68, turned, dtype)
    kernel = tiled_gemm(made.product, config)
    made.check(made.run(kernel, workgroups(made.product, config)))


@pytest.mark.parametrize("config", CONFIGS, ids=name_of)
@pytest.mark.parametrize("size", [(70, 45, 20), (45, 70, 20)])
def test_every_config_leaves_out_what_is_behind_a_diagonal(
    problem: Make, config: TiledConfig, size: tuple[int, int, int]
) -> None:
    made = problem(2, *size)
    made.x[...] = np.tril(made.x)
    made.want[...] = made.x.astype(np.float64) @ made.y
    # What stands a tile and a step behind it is not read.
    rows, columns = np.indices(made.x.shape[-2:])
    made.x[:, columns > rows + config.block_m + config.block_k] = np.nan
    product = replace(made.product, is_lower=True)
    assert config.block_m + config.block_k <= BEHIND
    made.check(made.run(tiled_gemm(product, config), workgroups(product, config)))


@pytest.mark.parametrize("config", CONFIGS, ids=name_of)
def test_every_config_reads_every_second_element(problem: Make, config: TiledConfig) -> None:
    made = problem(2, 36, 44, 20)
    product = Product(apart(made.product.x), apart(made.product.y), made.product.out)
    x, y = (np.stack([a.ravel(), np.full(a.size, np.nan, a.dtype)], 1) for a in (made.x, made.y))
    got = np.full(made.want.size, np.nan, np.float32)
    kernel = verify(tiled_gemm(product, config))
    interpret(kernel, workgroups(product, config), x.ravel(), y.ravel(), got)
    made.check(got.reshape(made.want.shape))


def apart(of: OperandMap) -> OperandMap:
    """Return where the elements lie with another behind each."""

    def digits(axis: tuple[Digit, ...]) -> tuple[Digit, ...]:
        return tuple(Digit(d.size, 2 * d.stride) for d in axis)

    return replace(of, batch=digits(of.batch), rows=digits(of.rows), columns=digits(of.columns))


@pytest.mark.parametrize("size", [(1, 1, 1), (5, 7, 3), (64, 64, 16), (130, 129, 33), (20, 24, 36)])
def test_what_is_selected_multiplies_any_size(problem: Make, size: tuple[int, int, int]) -> None:
    made = problem(1, *size)
    config = select(made.product, Machine.gpu(workgroups=64))
    made.check(made.run(tiled_gemm(made.product, config), workgroups(made.product, config)))


@pytest.mark.parametrize(
    "dtype", [float64, float16, bfloat16, int32, int8, uint8], ids=lambda d: d.name
)
def test_every_dtype_sums_in_its_accumulator_and_rounds_once(problem: Make, dtype: Any) -> None:
    made = problem(1, 20, 18, 33, dtype=dtype)
    config = TiledConfig(16, 16, 16, 4, 4)
    made.check(made.run(tiled_gemm(made.product, config), workgroups(made.product, config)))


def test_a_batch_may_share_an_operand(problem: Make) -> None:
    made = problem(3, 9, 10, 11, shared="y")
    config = TiledConfig(16, 16, 16, 4, 4)
    made.check(made.run(tiled_gemm(made.product, config), workgroups(made.product, config)))


@pytest.mark.parametrize("grid", [1, 2])
def test_split_sums_are_added_by_a_second_kernel(problem: Make, grid: int) -> None:
    made = problem(2, 18, 21, 150)
    product: Product = made.product
    config = TiledConfig(16, 16, 16, 4, 4, split_k=4)
    count = workgroups(product, config)
    sums = np.full(4 * made.want.size, np.nan, np.float32)
    shape = (count,) if grid == 1 else (7, -(-count // 7))
    kernel = verify(tiled_gemm(product, config, grid=grid))
    interpret(kernel, shape, made.x.ravel(), made.y.ravel(), sums)
    out = np.full(made.want.size, np.nan, np.float32)
    interpret(
        verify(split_k.split_k(product, config.split_k)), split_k.workgroups(product), sums, out
    )
    made.check(out.reshape(made.want.shape))


def test_an_epilogue_gets_each_sum_with_its_place(problem: Make) -> None:
    made = problem(1, 18, 22, 9)

    def bias_of(b: KernelBuilder) -> Any:
        bias = b.buffer("bias", float32, "read")

        def apply(value: Value, at: At) -> list[Value]:
            lanes = at.column + b.const((0, 1, 2, 3), b.index_type.with_width(4))
            return [value + bias.load(lanes, mask=lanes < 22)]

        return apply

    bias = np.arange(22, dtype=np.float32)
    config = TiledConfig(16, 16, 16, 4, 4)
    kernel = tiled_gemm(made.product, config, epilogue=bias_of)
    got = made.run(kernel, workgroups(made.product, config), bias)
    np.testing.assert_allclose(got, made.want + bias, rtol=1e-4, atol=1e-4)


def test_an_offset_is_an_argument(problem: Make) -> None:
    made = problem(1, 5, 6, 7)
    x, y, out = made.product.x, made.product.y, made.product.out
    moved = type(x)(x.dtype, x.batch, x.rows, x.columns, x.windows, 1)
    config = TiledConfig(16, 16, 16, 4, 4)
    kernel = verify(tiled_gemm(Product(moved, y, out), config))
    buffer = np.concatenate([np.full(3, np.nan, np.float32), made.x.ravel()])
    got = np.full(30, np.nan, np.float32)
    interpret(kernel, 1, buffer, 3, made.y.ravel(), got)
    made.check(got.reshape(made.want.shape))
