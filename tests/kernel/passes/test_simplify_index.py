from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pyrite.kernel import Kernel, KernelBuilder, Memory, Value, to_text, verify
from pyrite.kernel.interpret import interpret
from pyrite.kernel.passes import Known, eliminate_dead, fold_constants, simplify_index
from pyrite.kernel.uniformity import varying
from pyrite.testing.kernels import KernelExample, examples_of_kernels
from pyrite.testing.random_kernels import GROUPS, random_kernel
from pyrite.types import float32, int32, uint32


@pytest.mark.parametrize("example", examples_of_kernels(), ids=lambda e: e.kernel.name)
def test_hand_written_kernels_compute_the_same(example: KernelExample) -> None:
    for workgroups in ((), example.workgroups):
        example.check(verify(simplify_index(example.kernel, workgroups=workgroups)))


@pytest.mark.parametrize("seed", range(25))
def test_random_kernels_compute_the_same_bit_for_bit(seed: int) -> None:
    example = random_kernel(seed)
    for known in ({}, {"n": Known(3, 3, 3)}):
        after = simplify_index(example.kernel, known, (GROUPS,))

        example.check(verify(after), relative=0)


def test_a_golden_pair(golden: Callable[[str, str], None]) -> None:
    b = KernelBuilder("pair", workgroup_size=64)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    columns = b.scalar("columns", int32)
    i = (b.workgroup_id() * 64 + b.local_id()) * 4
    row, column = i // 256, i % 256
    inside = (column < 256) & (i >= 0)
    loaded = x.load(row * columns + column, width=4, mask=inside)
    y.store((row % 3) * 256 + column, loaded, mask=column < 0)
    y.store(i, loaded, mask=inside)
    before = b.build()
    after = simplify_index(fold_constants(before), {"columns": Known(256, 4096, 256)}, (32,))
    after = eliminate_dead(
        simplify_index(fold_constants(after), {"columns": Known(256, 4096, 256)})
    )

    golden("simplify_index.txt", f"{to_text(before)}\n\n{to_text(verify(after))}\n")


@pytest.mark.parametrize(
    ("index", "left"),
    [
        (lambda b, i: i // 640, []),
        (lambda b, i: i % 640, []),
        (lambda b, i: i // 8, ["shr"]),
        (lambda b, i: i % 8, ["and"]),
        (lambda b, i: i // 7, ["div"]),
        (lambda b, i: (i * 4 + 3) // 4, []),
        (lambda b, i: (i * 12 + 3) // 4, []),
        (lambda b, i: (i * 7) % 7, []),
        (lambda b, i: (i * 6 + 7) % 3, []),
        (lambda b, i: (i - 700) // 8, ["sub", "div"]),
        (lambda b, i: b.min(i, 639), []),
        (lambda b, i: b.max(i, 639), []),
        (lambda b, i: i & 1023, []),
        (lambda b, i: i & 255, ["and"]),
        (lambda b, i: b.select(i < 640, i, 0), []),
    ],
)
def test_what_is_left_of_an_index(
    index: Callable[[KernelBuilder, Value], Value], left: list[str]
) -> None:
    b = KernelBuilder("index", workgroup_size=64)
    y = b.buffer("y", int32, "write")
    y[index(b, b.global_id())] = 1
    kernel = fold_constants(simplify_index(b.build(), workgroups=(10,)))

    names = [n.attr for n in verify(eliminate_dead(kernel)).walk() if n.kind == "alu"]

    assert [n for n in names if n not in ("mul", "add")] == left


@pytest.mark.parametrize(
    ("number", "is_alike"), [(192, True), (64, True), (448, True), (96, False), (100, False)]
)
def test_neighbours_in_one_row_are_divided_once(number: int, is_alike: bool) -> None:
    b = KernelBuilder("rows", workgroup_size=64)
    out = b.buffer("out", int32, "write")
    i = b.global_id()
    sides = [b.cast(c, int32) for c in (i < number, i >= number, number > i, number <= i)]
    side = sides[0] + sides[1] * 2 + sides[2] * 4 + sides[3] * 8
    out[i] = i // number * 100_000 + i % number * 100 + side
    kernel = b.build()
    after = verify(eliminate_dead(fold_constants(simplify_index(kernel))))

    apart = varying(after)
    names = ("div", "rem", "lt", "ge", "gt", "le")
    of_rows = [n for n in after.walk() if n.kind == "alu" and n.attr in names]
    assert apart.isdisjoint(of_rows) == is_alike
    wanted, got = np.zeros(640, np.int32), np.zeros(640, np.int32)
    interpret(kernel, 10, wanted)
    interpret(after, 10, got)
    at = np.arange(640)
    is_below = np.where(at < number, 5, 10)
    assert (wanted == at // number * 100_000 + at % number * 100 + is_below).all()
    assert (got == wanted).all()


def accesses(write: Callable[[KernelBuilder, Memory, Value], None]) -> list[tuple[int, bool]]:
    """Of each store: its number of inputs, and whether it is aligned."""
    b = KernelBuilder("access", workgroup_size=64)
    y = b.buffer("y", float32, "write")
    write(b, y, b.global_id())
    kernel: Kernel = verify(simplify_index(b.build(), workgroups=(10,)))
    return [(len(n.inputs), n.attr) for n in kernel.walk() if n.kind == "store"]


def test_a_mask_that_is_always_true_is_dropped_and_its_opposite_drops_the_store() -> None:
    def write(b: KernelBuilder, y: Memory, i: Value) -> None:
        y.store(i, 1.0, mask=i < 640)
        y.store(i, 2.0, mask=i < 0)
        y.store(i, 3.0, mask=i < 639)

    assert accesses(write) == [(3, True), (4, True)]


def test_an_index_that_the_width_divides_is_aligned() -> None:
    def write(b: KernelBuilder, y: Memory, i: Value) -> None:
        four = b.splat(b.const(1.0, float32), 4)
        y.store(i * 4, four)
        y.store(i * 4 + 2, four)
        y.store((i << 3) - 4, four)
        with b.for_(0, 64, step=8) as loop:
            y.store(loop.index + 4, four)

    assert accesses(write) == [(3, True), (3, False), (3, True), (3, True)]


def test_arithmetic_that_wraps_around_is_not_taken_for_an_index() -> None:
    b = KernelBuilder("hash", workgroup_size=64)
    y = b.buffer("y", uint32, "write")
    word = b.cast(b.global_id(), uint32) * 0x9E3779B9
    y[b.global_id()] = (word * 6 + 1) // 3 + word % 3

    names = [n.attr for n in simplify_index(b.build()).walk() if n.kind == "alu"]

    assert names.count("div") == names.count("rem") == 1
