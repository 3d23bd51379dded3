"""Loops that report whether they were left early, against the same kernels as written."""

from __future__ import annotations

import numpy as np
import pytest

from pyrite.kernel import Kernel, KernelBuilder, verify
from pyrite.kernel.interpret import interpret
from pyrite.kernel.passes import most_rounds, report_rounds
from pyrite.testing.kernels import KernelExample, examples_of_kernels
from pyrite.types import float32, uint32

EXAMPLES = [e for e in examples_of_kernels() if any(n.regions for n in e.kernel.walk())]


def watched(kernel: Kernel) -> Kernel:
    """The kernel with an error word and a code behind its parameters."""
    b = KernelBuilder("head")
    word, code = b.buffer("word", uint32, "atomic").node, b.scalar("code", uint32).node
    count = len(kernel.parameters)
    for i, node in enumerate((word, code)):
        node.attr = (count + i, *node.attr[1:])
    whole = Kernel(
        kernel.name, (*kernel.parameters, word, code), kernel.body, kernel.workgroup_size,
        kernel.grid, kernel.index,
    )  # fmt: skip
    return verify(report_rounds(whole, word, code))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.kernel.name)
def test_a_watched_kernel_computes_the_same_and_reports_nothing(example: KernelExample) -> None:
    found, word = example.fresh(), np.zeros(1, np.uint32)

    interpret(watched(example.kernel), example.workgroups, *found, word, 7)

    assert word[0] == 0
    for value, wanted in zip(found, example.expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("start", "stop", "step", "inner", "wanted"),
    [
        (0, 5, 1, 0, 6), (0, 5, 2, 0, 4), (5, 0, 1, 0, 1), (-3, 3, 4, 0, 3),
        (0, 5, 1, 4, 5 * (1 + 5) + 1), (0, 0, 1, 4, 1),
    ],
)  # fmt: skip
def test_rounds_of_counted_loops(start: int, stop: int, step: int, inner: int, wanted: int) -> None:
    b = KernelBuilder("count")
    x = b.buffer("x", float32, "read_write")
    with b.for_(start, stop, step=step):
        x[0] = x[0] + 1.0
        if inner:
            with b.for_(0, inner):
                x[1] = x[1] + 1.0

    assert most_rounds(b.build()) == wanted


def test_rounds_that_cannot_be_told() -> None:
    b = KernelBuilder("count")
    x, n = b.buffer("x", float32, "read_write"), b.scalar("n", b.index_type.dtype)
    with b.if_(x[0] > 0.0), b.for_(0, n):
        x[0] = x[0] + 1.0

    assert most_rounds(b.build()) is None


@pytest.mark.parametrize(
    ("begin", "end", "step", "wanted"),
    [(0, 100, 16, 7), (3, 100, 16, 7), (4, 100, 16, 6), (0, 0, 16, 0), (200, 100, 16, 0)],
)
def test_rounds_of_lanes_that_begin_side_by_side(
    begin: int, end: int, step: int, wanted: int
) -> None:
    b = KernelBuilder("lanes", workgroup_size=16)
    x = b.buffer("x", float32, "read_write")
    part = b.workgroup_id() * 1000
    with b.for_(part + begin + b.local_index(), part + end, step=step) as loop:
        x[loop.index] = 1.0

    assert most_rounds(b.build()) == wanted + 1


def test_rounds_to_the_lane_are_those_of_the_last() -> None:
    b = KernelBuilder("lanes", workgroup_size=16)
    x = b.buffer("x", float32, "read_write")
    with b.for_(0, b.local_index()):
        x[0] = 1.0

    assert most_rounds(b.build()) == 15 + 1


@pytest.mark.parametrize(
    ("first", "end", "step", "sign", "wanted"),
    [(0, 64, 1, "lt", 64), (0, 64, 1, "le", 65), (5, 64, 7, "lt", 9), (64, 0, 1, "lt", 0)],
)
def test_rounds_of_a_condition_with_a_counter(
    first: int, end: int, step: int, sign: str, wanted: int
) -> None:
    b = KernelBuilder("counter")
    x = b.buffer("x", float32, "read_write")
    with b.while_([x[0], b.const(first, b.index_type.dtype)]) as loop:
        total, n = loop.carried
        loop.condition((total < 4.0) & ((n < end) if sign == "lt" else (n <= end)))
        total, n = loop.carried
        loop.yield_(total * 1.5, n + step)

    assert most_rounds(b.build()) == wanted + 1


@pytest.mark.parametrize("case", ["backwards", "either", "unknown", "by a value", "of another"])
def test_conditions_that_bound_nothing(case: str) -> None:
    b = KernelBuilder("endless")
    x = b.buffer("x", float32, "read_write")
    n0 = b.cast(x[1], b.index_type.dtype) if case == "unknown" else b.const(0, b.index_type.dtype)
    with b.while_([x[0], n0, b.const(0, b.index_type.dtype)]) as loop:
        total, n, other = loop.carried
        is_low = n < 64
        loop.condition((total < 4.0) | is_low if case == "either" else (total < 4.0) & is_low)
        total, n, other = loop.carried
        step = b.cast(total, n.dtype) if case == "by a value" else -1 if case == "backwards" else 1
        grown = other + 1 if case == "of another" else n + step
        loop.yield_(total * 1.5, grown, n + 1)

    assert most_rounds(b.build()) is None
