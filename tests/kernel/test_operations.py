"""What a kernel is counted to compute."""

from __future__ import annotations

import pytest

from pyrite.kernel import KernelBuilder
from pyrite.kernel.operations import operations
from pyrite.types import DType, float32, float64, int32


def triangle(dtype: DType = float32) -> KernelBuilder:
    """Return a kernel whose rows add as many products as they have before them, two at a time."""
    b = KernelBuilder("triangle", workgroup_size=4)
    x, out = b.buffer("x", dtype, "read"), b.buffer("out", dtype, "write")
    n = b.scalar("n", int32)
    row = b.workgroup_id() * 4 + b.local_id()
    with b.if_(row < n):
        first = b.const(0.0, dtype)
        with b.for_(0, row // 2, carried=[first]) as rounds:
            pair = x.load(rounds.index * 2, width=2)
            square = pair * pair
            total = b.extract(square, 0) + b.extract(square, 1)
            rounds.yield_(rounds.carried[0] + total)
        out[row] = rounds.results[0]
    return b


def count(b: KernelBuilder, n: int, workgroup: int) -> float:
    return operations(b.build(), [None, None, n], (1000,), (workgroup,))


def test_loops_count_as_often_as_they_run_in_that_workgroup() -> None:
    # The middle invocation of workgroup 5 is 22: 11 rounds, of two products and two sums.
    assert count(triangle(), 1000, 5) == 11 * 4
    assert count(triangle(), 1000, 50) == 101 * 4


def test_what_a_test_keeps_out_counts_nothing() -> None:
    assert count(triangle(), 22, 5) == 0
    assert count(triangle(), 23, 5) == 11 * 4


def test_a_float64_counts_as_two() -> None:
    assert count(triangle(float64), 1000, 5) == 2 * 11 * 4


def test_a_counter_that_bounds_an_inner_loop_stands_for_its_mean() -> None:
    b = KernelBuilder("triangle")
    x = b.buffer("x", float32, "read_write")
    with b.for_(0, 101) as outer, b.for_(0, outer.index) as inner:
        x[inner.index] = b.fma(x[inner.index], 2.0, 1.0)
    assert operations(b.build(), [None], (1,), (0,)) == 2 * 101 * 50


def test_of_two_rounds_each_counts() -> None:
    b = KernelBuilder("blocks")
    x, n = b.buffer("x", float32, "read_write"), b.scalar("n", int32)
    with b.for_(0, n, step=256) as block, b.for_(0, b.min(n - block.index, 256)) as inner:
        x[inner.index] = x[inner.index] + 1.0
    kernel = b.build()
    assert [operations(kernel, [None, n], (1,), (0,)) for n in (0, 1, 257)] == [0, 1, 257]


def test_where_data_decides_the_longer_side_counts() -> None:
    b = KernelBuilder("choice")
    x = b.buffer("x", float32, "read_write")
    value = x[0]
    with b.if_(value > 0.0) as branch:
        branch.yield_(b.sqrt(value) / 3.0)
    with branch.else_():
        branch.yield_(value + 1.0)
    x[0] = branch.results[0]
    with b.while_([value]) as loop:
        loop.condition(loop.carried[0] < 9.0)
        loop.yield_(loop.carried[0] + 1.0)
    x[1] = loop.results[0]
    guessed = operations(b.build(), [None], (1,), (0,))
    assert guessed == pytest.approx(2 + 64)


def test_what_is_there_for_data_that_hardly_comes_does_not_count() -> None:
    b = KernelBuilder("mended")
    x, n = b.buffer("x", float32, "read_write"), b.scalar("n", int32)
    with b.if_(x[0] > 9.0, is_rare=True) as branch:
        branch.yield_(b.sqrt(x[1]) / 3.0)
    with branch.else_():
        branch.yield_(x[1] + 1.0)
    with b.if_(n > 0, is_rare=True):
        x[0] = branch.results[0] * 2.0 * 3.0
    kernel = b.build()
    # Where it is no matter of data it is known what runs.
    assert [operations(kernel, [None, n], (1,), (0,)) for n in (0, 1)] == [1, 3]


def test_numbers_that_may_not_be_divided_are_left_to_data() -> None:
    b = KernelBuilder("quotient")
    x, n = b.buffer("x", float32, "read_write"), b.scalar("n", int32)
    with b.for_(0, 100 // n) as loop:
        x[loop.index] = x[loop.index] + 1.0
    kernel = b.build()
    assert operations(kernel, [None, 4], (1,), (0,)) == 25
    assert operations(kernel, [None, 0], (1,), (0,)) == 64
