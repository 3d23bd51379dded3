"""Memory: masked, gathered, by vectors and by elements, shared, private and atomic."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pyrite.kernel.builder import KernelBuilder
from pyrite.kernel.ir import vector
from pyrite.kernel.target.wgsl import to_wgsl
from pyrite.testing.launch import launched
from pyrite.testing.operands import SIZE, normal_values_of
from pyrite.testing.programs import masked_memory
from pyrite.types import DType, float32, int32, uint32

if TYPE_CHECKING:
    from pyrite.runtime.wgpu import WgpuRuntime

WORDS = (int32, uint32, float32)

Run = Callable[..., None]


@pytest.mark.parametrize("dtype", WORDS, ids=lambda d: d.name)
@pytest.mark.parametrize("is_aligned", [True, False])
def test_memory_is_masked_gathered_and_scattered(
    agree: Run, dtype: DType, is_aligned: bool
) -> None:
    program = masked_memory(normal_values_of(dtype), dtype, int32, is_aligned=is_aligned)

    agree(program.kernel, program.grid, *program.values)


@pytest.mark.parametrize("width", [2, 4, 8])
def test_aligned_vectors_of_memory_are_masked_in_whole_and_in_part(agree: Run, width: int) -> None:
    b = KernelBuilder("vectors")
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "read_write")
    n = b.scalar("n", int32)
    lanes = b.const(list(range(width)), vector(int32, width))
    whole = x.load(width, width=width, mask=n > 3, other=-1.0, is_aligned=True)
    part = x.load(0, width=width, mask=lanes < b.splat(n, width), other=-2.0, is_aligned=True)
    y.store(0, whole, is_aligned=True)
    y.store(width, part, is_aligned=True)
    y.store(2 * width, part * 2.0, mask=lanes < b.splat(n, width), is_aligned=True)
    y.store(3 * width, whole, mask=n > 3, is_aligned=True)
    text = to_wgsl(b.build())

    assert f"array<vec{min(width, 4)}<f32>>" in text
    for count in (0, 1, 3, 4):
        agree(b.build(), [1], normal_values_of(float32), np.ones(SIZE, np.float32), count)


@pytest.mark.parametrize("place", [-1, -3, -4])
def test_a_masked_place_before_the_first_is_one_that_wgsl_allows(agree: Run, place: int) -> None:
    b = KernelBuilder("before")
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "read_write")
    n, lanes = b.scalar("n", int32), b.const(list(range(4)), vector(int32, 4))
    y.store(0, x.load(place, mask=n > 3, other=-1.0))
    y.store(4, x.load(place, width=4, mask=lanes > b.splat(n, 4), other=-2.0))
    y.store(place, 3.0, mask=n > 3)

    agree(b.build(), [1], normal_values_of(float32), np.ones(SIZE, np.float32), 3)


def test_one_element_of_a_memory_of_vectors(agree: Run) -> None:
    b = KernelBuilder("element", workgroup_size=4)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    scratch = b.shared(float32, 16)
    i = b.local_index()
    scratch[i + 1] = x[i]
    b.barrier()
    v = x.load(i * 4, width=4, is_aligned=True)
    y.store(i * 2, x.load(b.make([i, i * 3])) * v[0])
    y[i + 8] = scratch[(i + 1) % 4 + 1]
    text = to_wgsl(b.build())

    assert "var<storage, read> x_0: array<vec4<f32>>;" in text
    assert "var<storage, read_write> y_1: array<f32>;" in text
    agree(b.build(), [1], normal_values_of(float32), np.zeros(SIZE, np.float32))


def test_shared_memory_is_written_by_element_and_read_by_vector(agree: Run) -> None:
    b = KernelBuilder("transpose", workgroup_size=16)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    scratch = b.shared(float32, 16)
    i = b.local_index()
    scratch[(i % 4) * 4 + i // 4] = x[i]
    b.barrier()
    with b.if_(i < 4):
        y.store(i * 4, scratch.load(i * 4, width=4, is_aligned=True), is_aligned=True)
    text = to_wgsl(b.build())

    assert "var<workgroup> shared_2: array<vec4<f32>, 4>;" in text
    agree(b.build(), [1], normal_values_of(float32), np.zeros(16, np.float32))


def test_private_memory_is_the_invocations_own(agree: Run) -> None:
    b = KernelBuilder("private", workgroup_size=4)
    x, y = b.buffer("x", int32, "read"), b.buffer("y", int32, "write")
    scratch = b.private(int32, 16)
    i = b.local_index()
    with b.for_(0, 16) as loop:
        scratch[15 - loop.index] = x[loop.index] * (i + 1)
    y.store(i * 16, scratch.load(0, width=16, is_aligned=True))

    agree(b.build(), [1], normal_values_of(int32), np.zeros(SIZE, np.int32))


@pytest.mark.parametrize("dtype", [int32, uint32], ids=lambda d: d.name)
def test_atomics_of_one_invocation(agree: Run, dtype: DType) -> None:
    names = ("load", "store", "add", "min", "max", "and", "or", "xor", "exchange")
    b = KernelBuilder("atomic")
    x, y = b.buffer("x", dtype, "atomic"), b.buffer("y", dtype, "write")
    keep = b.scalar("keep", int32) != 0
    v = b.const(5, dtype)
    for i, name in enumerate(names):
        y[3 * i] = x.atomic(name, 2 * i, v)
        y[3 * i + 1] = x.atomic(name, 2 * i + 1, v, mask=keep)
        y[3 * i + 2] = x.atomic(name, b.select(keep, b.const(40, int32), 1 << 28), v, mask=keep)
    y[30] = x.atomic("exchange_equal", 50, 9, expected=1)
    y[31] = x.atomic("exchange_equal", 51, 9, expected=1)
    values = normal_values_of(dtype)
    values[50:52] = [1, 2]

    for flag in (1, 0):
        agree(b.build(), [1], values, np.zeros(32, dtype.numpy), flag)


def test_invocations_add_to_one_number_without_losing_any(runtime: WgpuRuntime) -> None:
    b = KernelBuilder("count", workgroup_size=64)
    x = b.buffer("x", int32, "atomic")
    shared = b.shared(int32, 1, access="atomic")
    with b.if_(b.local_index() == 0):
        shared.atomic("store", 0, 0)
    b.barrier()
    with b.for_(0, 10):
        shared.atomic("add", 0, 1)
    b.barrier()
    with b.if_(b.local_index() == 0):
        x.atomic("add", 0, shared.atomic("load", 0, 0))

    assert launched(runtime, b.build(), [50], [np.zeros(1, np.int32)])[0].tolist() == [32_000]


@pytest.mark.parametrize("step", [8, 12, 132])
def test_places_in_a_memory_of_vectors_are_told_from_their_indices(agree: Run, step: int) -> None:
    b = KernelBuilder("turn", workgroup_size=8)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    shared = b.shared(float32, 8 * step + 8)
    i = b.local_id()
    loaded = x.load(i * 4, width=4, is_aligned=True)
    for element in range(4):
        shared.store(i + element * step, loaded[element])
    b.barrier()
    with b.for_(0, 4) as loop:
        place = loop.index * step + b.min(i // 4 * 4, 4)
        row = shared.load(place, width=4, is_aligned=True)
        y.store((loop.index * 8 + i) * 4, row + shared[place + 3], is_aligned=True)
        loop.yield_()
    text = to_wgsl(b.build())

    assert "array<vec4<f32>" in text
    agree(b.build(), (1,), np.arange(32, dtype=np.float32), np.zeros(128, np.float32))
