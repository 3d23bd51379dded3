"""What a workgroup is guessed to cost."""

from __future__ import annotations

from pyrite.kernel import KernelBuilder, Value
from pyrite.kernel.polyfill import cos, sin
from pyrite.runtime.cpu.grain import work_of
from pyrite.types import float32


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
    return work_of(b.build(), 32)


def test_a_branch_for_a_value_is_guessed_to_take_the_cheaper_way() -> None:
    assert work(is_rare=True) < work(is_rare=False) / 4
