from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from pyrite.kernel import Kernel, KernelBuilder, Value, to_text, verify
from pyrite.kernel.ir import vector
from pyrite.kernel.passes import eliminate_dead, fold_constants
from pyrite.kernel.template.lanes import interleaved, sum_of_lanes
from pyrite.testing.kernels import KernelExample, examples_of_kernels
from pyrite.testing.random_kernels import random_kernel
from pyrite.types import bool_, float32, int8, int32, uint32


@pytest.mark.parametrize("example", examples_of_kernels(), ids=lambda e: e.kernel.name)
def test_hand_written_kernels_compute_the_same(example: KernelExample) -> None:
    example.check(verify(fold_constants(example.kernel)))


@pytest.mark.parametrize("seed", range(25))
def test_random_kernels_compute_the_same_bit_for_bit(seed: int) -> None:
    example = random_kernel(seed)

    example.check(verify(fold_constants(example.kernel)), relative=0)


def test_a_golden_pair(golden: Callable[[str, str], None]) -> None:
    b = KernelBuilder("pair")
    x = b.buffer("x", float32, "read_write")
    i = b.global_id() * 1 + 0
    four = b.const(2, int32) * 2
    with b.if_(four > 3) as branch:
        branch.yield_(x[i + four] * 1.0 + 0.0)
    with branch.else_():
        branch.yield_(x[i] - 0.0)
    with b.for_(four, 4, carried=[branch.results[0]]) as loop:
        loop.yield_(loop.carried[0] * 3.0)
    x[i] = loop.results[0] * b.cast(four, float32)
    before = b.build()
    after = eliminate_dead(fold_constants(before))

    golden("fold_constants.txt", f"{to_text(before)}\n\n{to_text(verify(after))}\n")


def test_a_fence_stays_for_a_target_that_rewrites_arithmetic() -> None:
    b = KernelBuilder("fenced")
    x = b.buffer("x", float32, "read_write")
    x[0] = b.fence(x[0] * 3.0) + x[1]
    kernel = b.build()

    def fences(kernel: Kernel) -> int:
        return sum(n.kind == "alu" and n.attr == "fence" for n in kernel.walk())

    assert fences(verify(fold_constants(kernel, keeps_fences=True))) == 1
    assert fences(verify(fold_constants(kernel))) == 0


def folded(value: Callable[[KernelBuilder], Value]) -> object:
    b = KernelBuilder("value")
    found = value(b)
    memory = b.buffer("y", found.dtype, "write")
    memory.store(0, found)
    kernel = verify(fold_constants(b.build()))
    stored = kernel.body.body[-1].inputs[2]
    return stored.attr if stored.kind == "const" else stored.kind


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (lambda b: b.const(127, int8) + 1, -128),
        (lambda b: b.const(-7, int32) // 2, -3),
        (lambda b: b.const(-7, int32) % 2, -1),
        (lambda b: b.const(7, int32) // 0, "alu"),
        (lambda b: b.const(-(2**31), int32) // -1, "alu"),
        (lambda b: b.cast(b.const(-1, int8), uint32), 2**32 - 1),
        (lambda b: b.bitcast(b.const(1.0, float32), int32), 0x3F800000),
        (lambda b: b.bitcast(b.const(math.nan, float32), int32), "bitcast"),
        (lambda b: b.bitcast(b.const(0x7FC00001, int32), float32), "bitcast"),
        (lambda b: b.select(b.const(True, bool_), b.const(1, int32), 2), 1),
        (lambda b: b.splat(b.const(3, int32), 4), 3),
        (lambda b: b.make([b.const(1, int32), b.const(2, int32)]), (1, 2)),
        (lambda b: b.const((1, 2), vector(int32, 2))[1], 2),
        (lambda b: b.const(1.0, float32) / 0.0, math.inf),
        (lambda b: b.make([b.const(0.0, float32), b.const(-0.0, float32)]), (0.0, -0.0)),
    ],
)
def test_a_constant_is_what_the_interpreter_gives(
    value: Callable[[KernelBuilder], Value], wanted: object
) -> None:
    assert repr(folded(value)) == repr(wanted)


def test_nan_is_folded_to_nan() -> None:
    assert folded(lambda b: b.const(math.inf, float32) - math.inf) is not None


def kept(change: Callable[[Value], Value]) -> bool:
    """Whether an operation on a value from memory is still there."""
    b = KernelBuilder("kept")
    x = b.buffer("x", float32, "read_write")
    x[0] = change(x[0])
    kernel: Kernel = verify(fold_constants(b.build()))
    return any(n.kind == "alu" for n in kernel.walk())


@pytest.mark.parametrize(
    ("change", "is_kept"),
    [
        (lambda x: x * 1.0, False), (lambda x: x / 1.0, False), (lambda x: x - 0.0, False),
        (lambda x: x + -0.0, False), (lambda x: x + 0.0, True), (lambda x: x * 0.0, True),
        (lambda x: x - -0.0, True), (lambda x: 1.0 * x, False), (lambda x: 1.0 / x, True),
    ],
)  # fmt: skip
def test_only_what_changes_no_float_is_dropped(
    change: Callable[[Value], Value], is_kept: bool
) -> None:
    assert kept(change) == is_kept


def interleaved_twice(rows: list[Value]) -> list[Value]:
    for _ in range(2):
        pairs = ((rows[0], rows[2]), (rows[1], rows[3]))
        rows = [part for pair in pairs for part in interleaved(pair)]
    return rows


def test_a_network_of_two_vectors_at_a_time_stays_one() -> None:
    b = KernelBuilder("turn")
    x = b.buffer("x", float32, "read_write")
    rows = [x.load(4 * i, width=4) for i in range(4)]
    for i, row in enumerate(interleaved_twice(rows)):
        x.store(4 * i, row)
    folded = eliminate_dead(fold_constants(b.build()))

    made = [node for node in folded.body.body if node.kind == "make"]
    assert len(made) == 8, "two steps of four vectors each"
    assert all(len({e.inputs[0] for e in node.inputs}) == 2 for node in made)


def test_parts_of_one_vector_are_its_elements() -> None:
    b = KernelBuilder("sum")
    x = b.buffer("x", float32, "read_write")
    x.store(0, sum_of_lanes(x.load(0, width=8)))
    folded = eliminate_dead(fold_constants(b.build()))

    of = {e.inputs[0].kind for e in folded.body.body if e.kind == "extract"}
    assert of == {"load", "alu"}
