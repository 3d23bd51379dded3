from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from pyrite.kernel import Kernel, KernelBuilder, Memory, Value, verify
from pyrite.kernel.interpret import interpret
from pyrite.kernel.passes import eliminate_dead, simplify_index, vectorize_in_strips
from pyrite.testing.kernels import KernelExample, examples_of_kernels
from pyrite.testing.random_kernels import random_kernel
from pyrite.types import float32, int32

ROWS, COLUMNS, INNER = 5, 32, 5


def product(columns: int = COLUMNS, *, work: int = 1, carried: int = 1) -> Kernel:
    """Sums over n of x[i, n] * y[n, j], with so many operations a round and so many sums."""
    b = KernelBuilder("product", workgroup_size=32)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "read")
    out = b.buffer("out", float32, "write")
    at, n = b.global_id(), b.index(columns)
    i, j = at.apply("div", at, n), at.apply("rem", at, n)
    with b.for_(0, INNER, carried=[b.const(0.0, float32)] * carried) as loop:
        value = x[i * INNER + loop.index]
        element = y[loop.index * n + j]
        for _ in range(work - 1):
            element = element * 0.5 + 1.0
        loop.yield_(*[c + value * element for c in loop.carried])
    out.store(at, sum(loop.results[1:], loop.results[0]))
    return b.build()


def widest(kernel: Kernel) -> int:
    return max(n.value_type.width for n in eliminate_dead(kernel).walk() if n.type is not None)


def arrays() -> Sequence[np.ndarray]:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(ROWS, INNER)), rng.normal(size=(INNER, COLUMNS))
    return [a.astype(np.float32).ravel() for a in (x, y)] + [np.zeros(ROWS * COLUMNS, np.float32)]


@pytest.mark.parametrize(
    ("kernel", "width"),
    [
        (product(), 16),
        (product(work=3), 8),
        (product(work=9), 4),  # busy enough
        (product(carried=4), 8),
        (product(columns=24), 8),  # rows end between sixteen
        (product(columns=20), 4),  # and between eight
    ],
    ids=["sum", "work", "busy", "sums", "rows", "short"],
)
def test_a_loop_that_waits_for_one_sum_runs_in_strips(kernel: Kernel, width: int) -> None:
    after = verify(vectorize_in_strips(simplify_index(kernel), 4))
    assert widest(after) == width

    *inputs, wanted = arrays()
    got, groups = wanted.copy(), 3
    interpret(kernel, groups, *inputs, wanted)
    interpret(after, groups, *inputs, got)
    assert wanted.any()
    assert (got == wanted).all()


def whole_sum(b: KernelBuilder, x: Memory, at: Value) -> Value:
    with b.for_(0, 4, carried=[b.const(0, int32)]) as loop:
        loop.yield_(loop.carried[0] + b.cast(x[loop.index], int32))
    return b.cast(loop.results[0] + b.cast(at, int32), float32)


def nested_sum(b: KernelBuilder, x: Memory, at: Value) -> Value:
    start = x[at]
    with b.for_(0, 2, carried=[start]) as outer:
        with b.for_(0, 2, carried=[outer.carried[0]]) as inner:
            inner.yield_(inner.carried[0] + x[inner.index])
        outer.yield_(inner.results[0])
    return outer.results[0]


def scattered_sum(b: KernelBuilder, x: Memory, at: Value) -> Value:
    with b.for_(0, 4, carried=[x[at]]) as loop:
        loop.yield_(loop.carried[0] + x[at ^ loop.index])
    return loop.results[0]


@pytest.mark.parametrize(
    ("written", "width"), [(whole_sum, 4), (nested_sum, 16), (scattered_sum, 4)]
)
def test_loops_that_have_no_use_for_strips_stay(written: object, width: int) -> None:
    """A sum that all have is no vector, and what is gathered takes longer than the sum."""
    assert callable(written)
    b = KernelBuilder("other", workgroup_size=32)
    x, out = b.buffer("x", float32, "read"), b.buffer("out", float32, "write")
    out.store(b.global_id(), written(b, x, b.global_id()))
    kernel = b.build()
    after = verify(vectorize_in_strips(kernel, 4))
    assert widest(after) == width

    values = np.arange(64, dtype=np.float32)
    wanted, got = np.zeros(64, np.float32), np.zeros(64, np.float32)
    interpret(kernel, 2, values, wanted)
    interpret(after, 2, values, got)
    assert (got == wanted).all()


@pytest.mark.parametrize(("columns", "width"), [(32, 8), (24, 8), (20, 4)])
def test_a_stencil_asks_for_its_borders_once_for_two_strips(columns: int, width: int) -> None:
    b = KernelBuilder("stencil", workgroup_size=32)
    x, out = b.buffer("x", float32, "read"), b.buffer("out", float32, "write")
    at, n = b.global_id(), b.index(columns)
    i, j = at.apply("div", at, n), at.apply("rem", at, n)
    left, right = j - 1, j + 1
    before = b.select(left < 0, left + n, left)
    after_it = b.select(right >= n, right - n, right)
    out.store(at, x[i * n + before] - x[i * n + after_it])
    kernel = b.build()
    after = verify(vectorize_in_strips(simplify_index(kernel), 4))
    assert widest(after) == width

    values = np.random.default_rng(0).normal(size=(160 // columns, columns)).astype(np.float32)
    groups = values.size // 32
    wanted, got = np.zeros(values.size, np.float32), np.zeros(values.size, np.float32)
    interpret(kernel, groups, values.ravel(), wanted)
    interpret(after, groups, values.ravel(), got)
    whole = groups * 32
    expected = (np.roll(values, 1, 1) - np.roll(values, -1, 1)).ravel()
    assert (wanted[:whole] == expected[:whole]).all()
    assert (got == wanted).all()


@pytest.mark.parametrize("example", examples_of_kernels(), ids=lambda e: e.kernel.name)
def test_hand_written_kernels_compute_the_same(example: KernelExample) -> None:
    example.check(verify(vectorize_in_strips(example.kernel, 2)))


@pytest.mark.parametrize("seed", range(10))
def test_random_kernels_compute_the_same_bit_for_bit(seed: int) -> None:
    example = random_kernel(seed)
    example.check(verify(vectorize_in_strips(example.kernel, 2)), relative=0)
