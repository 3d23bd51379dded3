"""Coordinates of workgroups, which are counted and not divided."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pyrite.kernel import Kernel
from pyrite.kernel.builder import KernelBuilder, Value
from pyrite.kernel.ir import Node, scalar
from pyrite.kernel.target.llvm import LLVMTarget, to_llvm
from pyrite.kernel.target.llvm.pipeline import lowered
from pyrite.kernel.verify import verify
from pyrite.types import int32

Run = Callable[..., None]


def coordinates(*, least: int = 1) -> Kernel:
    """Write the three coordinates of each workgroup; one in a branch that few come to."""
    b = KernelBuilder("coordinates")
    out = b.buffer("out", int32, "write")

    def size(position: int) -> Value:
        node = Node("argument", scalar(int32), (), (position, f"n{position}", least))
        b._parameters.append(node)
        return Value(b, node)

    n, m = size(1), size(2)
    place = b.workgroup_id(0)
    outer, inner = place // n // m, place // n % m
    out[place * 4] = outer
    out[place * 4 + 1] = inner
    with b.if_(inner == 0):
        out[place * 4 + 2] = place % n + 1
    with b.for_(0, 2) as loop:
        out[place * 4 + 3] = place // m + loop.index
    return b.build()


@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 5), (7, 1), (3, 4), (64, 2), (1000, 3)])
def test_coordinates_are_those_of_the_interpreter(agree: Run, n: int, m: int) -> None:
    agree(coordinates(), [97], np.zeros(4 * 97, np.int32), n, m)


def test_workgroups_may_begin_anywhere(agree: Run) -> None:
    """So many that threads share them: each begins to count where it begins to run."""
    agree(coordinates(), [20_011], np.zeros(4 * 20_011, np.int32), 7, 11)


def test_what_is_counted_is_divided_once(haswell: LLVMTarget) -> None:
    text = to_llvm(lowered(verify(coordinates()), haswell), haswell)
    turns = text[text.index("\ngroup:") :]
    assert "div" not in turns
    assert "rem" not in turns
    assert "fmul" not in turns


def test_a_size_that_may_be_0_is_not_counted(haswell: LLVMTarget) -> None:
    text = to_llvm(lowered(verify(coordinates(least=0)), haswell), haswell)
    assert "%rest.0" not in text
