"""Subgroups in vectors, judged by the interpreter, whose subgroups have as many invocations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyrite.kernel import Kernel, KernelBuilder, Value, verify
from pyrite.kernel.interpret import interpret
from pyrite.kernel.passes import (
    SUBGROUP,
    eliminate_dead,
    fold_constants,
    joins_subgroups,
    split_barriers,
    vectorize,
    vectorize_in_strips,
)
from pyrite.types import DType, bool_, float32, int32, int64, uint32

#: Workgroups of two subgroups.
INVOCATIONS, GROUPS = 2 * SUBGROUP, 3

Ask = Callable[[KernelBuilder, Value], Value]


def kernel_of(ask: Ask, dtype: DType, size: int = INVOCATIONS) -> Kernel:
    """What each invocation is told of its element, twice over in a loop that all run."""
    b = KernelBuilder("asked", workgroup_size=size)
    x, out = b.buffer("x", dtype, "read"), b.buffer("out", dtype, "write")
    i = b.global_id()
    with b.for_(0, 2, carried=[x[i]]) as loop:
        loop.yield_(ask(b, loop.carried[0]))
    out[i] = loop.results[0]
    return b.build()


NUMBERS = ("add", "mul", "min", "max")
BITS = ("and", "or", "xor")


@pytest.mark.parametrize("dtype", [float32, int32, uint32, int64, bool_], ids=lambda d: d.name)
@pytest.mark.parametrize("how", ["reduce", "inclusive", "exclusive"])
def test_each_operation_equals_the_interpreters(how: str, dtype: DType) -> None:
    rng = np.random.default_rng(0)
    names = BITS if dtype.is_bool else NUMBERS if dtype.is_float else (*NUMBERS, *BITS)
    for name in names:

        def ask(b: KernelBuilder, v: Value, name: str = name) -> Value:
            if how == "reduce":
                return b.subgroup_reduce(name, v)
            return b.subgroup_scan(name, v, is_inclusive=how == "inclusive")

        # Whole numbers, and signs for products, so that no order of additions is another.
        ends = (0, 2) if dtype.is_bool else (1, 3) if dtype.kind == "uint" else (-1, 2)
        given: Any = rng.integers(*ends, GROUPS * INVOCATIONS).astype(dtype.numpy)
        agree(kernel_of(ask, dtype), given)


def agree(kernel: Kernel, given: Any) -> None:
    after = verify(vectorize(kernel, SUBGROUP))
    assert after.workgroup_size == (kernel.workgroup_size[0] // SUBGROUP, 1, 1)
    last = verify(eliminate_dead(fold_constants(split_barriers(after))))
    wanted = np.zeros_like(given)
    interpret(kernel, GROUPS, given, wanted, subgroup_size=SUBGROUP)
    for one in (after, last):
        got = np.zeros_like(given)
        interpret(one, GROUPS, given, got)
        np.testing.assert_array_equal(got, wanted)


def test_a_scan_keeps_negative_zeros_and_what_is_no_number() -> None:
    given = np.full(GROUPS * INVOCATIONS, -0.0, np.float32)
    given[5::16], given[7::32] = np.inf, -np.inf
    for name in ("add", "min", "max"):
        kernel = kernel_of(lambda b, v, name=name: b.subgroup_scan(name, v), float32)
        after = verify(vectorize(kernel, SUBGROUP))
        wanted, got = np.zeros_like(given), np.zeros_like(given)
        with np.errstate(invalid="ignore"):
            interpret(kernel, GROUPS, given, wanted, subgroup_size=SUBGROUP)
            interpret(after, GROUPS, given, got)
        np.testing.assert_array_equal(got, wanted)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))


def test_the_first_lane_tells_the_others() -> None:
    given = np.random.default_rng(1).normal(size=GROUPS * INVOCATIONS).astype(np.float32)
    agree(kernel_of(lambda b, v: b.subgroup_broadcast(v) * 2.0, float32), given)


@pytest.mark.parametrize("how", ["index", "xor", "up", "down"])
def test_a_shuffle_by_a_constant_equals_the_interpreters(how: str) -> None:
    given = np.random.default_rng(2).normal(size=GROUPS * INVOCATIONS).astype(np.float32)
    for by in (0, 1, 7, SUBGROUP - 1, SUBGROUP):
        agree(kernel_of(lambda b, v, by=by: b.subgroup_shuffle(v, by, how), float32), given)


def test_what_vectors_lack_stays_as_it_is() -> None:
    """Part of a subgroup, a shuffle by what is computed, and a branch that only some take."""

    def at_some(b: KernelBuilder, v: Value) -> Value:
        with b.if_(v > 0) as branch:
            branch.yield_(b.subgroup_reduce("add", v))
        with branch.else_():
            branch.yield_(v)
        return branch.results[0]

    def total(b: KernelBuilder, v: Value) -> Value:
        return b.subgroup_reduce("add", v)

    def swapped(b: KernelBuilder, v: Value) -> Value:
        return b.subgroup_shuffle(v, b.workgroup_id(), "xor")

    for kernel in (
        kernel_of(at_some, int32),
        kernel_of(total, int32, 24),
        kernel_of(swapped, int32),
    ):
        assert not joins_subgroups(kernel)
        assert vectorize_in_strips(kernel, 8) is kernel
    assert joins_subgroups(kernel_of(total, int32))
