"""Memory: masked, gathered, scattered, atomic, and how it is addressed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pyrite.kernel.builder import KernelBuilder
from pyrite.kernel.ir import vector
from pyrite.kernel.target.llvm import LLVMTarget, to_llvm
from pyrite.testing.launch import launched
from pyrite.testing.operands import SIZE, values_of
from pyrite.testing.programs import masked_memory
from pyrite.types import DTYPES, DType, bool_, float32, int32, int64, uint8, uint32

if TYPE_CHECKING:
    from pyrite.runtime.cpu.runtime import CpuRuntime

Run = Callable[..., None]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_memory_is_masked_gathered_and_scattered(agree: Run, dtype: DType) -> None:
    program = masked_memory(values_of(dtype), dtype)

    agree(program.kernel, program.grid, *program.values)


@pytest.mark.parametrize("flag", [True, False])
def test_one_mask_for_a_whole_access(agree: Run, flag: bool) -> None:
    b = KernelBuilder("masked")
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    keep = b.scalar("keep", bool_)
    far = b.select(keep, b.const(0, int32), 1 << 30)
    y.store(0, x.load(far, width=8, mask=keep, other=-1.0))
    y[8] = x.load(far, mask=keep, other=-2.0)
    y.store(b.select(keep, b.const(16, int32), 1 << 30), x.load(8, width=4), mask=keep)
    y.store(b.splat(far, 4) + b.const([20, 21, 22, 23], vector(int32, 4)), x.load(0, width=4),
            mask=keep)  # fmt: skip

    agree(b.build(), [1], values_of(float32), np.zeros(SIZE, np.float32), flag)


def test_an_index_beyond_two_billion_is_not_negative(
    runtime: CpuRuntime, haswell: LLVMTarget
) -> None:
    b = KernelBuilder("far", index=uint32)
    x = b.buffer("x", uint8, "read_write")
    n = b.scalar("n", uint32)
    x[n] = x[n] + 1
    text = to_llvm(b.build(), haswell)

    assert "zext i32" in text
    assert re.search(r"getelementptr i8, ptr %v\d+, i64 %v\d+\n", text)


@pytest.mark.parametrize("index", [int32, uint32, int64], ids=lambda d: d.name)
def test_indices_that_wrap_around_on_their_way(agree: Run, index: DType) -> None:
    b = KernelBuilder("around", index=index)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    n = b.scalar("n", index)
    # n is the greatest of its dtype, and what is below wraps: to -2, or to just below 2 ** 32.
    below = n + n
    for i in range(2, 10):
        y[i] = x[below + i] + x[(i + n) + (n + 20)] + x[i + (below + (b.workgroup_id() + 30))]
    y.store(16, x.load(b.workgroup_id() + (below + 3), width=8))

    with np.errstate(over="ignore"):
        agree(b.build(), [1], values_of(float32), np.zeros(SIZE, np.float32), int(index.highest))


def test_the_constant_part_of_an_index_is_a_part_of_the_address(haswell: LLVMTarget) -> None:
    b = KernelBuilder("offsets")
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    row, column = b.workgroup_id() * 64, b.scalar("column", int32)
    y[row] = x[row + column] + x[row + (column + 8)] + x[(row + 16) + column]
    text = to_llvm(b.build(), haswell)

    assert re.findall(r"getelementptr float, ptr %v\d+, i64 (\d+)\n", text) == ["8", "16"]


@pytest.mark.parametrize("space", ["shared", "private"])
def test_memory_of_the_workgroup(agree: Run, space: str) -> None:
    b = KernelBuilder("scratch")
    x, y = b.buffer("x", int32, "read"), b.buffer("y", int32, "write")
    scratch = getattr(b, space)(int32, 16)
    with b.for_(0, 16) as loop:
        scratch[15 - loop.index] = x[loop.index]
    b.barrier()
    y.store(0, scratch.load(0, width=16, is_aligned=True))

    agree(b.build(), [1], values_of(int32), np.zeros(16, np.int32))


@pytest.mark.parametrize("dtype", [int32, uint32], ids=lambda d: d.name)
@pytest.mark.parametrize(
    "name", ["load", "store", "add", "min", "max", "and", "or", "xor", "exchange"]
)
def test_atomics_on_one_workgroup(agree: Run, name: str, dtype: DType) -> None:
    b = KernelBuilder("atomic")
    x, y = b.buffer("x", dtype, "atomic"), b.buffer("y", dtype, "write")
    keep = b.scalar("keep", bool_)
    v = b.const(5, dtype)
    y[0] = x.atomic(name, 2, v)
    y[1] = x.atomic(name, 3, v, mask=keep)
    y[2] = x.atomic(name, b.select(keep, b.const(0, int32), 1 << 30), v, mask=keep)

    for flag in (True, False):
        agree(b.build(), [1], values_of(dtype), np.zeros(3, dtype.numpy), flag)


@pytest.mark.parametrize("dtype", [int32, uint32], ids=lambda d: d.name)
@pytest.mark.parametrize(
    "name", ["load", "store", "add", "min", "max", "and", "or", "xor", "exchange", "exchange_equal"]
)
def test_atomics_on_memory_of_the_workgroup(agree: Run, name: str, dtype: DType) -> None:
    """They are plain there; many invocations change one element, with and without a mask."""
    size = 16
    b = KernelBuilder("atomic", workgroup_size=size)
    x, y = b.buffer("x", dtype, "read"), b.buffer("y", dtype, "write")
    lane, scratch = b.local_index(), b.shared(dtype, 8, access="atomic")
    with b.if_(lane < 8):
        scratch.atomic("store", lane, x[lane])
    b.barrier()
    expected = {"expected": x[lane % 8]} if name == "exchange_equal" else {}
    own = scratch.atomic(name, lane % 4, x[lane], mask=lane < 4, **expected)
    b.barrier()
    if name in ("add", "min", "max", "and", "or", "xor"):
        scratch.atomic(name, 4 + lane % 3, x[lane])
        scratch.atomic(name, 7, b.const(3, dtype))
    b.barrier()
    y[lane] = own
    y[size + lane] = scratch.atomic("load", lane % 8)

    x_values = np.resize(values_of(dtype), size)
    agree(b.build(), [1], x_values, np.zeros(2 * size, dtype.numpy))


def test_an_exchange_of_what_is_equal(agree: Run) -> None:
    b = KernelBuilder("exchange")
    x, y = b.buffer("x", int32, "atomic"), b.buffer("y", int32, "write")
    y[0] = x.atomic("exchange_equal", 0, 9, expected=1)
    y[1] = x.atomic("exchange_equal", 1, 9, expected=1)

    agree(b.build(), [1], np.array([1, 2], np.int32), np.zeros(2, np.int32))


def test_workgroups_add_to_one_number_without_losing_any(runtime: CpuRuntime) -> None:
    b = KernelBuilder("count")
    x = b.buffer("x", int32, "atomic")
    with b.for_(0, 1000):
        x.atomic("add", 0, 1)

    got = launched(runtime, b.build(), [500], [np.zeros(1, np.int32)])[0]

    assert got.tolist() == [500_000]


def test_a_prefetch_is_an_instruction_wherever_its_element_is(
    agree: Run, haswell: LLVMTarget
) -> None:
    b = KernelBuilder("fetched")
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    x.prefetch(1 << 30)
    x.prefetch(-5)
    y[0] = x[0]
    kernel = b.build()

    assert to_llvm(kernel, haswell).count("call void @llvm.prefetch.p0(") == 2
    agree(kernel, [1], values_of(float32), np.zeros(SIZE, np.float32))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_elements_a_few_places_apart_are_read_by_whole_vectors(
    agree: Run, haswell: LLVMTarget, dtype: DType
) -> None:
    steps = (1, 2, 3, 4, -1, -2, -3)
    b = KernelBuilder("apart")
    x, y, first = b.buffer("x", dtype, "read"), b.buffer("y", dtype, "write"), b.scalar("n", int32)
    for n, step in enumerate(steps):
        begin = first if step > 0 else first - step * 7
        lanes = [x.load(begin + i * step if i else begin) for i in range(8)]
        y.store(8 * n, b.make(lanes))
    kernel = b.build()
    text = to_llvm(kernel, haswell)

    vectors = sum(abs(step) for step in steps)
    assert len(re.findall(r"= load <8 x [a-z0-9]+>", text)) == vectors
    agree(kernel, [1], values_of(dtype), np.zeros(8 * len(steps), dtype.numpy), 3)


def test_vectors_end_with_the_last_of_elements_that_lie_apart(haswell: LLVMTarget) -> None:
    """What lies behind it may be no memory."""
    for step in (2, 3, 4):
        b = KernelBuilder("apart")
        x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
        n = b.scalar("n", int32)
        y.store(0, b.make([x.load(n + i * step if i else n) for i in range(8)]))
        text = to_llvm(b.build(), haswell)
        starts = re.findall(r"(%v\d+) = getelementptr float, ptr %v\d+, i64 (\d+)\n", text)
        read = {name for name in re.findall(r"load <8 x float>, ptr (%v\d+)", text)}

        assert max(int(at) for name, at in starts if name in read) + 7 == 7 * step


def test_elements_of_memory_that_is_written_are_read_one_by_one(
    agree: Run, haswell: LLVMTarget
) -> None:
    b = KernelBuilder("apart")
    x = b.buffer("x", float32, "read_write")
    lanes = [x.load(2 * i) for i in range(4)]
    x[2] = 7.0
    x.store(8, b.make(lanes))
    kernel = b.build()

    assert "load <4 x float>" not in to_llvm(kernel, haswell)
    agree(kernel, [1], values_of(float32))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
@pytest.mark.parametrize("count", [16, 13, 8, 3, 0])
def test_vectors_before_the_end_of_a_row_are_whole(
    agree: Run, haswell: LLVMTarget, dtype: DType, count: int
) -> None:
    b = KernelBuilder("row")
    x, y = b.buffer("x", dtype, "read"), b.buffer("y", dtype, "write")
    n = b.scalar("n", int32)
    with b.for_(0, 16, step=8) as loop:
        own = loop.index + b.const(range(8), vector(int32, 8)) < n
        other = 1 if dtype is not bool_ else True
        value = x.load(loop.index, width=8, mask=own, other=other)
        y.store(loop.index, value, mask=own)
        y.store(16 + loop.index, value)
    kernel = b.build()

    assert to_llvm(kernel, haswell).count("whole") > to_llvm(
        kernel, replace(haswell, vector_bytes=64)
    ).count("whole")
    agree(kernel, [1], values_of(dtype), np.zeros(32, dtype.numpy), count)
