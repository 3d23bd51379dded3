from __future__ import annotations

from collections.abc import Callable

import pytest

from pyrite.kernel import KernelBuilder, to_text, verify
from pyrite.kernel.passes import eliminate_dead
from pyrite.testing.kernels import KernelExample, examples_of_kernels
from pyrite.testing.random_kernels import random_kernel
from pyrite.types import float32


@pytest.mark.parametrize("example", examples_of_kernels(), ids=lambda e: e.kernel.name)
def test_hand_written_kernels_compute_the_same(example: KernelExample) -> None:
    example.check(verify(eliminate_dead(example.kernel)))


@pytest.mark.parametrize("seed", range(25))
def test_random_kernels_compute_the_same_bit_for_bit(seed: int) -> None:
    example = random_kernel(seed)

    example.check(verify(eliminate_dead(example.kernel)), relative=0)


def test_a_golden_pair(golden: Callable[[str, str], None]) -> None:
    b = KernelBuilder("pair", workgroup_size=4)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    unused = b.shared(float32, 4)
    i = b.global_id()
    assert unused.dtype is float32
    with b.for_(0, 4, carried=[x[i]]) as dead:
        dead.yield_(dead.carried[0] * 2.0)
    with b.if_(i < 2) as live:
        y[i] = x[i]
        live.yield_(x[i] + 1.0)
    with live.else_():
        live.yield_(x[i + 3])
    with b.for_(0, 4, carried=[x[i]]) as loop:
        loop.yield_(loop.carried[0] + 1.0)
    y[i + 4] = loop.results[0]
    before = b.build()
    after = eliminate_dead(before)

    golden("eliminate_dead.txt", f"{to_text(before)}\n\n{to_text(verify(after))}\n")


def test_a_kernel_without_effects_is_empty() -> None:
    b = KernelBuilder("empty")
    x = b.buffer("x", float32, "read")
    with b.if_(x[0] > 0.0) as branch:
        branch.yield_(x[1])
    with branch.else_():
        branch.yield_(x[2])

    assert not eliminate_dead(b.build()).body.body
