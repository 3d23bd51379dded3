from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyrite.kernel import Kernel, KernelBuilder, verify
from pyrite.kernel.interpret import interpret
from pyrite.kernel.passes import split_barriers, vectorize
from pyrite.types import int32

SIZE, ROUNDS = 8, 5

Body = Callable[[KernelBuilder, Any, Any, Any, Any], None]


def kernel(body: Body) -> Kernel:
    """A body, in a loop of five rounds, of a workgroup that has a grid of four."""
    b = KernelBuilder("looped", workgroup_size=SIZE)
    x, y = b.buffer("x", int32, "read"), b.buffer("y", int32, "read_write")
    b.scalar("n", int32)
    with b.for_(0, ROUNDS) as loop:
        body(b, x, y, b.global_id(), loop.index)
    return b.build()


def far(b: KernelBuilder, x: Any, y: Any, i: Any, n: Any) -> None:
    y[i + n * 4 * SIZE] = x[i + n * 4 * SIZE] * 2


def near(b: KernelBuilder, x: Any, y: Any, i: Any, n: Any) -> None:
    y[i * ROUNDS + n] = x[i * ROUNDS + n] * 2


def mixed(b: KernelBuilder, x: Any, y: Any, i: Any, n: Any) -> None:
    y[i * ROUNDS + n] = x[i + n * 4 * SIZE] * 2


def read_once(b: KernelBuilder, x: Any, y: Any, i: Any, n: Any) -> None:
    y[i + n * 4 * SIZE] = x[i] + n


def parted(b: KernelBuilder, x: Any, y: Any, i: Any, n: Any) -> None:
    with b.if_(x[i + n * 4 * SIZE] > 40):
        y[i + n * 4 * SIZE] = x[(i + n) % 32]


def looped(b: KernelBuilder, x: Any, y: Any, i: Any, n: Any) -> None:
    with b.for_(0, x[i] % 3, carried=[x[i]]) as inner:
        inner.yield_(inner.carried[0] + inner.index)
    y[i + n * 4 * SIZE] = inner.results[0]


def lane_is_outermost(kernel: Kernel) -> bool:
    """Whether the outermost loop is the one over lanes, of a kernel without barriers."""
    (outermost,) = (n for n in kernel.body.body if n.kind == "for")
    return any(n.kind == "for" for n in outermost.regions[0].body) and (
        outermost.inputs[1].attr != ROUNDS
    )


BODIES: dict[str, tuple[Body, bool]] = {
    "far": (far, True), "near": (near, False), "mixed": (mixed, False),
    "read once": (read_once, True), "parted": (parted, False), "looped": (looped, True),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_rounds_that_are_far_apart_are_run_by_all_lanes_together(name: str) -> None:
    body, is_together = BODIES[name]

    assert lane_is_outermost(split_barriers(kernel(body))) != is_together


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("name", BODIES)
def test_they_compute_the_same(name: str, width: int) -> None:
    before = kernel(BODIES[name][0])
    source = (np.arange(200, dtype=np.int32) * 37) % 101

    def result(kernel: Kernel) -> np.ndarray:
        found = [source.copy(), np.full(200, -1, np.int32), 7]
        interpret(kernel, (4,), *found)
        return found[1]

    np.testing.assert_array_equal(
        result(verify(split_barriers(vectorize(before, width)))), result(before)
    )


def test_a_value_from_before_is_kept_for_each_lane() -> None:
    def kept(b: KernelBuilder, x: Any, y: Any) -> None:
        i = b.global_id()
        costly = x[i]
        for n in range(20):
            costly = costly * 3 + n
        with b.for_(0, ROUNDS) as loop:
            y[i + loop.index * 4 * SIZE] = costly + loop.index
        y[i] = y[i] + costly

    b = KernelBuilder("kept", workgroup_size=SIZE)
    x, y = b.buffer("x", int32, "read"), b.buffer("y", int32, "read_write")
    kept(b, x, y)
    before = b.build()
    source = np.arange(64, dtype=np.int32)
    found, wanted = ([source.copy(), np.zeros(200, np.int32)] for _ in range(2))
    interpret(before, (4,), *wanted)
    interpret(verify(split_barriers(before)), (4,), *found)
    np.testing.assert_array_equal(found[1], wanted[1])


def test_a_uniform_value_may_be_carried() -> None:
    b = KernelBuilder("carried", workgroup_size=SIZE)
    x, y = b.buffer("x", int32, "read"), b.buffer("y", int32, "write")
    with b.for_(0, ROUNDS, carried=[b.const(3, int32)]) as loop:
        y[b.global_id() + loop.index * 4 * SIZE] = x[b.global_id()] * loop.carried[0]
        loop.yield_(loop.carried[0] * 2 + x[loop.index])
    before = b.build()
    found, wanted = ([np.arange(64, dtype=np.int32), np.zeros(200, np.int32)] for _ in range(2))
    interpret(before, (4,), *wanted)
    interpret(verify(split_barriers(before)), (4,), *found)
    np.testing.assert_array_equal(found[1], wanted[1])
