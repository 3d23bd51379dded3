from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pyrite.errors import KernelError
from pyrite.kernel import Kernel, KernelBuilder, to_text, verify
from pyrite.kernel.interpret import interpret
from pyrite.kernel.passes import (
    eliminate_common,
    eliminate_dead,
    fold_constants,
    split_barriers,
    vectorize,
)
from pyrite.testing.kernels import KernelExample, examples_of_kernels, sum_by_tree
from pyrite.testing.random_kernels import random_kernel
from pyrite.types import float32, int32


def cleaned(kernel: Kernel) -> Kernel:
    return eliminate_dead(eliminate_common(fold_constants(kernel)))


@pytest.mark.parametrize("example", examples_of_kernels(), ids=lambda e: e.kernel.name)
def test_hand_written_kernels_compute_the_same(example: KernelExample) -> None:
    after = verify(split_barriers(example.kernel))

    assert after.workgroup_size == (1, 1, 1)
    assert not any(n.kind == "barrier" for n in after.walk())
    example.check(after)
    example.check(verify(cleaned(after)))


@pytest.mark.parametrize("width", [1, 2, 16])
@pytest.mark.parametrize("seed", range(25))
def test_random_kernels_compute_the_same_bit_for_bit(seed: int, width: int) -> None:
    example = random_kernel(seed)

    after = verify(split_barriers(cleaned(vectorize(example.kernel, width))))

    example.check(after, relative=0)
    example.check(verify(cleaned(after)), relative=0)


def test_a_golden_pair(golden: Callable[[str, str], None]) -> None:
    before = sum_by_tree().kernel
    after = cleaned(split_barriers(before))

    golden("split_barriers.txt", f"{to_text(before)}\n\n{to_text(verify(after))}\n")


def test_a_value_that_lives_across_a_barrier_goes_through_memory() -> None:
    b = KernelBuilder("alive", workgroup_size=8)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    i = b.global_id()
    pair = x.load(i * 2, width=2)
    b.barrier()
    y.store(i * 2, pair)

    allocations = [n.attr for n in split_barriers(b.build()).walk() if n.kind == "alloc"]

    assert allocations == [("private", 16, "read_write")]


def test_what_is_cheap_is_computed_again() -> None:
    b = KernelBuilder("cheap", workgroup_size=8)
    y = b.buffer("y", int32, "read_write")
    i = b.global_id()
    y[i] = 1
    b.barrier("storage")
    y[i] = y[i] + 1

    assert not any(n.kind == "alloc" for n in split_barriers(b.build()).walk())


def test_a_branch_that_all_lanes_take_stands_around_their_loop() -> None:
    """So what is uniform in it is computed once."""
    b = KernelBuilder("together", workgroup_size=8)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    group = b.workgroup_id()
    with b.if_(group < 3):
        y[b.global_id()] = x[group] * 2.0
    before = b.build()
    after = verify(eliminate_dead(split_barriers(before)))

    (branch,) = [n for n in after.body.body if n.kind == "if"]
    inside = [n.kind for n in branch.regions[0].body]
    assert inside.index("load") < inside.index("for")
    values = np.arange(4, dtype=np.float32)
    wanted, got = np.zeros(32, np.float32), np.zeros(32, np.float32)
    interpret(before, 4, values, wanted)
    interpret(after, 4, values, got)
    assert wanted[:24].any()
    assert (got == wanted).all()


def test_a_barrier_that_depends_on_what_lanes_write_is_refused() -> None:
    b = KernelBuilder("late", workgroup_size=8)
    y = b.buffer("y", int32, "write")
    with b.for_(0, 3, carried=[b.const(0, int32)]) as loop:
        y[b.global_id()] = loop.index
        loop.yield_(loop.carried[0] + 1)
    with b.for_(0, loop.results[0]):
        b.barrier()

    with pytest.raises(KernelError, match="what decides about a barrier is computed without"):
        split_barriers(b.build())


def test_subgroups_are_refused_unless_an_invocation_is_alone() -> None:
    def kernel(size: int) -> Kernel:
        b = KernelBuilder("sums", workgroup_size=size)
        y = b.buffer("y", int32, "write")
        y[b.global_id()] = b.subgroup_reduce("add", b.local_index())
        return b.build()

    with pytest.raises(KernelError, match="sums requires subgroups of several"):
        split_barriers(kernel(8))
    verify(split_barriers(kernel(1)))
