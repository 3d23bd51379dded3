"""Loops and branches, and subgroups, which are one invocation each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pyrite.kernel.builder import KernelBuilder
from pyrite.testing.operands import values_of
from pyrite.testing.programs import LaunchCase, programs
from pyrite.types import int32, int64, uint32

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
