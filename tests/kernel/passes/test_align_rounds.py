from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from pyrite.kernel import Kernel, KernelBuilder, verify
from pyrite.kernel.interpret import interpret
from pyrite.kernel.passes import align_rounds, split_barriers, vectorize
from pyrite.testing.kernels import KernelExample, examples_of_kernels
from pyrite.testing.random_kernels import random_kernel
from pyrite.types import int32

SIZE = 16


def strided(first: str, stop: str, step: int) -> Kernel:
    """Every element from where a lane begins is counted by the number of the workgroup, from 1."""
    b = KernelBuilder("strided", workgroup_size=SIZE)
    x, y = b.buffer("x", int32, "read"), b.buffer("y", int32, "read_write")
    n = b.scalar("n", int32)
    lane, group = b.local_index(), b.workgroup_id()
    begin = {
        "lane": lane,
        "lane after": lane + (group * 3 + 1),
        "grid": b.global_id(),
        "after lane": (n // 4 + group * SIZE) + lane,
    }[first]
    end = {"all": n, "own": group * 40 + n // 3, "known": b.const(70, int32)}[stop]
    bonus = x[lane] + 1
    with b.for_(begin, end, step=step) as loop:
        with b.for_(0, x[loop.index] % 3, carried=[b.const(5, int32)]) as inner:
            inner.yield_(inner.carried[0] * 2 + inner.index)
        y[loop.index] = y[loop.index] + x[loop.index] * bonus + inner.results[0]
    return b.build()


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 64, 99])
@pytest.mark.parametrize(
    ("first", "stop"),
    [*product(["lane", "lane after", "grid", "after lane"], ["all", "own", "known"])],
)
@pytest.mark.parametrize("step", [16, 32, 48])
@pytest.mark.sample(4, by=("first", "stop"))
def test_all_rounds_are_run_once(first: str, stop: str, step: int, n: int) -> None:
    kernel = strided(first, stop, step)
    source = np.arange(200, dtype=np.int32) % 13

    def result(kernel: Kernel) -> np.ndarray:
        found = [source.copy(), np.zeros(200, np.int32), n]
        interpret(kernel, (1,), *found)
        return found[1]

    wanted = result(kernel)
    aligned = verify(align_rounds(kernel))
    assert aligned is not kernel
    for after in (
        aligned,
        verify(split_barriers(aligned)),
        verify(split_barriers(vectorize(aligned, 4))),
        verify(split_barriers(vectorize(kernel, 4))),
    ):
        np.testing.assert_array_equal(result(after), wanted)


def loops(kernel: Kernel) -> int:
    return sum(n.kind == "for" for n in kernel.walk())


def test_rounds_of_all_lanes_become_two_loops() -> None:
    assert loops(align_rounds(strided("lane", "all", 16))) == 4  # each with one inside


@pytest.mark.parametrize("step", [1, 15])
def test_lanes_that_do_not_step_over_each_other_stay(step: int) -> None:
    assert loops(align_rounds(strided("lane", "all", step))) == 2


def test_loops_that_carry_values_and_those_of_another_begin_stay() -> None:
    b = KernelBuilder("carried", workgroup_size=SIZE)
    x, y = b.buffer("x", int32, "read"), b.buffer("y", int32, "write")
    with b.for_(b.local_index(), 100, step=SIZE, carried=[b.const(0, int32)]) as loop:
        loop.yield_(loop.carried[0] + x[loop.index])
    with b.for_(b.local_index() * 2, 100, step=SIZE) as twice:
        y[twice.index] = loop.results[0]
    with b.for_(b.local_index(), b.local_index() + 90, step=SIZE) as moving:
        y[moving.index] = loop.results[0]
    kernel = b.build()

    assert loops(align_rounds(kernel)) == 3


@pytest.mark.parametrize("example", examples_of_kernels(), ids=lambda e: e.kernel.name)
def test_hand_written_kernels_compute_the_same(example: KernelExample) -> None:
    example.check(verify(align_rounds(example.kernel)))


@pytest.mark.parametrize("seed", range(25))
def test_random_kernels_compute_the_same_bit_for_bit(seed: int) -> None:
    example = random_kernel(seed)

    example.check(verify(align_rounds(example.kernel)), relative=0)
