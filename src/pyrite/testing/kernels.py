"""Hand-written kernels with what they should compute, for the tests of every target.

Each covers what compilers get wrong: tails, masks, barriers, atomics, nested control, vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pyrite.kernel import Kernel, KernelBuilder
from pyrite.kernel.interpret import interpret
from pyrite.kernel.ir import vector
from pyrite.kernel.polyfill import exp
from pyrite.types import Array, Number, float32, int32, uint32


@dataclass(frozen=True, slots=True)
class KernelExample:
    """A kernel, a launch of it, and the arrays that its buffers should hold afterwards.

    ``values`` are its parameters in order; ``expected`` the same after the launch.
    """

    kernel: Kernel
    workgroups: tuple[int, ...]
    values: Sequence[Array | Number]
    expected: Sequence[Array | Number]

    def fresh(self) -> list[Array | Number]:
        """Return the values, arrays copied, for one launch."""
        return [v.copy() if isinstance(v, np.ndarray) else v for v in self.values]

    def check(self, kernel: Kernel, relative: float = 1e-6) -> None:
        """Interpret a kernel made from this one; AssertionError if it computes anything else."""
        found = self.fresh()
        interpret(kernel, self.workgroups, *found)
        for value, wanted in zip(found, self.expected, strict=True):
            np.testing.assert_allclose(value, wanted, rtol=relative, err_msg=str(kernel))


def elementwise_with_tail() -> KernelExample:
    """y = 2 x + 1, four elements an invocation, the last ones masked."""
    b = KernelBuilder("elementwise_with_tail", workgroup_size=32)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    n = b.scalar("n", int32)
    start = b.global_id() * 4
    lanes = b.splat(start, 4) + b.const((0, 1, 2, 3), vector(int32, 4))
    inside = lanes < n
    loaded = x.load(start, width=4, mask=inside, is_aligned=True)
    y.store(start, b.fma(loaded, b.const(2.0, loaded.type), b.const(1.0, loaded.type)),
            mask=inside, is_aligned=True)  # fmt: skip
    size = 301
    source = np.linspace(-3, 3, size, dtype=np.float32)
    zero = np.zeros(size, np.float32)
    return KernelExample(b.build(), (3,), [source, zero, size], [source, source * 2 + 1, size])


def transpose_in_tiles() -> KernelExample:
    """A 40 x 24 matrix transposed by 8 x 8 tiles of shared memory."""
    rows, columns, tile = 40, 24, 8
    b = KernelBuilder("transpose_in_tiles", workgroup_size=(tile, tile), grid=2)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    shared = b.shared(float32, tile * (tile + 1))
    i, j = b.local_id(0), b.local_id(1)
    column, row = b.workgroup_id(0) * tile, b.workgroup_id(1) * tile
    shared[j * (tile + 1) + i] = x[(row + j) * columns + column + i]
    b.barrier()
    y[(column + j) * rows + row + i] = shared[i * (tile + 1) + j]
    source = np.arange(rows * columns, dtype=np.float32)
    result = np.ascontiguousarray(source.reshape(rows, columns).T).ravel()
    workgroups = (columns // tile, rows // tile)
    return KernelExample(b.build(), workgroups, [source, 0 * source], [source, result])


def sum_by_tree() -> KernelExample:
    """The sums of 64 elements each, halving in shared memory with a barrier a step."""
    size, count = 64, 5
    b = KernelBuilder("sum_by_tree", workgroup_size=size)
    x, y = b.buffer("x", int32, "read"), b.buffer("y", int32, "write")
    shared = b.shared(int32, size)
    lane = b.local_index()
    shared[lane] = x[b.global_id()]
    b.barrier()
    with b.while_([b.const(size // 2, int32)]) as loop:
        loop.condition(loop.carried[0] > 0)
        (half,) = loop.carried
        with b.if_(lane < half):
            shared[lane] = shared[lane] + shared[lane + half]
        b.barrier()
        loop.yield_(half // 2)
    with b.if_(lane == 0):
        y[b.workgroup_id()] = shared[0]
    source = np.arange(size * count, dtype=np.int32) ** 2
    sums = source.reshape(count, size).sum(axis=1, dtype=np.int32)
    return KernelExample(b.build(), (count,), [source, 0 * sums], [source, sums])


def histogram() -> KernelExample:
    """How often each of 16 remainders occurs, by atomics in shared memory, then in the buffer."""
    bins, size = 16, 200
    b = KernelBuilder("histogram", workgroup_size=32)
    x, counts = b.buffer("x", uint32, "read"), b.buffer("counts", uint32, "atomic")
    n = b.scalar("n", int32)
    local = b.shared(uint32, bins, access="atomic")
    lane, i = b.local_index(), b.global_id()
    is_bin = lane < bins
    local.atomic("store", lane, 0, mask=is_bin)
    b.barrier()
    with b.if_(i < n):
        local.atomic("add", b.cast(x[i] % bins, int32), 1)
    b.barrier()
    with b.if_(is_bin):
        counts.atomic("add", lane, local.atomic("load", lane))
    source = (np.arange(size, dtype=np.uint32) * 7919) % 1000
    found = np.bincount(source % bins, minlength=bins).astype(np.uint32)
    return KernelExample(b.build(), (7,), [source, 0 * found, size], [source, found, size])


def softmax_of_rows() -> KernelExample:
    """The softmax of rows: two reductions over shared memory in one kernel."""
    rows, columns, size = 6, 50, 16
    b = KernelBuilder("softmax_of_rows", workgroup_size=size)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    n = b.scalar("n", int32)
    shared = b.shared(float32, size)
    lane, start = b.local_index(), b.workgroup_id() * n
    lowest = b.const(float("-inf"), float32)
    with b.for_(lane, n, step=size, carried=[lowest]) as loop:
        loop.yield_(b.max(loop.carried[0], x[start + loop.index]))
    shared[lane] = loop.results[0]
    b.barrier()
    with b.for_(0, size, carried=[lowest], unroll=True) as loop:
        loop.yield_(b.max(loop.carried[0], shared[loop.index]))
    (greatest,) = loop.results
    b.barrier()
    with b.for_(lane, n, step=size, carried=[b.const(0.0, float32)]) as loop:
        loop.yield_(loop.carried[0] + exp(b, x[start + loop.index] - greatest))
    shared[lane] = loop.results[0]
    b.barrier()
    with b.for_(0, size, carried=[b.const(0.0, float32)]) as loop:
        loop.yield_(loop.carried[0] + shared[loop.index])
    (total,) = loop.results
    with b.for_(lane, n, step=size) as loop:
        at = start + loop.index
        y[at] = exp(b, x[at] - greatest) / total
    source = (3 * np.cos(np.arange(rows * columns))).astype(np.float32)
    matrix = source.reshape(rows, columns).astype(np.float64)
    powers = np.exp(matrix - matrix.max(axis=1, keepdims=True))
    result = (powers / powers.sum(axis=1, keepdims=True)).astype(np.float32).ravel()
    return KernelExample(
        b.build(), (rows,), [source, 0 * source, columns], [source, result, columns]
    )


def checked_gather() -> KernelExample:
    """Elements at indices; those outside give 0 and set the error word."""
    b = KernelBuilder("checked_gather", workgroup_size=8)
    x, at = b.buffer("x", float32, "read"), b.buffer("at", int32, "read")
    y, word = b.buffer("y", float32, "write"), b.buffer("word", uint32, "atomic")
    count, code = b.scalar("count", int32), b.scalar("code", uint32)
    i = b.global_id()
    index = at[i]
    inside = (index >= 0) & (index < count)
    y[i] = x.load(index, mask=inside, other=0.0)
    b.error(word, ~inside, code)
    source = np.arange(10, 20, dtype=np.float32)
    indices = np.array([0, 9, 10, -1, 3, 3, 5, 99], dtype=np.int32)
    found = np.array([10, 19, 0, 0, 13, 13, 15, 0], dtype=np.float32)
    zero, one = np.zeros(1, np.uint32), np.array([7], np.uint32)
    return KernelExample(
        b.build(), (1,), [source, indices, 0 * found, zero, 10, 7],
        [source, indices, found, one, 10, 7],
    )  # fmt: skip


def collatz_lengths() -> KernelExample:
    """How many steps each number takes to 1: loops that end at different times."""
    b = KernelBuilder("collatz_lengths", workgroup_size=16)
    x, y = b.buffer("x", int32, "read"), b.buffer("y", int32, "write")
    i = b.global_id()
    with b.while_([x[i], b.const(0, int32)]) as loop:
        loop.condition(loop.carried[0] != 1)
        n, steps = loop.carried
        with b.if_(n % 2 == 0) as branch:
            branch.yield_(n // 2)
        with branch.else_():
            branch.yield_(n * 3 + 1)
        loop.yield_(branch.results[0], steps + 1)
    y[i] = loop.results[1]
    source = np.arange(1, 33, dtype=np.int32)
    return KernelExample(
        b.build(), (2,), [source, 0 * source],
        [source, np.array([_collatz(int(n)) for n in source], dtype=np.int32)],
    )  # fmt: skip


def _collatz(n: int) -> int:
    steps = 0
    while n != 1:
        n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
    return steps


def private_stack() -> KernelExample:
    """Each invocation reverses four elements through memory of its own, indexed in a loop."""
    b = KernelBuilder("private_stack", workgroup_size=8)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    stack = b.private(float32, 4)
    start = b.global_id() * 4
    with b.for_(0, 4) as loop:
        stack[loop.index] = x[start + loop.index]
    with b.for_(0, 4) as loop:
        y[start + loop.index] = stack[3 - loop.index]
    source = np.arange(64, dtype=np.float32)
    return KernelExample(
        b.build(), (2,), [source, 0 * source], [source, source.reshape(-1, 4)[:, ::-1].ravel()]
    )


def examples_of_kernels() -> list[KernelExample]:
    """Return all of the above."""
    makers: tuple[Callable[[], KernelExample], ...] = (
        elementwise_with_tail, transpose_in_tiles, sum_by_tree, histogram, softmax_of_rows,
        checked_gather, collatz_lengths, private_stack,
    )  # fmt: skip
    return [make() for make in makers]
