"""Kernels that every target runs as the interpreter does: control, memory, constants, builtins.

Unlike those of `kernels` they compute nothing in particular; what they should give is what
`interpret` gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from pyrite.kernel import Kernel, KernelBuilder
from pyrite.kernel.ir import vector
from pyrite.testing.operands import SIZE, normal_values_of
from pyrite.types import Array, DType, Number, bool_, float32, int32, uint32


@dataclass(frozen=True, slots=True)
class LaunchCase:
    """A kernel and a launch of it: a grid, and a value for each parameter."""

    name: str
    kernel: Kernel
    grid: tuple[int, ...]
    values: tuple[Array | Number, ...]


def programs(workgroup_size: int, indices: Sequence[DType]) -> list[LaunchCase]:
    """Return all of what follows but `masked_memory`, with indices of these dtypes.

    A workgroup has one invocation, or where it matters ``workgroup_size``, which divides 40.
    """
    loops = product([(0, 7), (3, 3), (5, 2), (-3, 4)], [False, True])
    errors = ([1, 5, 2, 3, 4, 0, 0, 0], [-1, 5, 0, 0, 0, 0, 0, 0], [0] * 8, [0] * 7 + [101])
    return [
        vectors_of_constants(),
        *(counted_loop(bounds, unroll) for bounds, unroll in loops),
        swap(),
        collatz(workgroup_size),
        nested(workgroup_size),
        *(builtins(workgroup_size, index) for index in indices),
        *(error_codes(values) for values in errors),
    ]


def vectors_of_constants() -> LaunchCase:
    """Selects between vectors and constants, a splat of an argument, a vector made of numbers."""
    b = KernelBuilder("vectors_of_constants")
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    n = b.scalar("n", float32)
    v = x.load(0, width=4)
    c = b.const([1.0, -0.0, float("inf"), float("nan")], vector(float32, 4))
    y.store(0, b.select(v > 0.0, v, c))
    y.store(4, b.select(n > 0.0, c, v))
    y.store(8, b.splat(n, 4) * v)
    y.store(12, b.make([v[3], v[0], n, b.const(0.1, float32)]))
    return _program(b, [1], normal_values_of(float32), np.zeros(16, np.float32), 2.5)


def counted_loop(bounds: tuple[int, int], unroll: bool) -> LaunchCase:
    """A loop that carries an integer and a vector, also over no round."""
    b = KernelBuilder("counted_loop")
    y = b.buffer("y", int32, "write")
    one, two = b.const(1, int32), b.const(2.0, vector(float32, 8))
    with b.for_(*bounds, step=2, carried=[one, two], unroll=unroll) as loop:
        x, z = loop.carried
        loop.yield_(x * 3 + loop.index, z * 1.5)
    y[0] = loop.results[0]
    y[1] = b.cast(loop.results[1], int32)[5]
    return _program(b, [1], np.zeros(2, np.int32))


def swap() -> LaunchCase:
    """A loop whose carried values change places."""
    b = KernelBuilder("swap")
    y = b.buffer("y", int32, "write")
    first = [b.const(1, int32), b.const(2, int32), b.const([3, 4], vector(int32, 2))]
    with b.for_(0, 5, carried=first) as loop:
        x, z, pair = loop.carried
        loop.yield_(z, x, b.make([pair[1], x]))
    y[0], y[1] = loop.results[:2]
    y.store(2, loop.results[2])
    return _program(b, [1], np.zeros(4, np.int32))


def collatz(workgroup_size: int) -> LaunchCase:
    """A while that runs its condition first, and ends after another number of rounds for each."""
    b = KernelBuilder("collatz", workgroup_size=workgroup_size)
    x, y = b.buffer("x", int32, "read"), b.buffer("y", int32, "write")
    i = b.global_id()
    with b.while_([x[i], b.const(0, int32)]) as loop:
        n, _ = loop.carried
        loop.condition(n > 1)
        n, steps = loop.carried
        loop.yield_(b.select(n % 2 == 0, n // 2, n * 3 + 1), steps + 1)
    y[i] = loop.results[1]
    grid = [40 // workgroup_size]
    return _program(b, grid, np.arange(40, dtype=np.int32), np.zeros(40, np.int32))


def nested(workgroup_size: int) -> LaunchCase:
    """Branches inside loops inside branches."""
    b = KernelBuilder("nested", workgroup_size=workgroup_size)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "read_write")
    i = b.global_id()
    with b.if_(i % 3 == 0) as outer:
        with b.for_(0, i, carried=[b.const(0.0, float32)]) as loop:
            v = x[loop.index]
            with b.if_(v > 0.0) as inner:
                inner.yield_(loop.carried[0] + v)
            with inner.else_():
                inner.yield_(loop.carried[0])
            loop.yield_(inner.results[0])
        outer.yield_(loop.results[0])
    with outer.else_():
        outer.yield_(-1.0)
    y[i] = outer.results[0]
    with b.if_(i == 5):
        y[i] = 99.0
    return _program(b, [40 // workgroup_size], normal_values_of(float32), np.zeros(40, np.float32))


def builtins(workgroup_size: int, index: DType) -> LaunchCase:
    """Where an invocation is, on a grid and in workgroups of three axes."""
    sizes = (1, 1, 1) if workgroup_size == 1 else (workgroup_size // 2, 2, 2)
    count = sizes[0] * sizes[1] * sizes[2]
    b = KernelBuilder(f"builtins_{index.name}", workgroup_size=sizes, grid=3, index=index)
    y = b.buffer("y", index, "write")
    ids = [b.workgroup_id(axis) for axis in range(3)]
    counts = [b.num_workgroups(axis) for axis in range(3)]
    at = ((ids[2] * counts[1] + ids[1]) * counts[0] + ids[0]) * count + b.local_index()
    place = b.local_id(0) + b.local_id(1) * 10 + b.local_id(2) * 100
    y[at] = ids[0] + ids[1] * 100 + ids[2] * 10000 + counts[2] + place * 1000000
    return _program(b, [5, 3, 2], np.zeros(30 * count, index.numpy))


def error_codes(values: Sequence[int]) -> LaunchCase:
    """Several errors, of which the largest code stays."""
    b = KernelBuilder("error_codes")
    word, x = b.buffer("word", uint32, "atomic"), b.buffer("x", int32, "read")
    v = x.load(0, width=8)
    b.error(word, v < 0, 3)
    b.error(word, v > 100, 7)
    b.error(word, x[1] == 5, 5)
    return _program(b, [1], np.zeros(1, np.uint32), np.array(values, np.int32))


def masked_memory(
    x: Array, dtype: DType, mask_dtype: DType = bool_, *, is_aligned: bool = False
) -> LaunchCase:
    """Vectors of x gathered, scattered and masked; what is masked stands outside of the buffers."""
    b = KernelBuilder("masked_memory")
    source, at = b.buffer("x", dtype, "read"), b.buffer("at", int32, "read")
    keep = b.buffer("keep", mask_dtype, "read")
    y = b.buffer("y", dtype, "write")
    other = True if dtype.is_bool else 7
    places, kept = at.load(0, width=8), keep.load(0, width=8)
    mask = kept if mask_dtype.is_bool else kept != 0
    start = source.load(0, width=8, is_aligned=is_aligned)
    end = source.load(8, width=8, is_aligned=is_aligned)
    y.store(0, source.load(places))
    y.store(8, source.load(b.select(mask, places, 1 << 28), mask=mask, other=other))
    y.store(16, source.load(8, width=8, mask=mask, other=other, is_aligned=is_aligned))
    y.store(places + 24, start)
    y.store(b.select(mask, places + 40, 1 << 28), end, mask=mask)
    y.store(56, start, mask=mask, is_aligned=is_aligned)
    order = np.random.default_rng(0).permutation(16).astype(np.int32)
    kept_values = (np.arange(8) % 3 == 0).astype(mask_dtype.numpy)
    return _program(b, [1], x, order, kept_values, np.zeros(SIZE, dtype.numpy))


def _program(b: KernelBuilder, grid: Sequence[int], *values: Array | Number) -> LaunchCase:
    kernel = b.build()
    return LaunchCase(kernel.name, kernel, tuple(grid), values)
