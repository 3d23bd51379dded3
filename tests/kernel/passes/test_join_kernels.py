"""Kernels side by side in one, against each of them alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from pyrite.errors import KernelError
from pyrite.kernel import Kernel, KernelBuilder, verify
from pyrite.kernel.interpret import interpret
from pyrite.kernel.passes import eliminate_common, join_kernels, split_barriers
from pyrite.testing.kernels import KernelExample, examples_of_kernels
from pyrite.testing.random_kernels import random_kernel
from pyrite.types import Array, float32, float64, int32

#: Examples that can be joined: barriers, atomics, shared and private memory, loops.
EXAMPLES = [e for e in examples_of_kernels() if e.kernel.grid == 1]


def apart(kernels: Sequence[Kernel]) -> list[list[int]]:
    """Return places at which each kernel has parameters of its own."""
    found: list[list[int]] = []
    for kernel in kernels:
        first = sum(map(len, found))
        found.append([*range(first, first + len(kernel.parameters))])
    return found


def run_joined(examples: Sequence[KernelExample], *, is_split: bool = False) -> None:
    """Run examples as one kernel and compare with each alone."""
    kernels = [e.kernel for e in examples]
    joined = verify(join_kernels(kernels, apart(kernels)))
    if is_split:
        joined = verify(split_barriers(eliminate_common(joined)))
    counts = [e.workgroups[0] for e in examples]
    begins = [sum(counts[: n + 1]) for n in range(len(counts) - 1)]
    values = [v for e in examples for v in e.fresh()]

    interpret(joined, sum(counts), *values, *begins)

    expected = [v for e in examples for v in e.expected]
    for value, wanted in zip(values, expected, strict=True):
        np.testing.assert_array_equal(value, wanted)


@pytest.mark.parametrize("seed", range(4))
def test_random_kernels_compute_the_same_side_by_side(seed: int) -> None:
    run_joined([random_kernel(3 * seed + n) for n in range(3)])


@pytest.mark.parametrize("is_split", [False, True])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.kernel.name)
def test_a_kernel_beside_itself(example: KernelExample, is_split: bool) -> None:
    if any(n.kind.startswith("subgroup") for n in example.kernel.walk()) and is_split:
        pytest.skip("one invocation has no subgroup")
    examples = [example] * 3
    kernels = [e.kernel for e in examples]
    joined = verify(join_kernels(kernels, apart(kernels)))
    if is_split:
        joined = verify(split_barriers(eliminate_common(joined)))
    count = example.workgroups[0]
    values = [v for e in examples for v in e.fresh()]

    interpret(joined, 3 * count, *values, count, 2 * count)

    for value, wanted in zip(values, [*example.expected] * 3, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-6)


def test_parts_see_their_own_number_of_workgroups() -> None:
    def numbers() -> Kernel:
        b = KernelBuilder("numbers")
        out = b.buffer("out", int32, "write")
        out[b.workgroup_id()] = b.workgroup_id() * 100 + b.num_workgroups()
        return b.build()

    joined = verify(join_kernels([numbers(), numbers(), numbers()], [[0], [1], [2]]))
    found: list[Array] = [np.zeros(n, np.int32) for n in (2, 1, 3)]

    interpret(joined, 6, *found, 2, 3)

    assert [x.tolist() for x in found] == [[2, 102], [1], [3, 103, 203]]


def scaled(access: str = "read", size: int = 4) -> Kernel:
    b = KernelBuilder("scaled", workgroup_size=size)
    x = b.buffer("x", float32, access)  # type: ignore[arg-type]
    factor, y = b.scalar("factor", float32), b.buffer("y", float32, "write")
    shared = b.shared(float32, size)
    shared[b.local_index()] = x[b.global_id()] * factor
    y[b.global_id()] = shared[b.local_index()]
    return b.build()


def test_kernels_share_what_they_read_and_their_memory() -> None:
    joined = verify(join_kernels([scaled(), scaled()], [[0, 1, 2], [0, 1, 3]]))
    x: Array = np.arange(8, dtype=np.float32)
    first, second = np.zeros_like(x), np.zeros_like(x)

    interpret(joined, 4, x, 3.0, first, second, 2)

    np.testing.assert_array_equal([first, second], [3 * x, 3 * x])
    assert len(joined.buffers) == 3
    assert [n.attr[1] for n in joined.walk() if n.kind == "alloc"] == [4]


def test_allocations_have_room_for_the_largest_of_each_kind() -> None:
    def allocating(*sizes: int) -> Kernel:
        b = KernelBuilder("allocating")
        out = b.buffer("out", float32, "write")
        for size in sizes:
            memory = b.private(float32, size)
            memory[size - 1] = 1.0
            out[0] = memory[size - 1]
        return b.build()

    joined = verify(join_kernels([allocating(8, 2), allocating(4, 16, 1)], [[0], [1]]))

    assert [n.attr[1] for n in joined.walk() if n.kind == "alloc"] == [8, 16, 1]


def test_what_cannot_be_joined_is_refused() -> None:
    b = KernelBuilder("plane", grid=2)
    b.buffer("x", float32, "read")
    with pytest.raises(KernelError, match="grids of one axis, got 2"):
        join_kernels([scaled(), b.build()], [[0, 1, 2], [3]])
    with pytest.raises(KernelError, match=r"workgroups of .*4.* got .*8"):
        join_kernels([scaled(), scaled(size=8)], [[0, 1, 2], [3, 4, 5]])
    with pytest.raises(KernelError, match="buffers that both read"):
        join_kernels([scaled(), scaled("read_write")], [[0, 1, 2], [0, 1, 3]])
    b = KernelBuilder("other", workgroup_size=4)
    b.buffer("x", float64, "read")
    with pytest.raises(KernelError, match="share"):
        join_kernels([scaled(), b.build()], [[0, 1, 2], [0]])
