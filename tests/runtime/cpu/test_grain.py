"""What a workgroup is guessed to cost."""

from __future__ import annotations

import pytest

from pyrite.kernel import KernelBuilder, Value
from pyrite.kernel.polyfill import cos, sin
from pyrite.runtime.cpu.grain import work_of
from pyrite.types import float32, int32


def work(*, is_rare: bool) -> float:
    """Return the cost of a sum of angles' sines, computed always or where a number asks for it."""
    b = KernelBuilder("choice")
    memory = b.buffer("x", float32, "read_write")
    x: Value = memory[0]
    if is_rare:
        with b.if_(x > 3.0) as branch:
            branch.yield_(sin(b, x) + cos(b, x))
        with branch.else_():
            branch.yield_(x)
        (x,) = branch.results
    else:
        x = sin(b, x) + cos(b, x)
    memory[0] = x
    return work_of(b.build(), 32)([])


def test_a_branch_for_a_value_is_guessed_to_take_the_cheaper_way() -> None:
    assert work(is_rare=True) < work(is_rare=False) / 4


def test_a_loop_to_a_number_of_the_launch_is_guessed_to_go_so_far() -> None:
    b = KernelBuilder("rows")
    memory, n = b.buffer("x", float32, "read_write"), b.scalar("n", int32)
    first = b.workgroup_id() * 100
    with b.for_(0, b.min((n - first) // 2, n)) as loop, b.for_(0, 8, step=4) as inner:
        memory[loop.index] = memory[inner.index] * 2.0
    guessed = work_of(b.build(), 32)

    least, one = guessed([None, 0]), guessed([None, 2])
    assert one > least
    assert guessed([None, 200]) - least == pytest.approx(100 * (one - least))


def test_the_rest_of_a_row_is_guessed_to_go_from_where_it_begins() -> None:
    """A row in whole vectors and a masked rest was taken for several."""

    def cost(*, is_split: bool) -> float:
        b = KernelBuilder("rows")
        memory = b.buffer("x", float32, "read_write")
        whole, n = b.scalar("whole", int32), b.scalar("n", int32)
        for first, stop in ((0, whole), (b.index(0) + whole, n)) if is_split else ((0, n),):
            with b.for_(first, stop) as loop:
                memory[loop.index] = memory[loop.index] * 2.0
        return work_of(b.build(), 32)([None, 96, 100])

    assert cost(is_split=True) == pytest.approx(cost(is_split=False), rel=0.01)
