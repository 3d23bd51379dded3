"""Loops and branches, and subgroups, which are one invocation each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pyrite.kernel.builder import KernelBuilder
from pyrite.kernel.target.llvm import LLVMTarget, to_llvm
from pyrite.testing.operands import values_of
from pyrite.testing.programs import LaunchCase, programs
from pyrite.types import float32, int32, int64, uint32

Run = Callable[..., None]


@pytest.mark.parametrize("program", programs(1, (int32, uint32, int64)), ids=lambda p: p.name)
def test_a_program_equals_the_interpreters(agree: Run, program: LaunchCase) -> None:
    agree(program.kernel, program.grid, *program.values)


def test_a_subgroup_is_one_invocation(agree: Run) -> None:
    b = KernelBuilder("subgroup")
    x, y = b.buffer("x", int32, "read"), b.buffer("y", int32, "write")
    v = x[0]
    for i, name in enumerate(("add", "mul", "min", "max", "and", "or", "xor")):
        y[3 * i] = b.subgroup_reduce(name, v)
        y[3 * i + 1] = b.subgroup_scan(name, v)
        y[3 * i + 2] = b.subgroup_scan(name, v, is_inclusive=False)
    y[21] = b.subgroup_shuffle(v, 0) + b.subgroup_broadcast(v)
    y[22] = b.subgroup_size() * 10 + b.subgroup_lane()
    y.store(24, b.bitcast(b.subgroup_ballot(v == v), int32))

    agree(b.build(), [1], values_of(int32), np.zeros(28, np.int32))


def test_places_outside_of_a_loop_of_products_are_held(agree: Run) -> None:
    """Sums of strides, of which some differ by a number only."""
    b = KernelBuilder("products", index=int64)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    stride = b.scalar("stride", int64)
    places = [stride + 1, stride + 2, stride * 2, stride * 2 + 5]
    with b.for_(0, 4, carried=[b.const(0.0, float32)] * 8) as loop:
        read = [x[place + loop.index] for place in places]
        loop.yield_(*(b.fma(read[i % 4], read[i // 4], loop.carried[i]) for i in range(8)))
    for i, sum in enumerate(loop.results):
        y[stride + i] = sum
    kernel = b.build()

    assert to_llvm(kernel, LLVMTarget("x86_64-unknown-linux-gnu")).count("freeze i64") == 2
    agree(kernel, [1], np.arange(24, dtype=np.float32), np.zeros(16, np.float32), 6)
