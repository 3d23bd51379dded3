from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pyrite.kernel import Kernel, KernelBuilder, Memory, Value, to_text, verify
from pyrite.kernel.interpret import interpret
from pyrite.kernel.passes import eliminate_common, eliminate_dead, fold_constants, vectorize
from pyrite.testing.kernels import KernelExample, collatz_lengths, examples_of_kernels
from pyrite.testing.random_kernels import random_kernel
from pyrite.types import float32, int32


def cleaned(kernel: Kernel) -> Kernel:
    return eliminate_dead(eliminate_common(fold_constants(kernel)))


@pytest.mark.parametrize("width", [2, 4, 8])
@pytest.mark.parametrize("example", examples_of_kernels(), ids=lambda e: e.kernel.name)
def test_hand_written_kernels_compute_the_same(example: KernelExample, width: int) -> None:
    after = verify(vectorize(example.kernel, width))

    example.check(after)
    example.check(verify(cleaned(after)))


@pytest.mark.parametrize("width", [2, 8])
@pytest.mark.parametrize("seed", range(25))
def test_random_kernels_compute_the_same_bit_for_bit(seed: int, width: int) -> None:
    example = random_kernel(seed)
    after = verify(vectorize(example.kernel, width))

    assert after.workgroup_size == (16 // width, 1, 1)
    example.check(after, relative=0)


def test_a_golden_pair(golden: Callable[[str, str], None]) -> None:
    before = collatz_lengths().kernel
    after = cleaned(vectorize(before, 4))

    golden("vectorize.txt", f"{to_text(before)}\n\n{to_text(verify(after))}\n")


def memory_nodes(write: Callable[[KernelBuilder, Memory, Value], None]) -> list[str]:
    """Kind, width of the index and number of inputs of each access, four lanes at a time."""
    b = KernelBuilder("accesses", workgroup_size=8)
    x = b.buffer("x", float32, "read_write")
    write(b, x, b.global_id())
    kernel = verify(cleaned(vectorize(b.build(), 4)))
    return [
        f"{n.kind} {n.inputs[1].value_type.width} {len(n.inputs)}"
        for n in kernel.walk()
        if n.kind in ("load", "store")
    ]


@pytest.mark.parametrize(
    ("write", "found"),
    [
        (lambda b, x, i: x.store(i + 5, 1.0), ["store 1 3"]),
        (lambda b, x, i: x.store(i * 2, 1.0), ["store 4 3"]),
        (lambda b, x, i: x.store(i * 3 - i * 2, 1.0), ["store 1 3"]),
        (lambda b, x, i: x.store(i, x[0]), ["load 1 2", "store 1 3"]),
        (lambda b, x, i: x.store(i, x[i], mask=i < 5), ["load 1 2", "store 1 4"]),
        (lambda b, x, i: x.store(i ^ 1, 1.0), ["store 4 3"]),
        # Rows of whole vectors are not left, others are; neighbours share their row.
        (lambda b, x, i: x.store(i & 15, 1.0), ["store 1 3"]),
        (lambda b, x, i: x.store((i + 4) % 12, 1.0), ["store 1 3"]),
        (lambda b, x, i: x.store(i & 1, 1.0), ["store 4 3"]),
        (lambda b, x, i: x.store((i + 2) & 15, 1.0), ["store 4 3"]),
        # A row that may end between neighbours: one access where it does not.
        (lambda b, x, i: x.store(i % 6, 1.0), ["store 1 3", "store 4 3"]),
        (lambda b, x, i: x.store(i, x[i // 6]), ["load 1 2", "load 4 2", "store 1 3"]),
        (lambda b, x, i: x.store(i // 6 * 6 + i % 6, 1.0), ["store 1 3", "store 4 3"]),
        (lambda b, x, i: x.store(i % 6 * 2, 1.0), ["store 4 3"]),
        # A border, which one vector of many has.
        (lambda b, x, i: x.store(i, x[b.max(i - 1, 0)]), ["load 1 2", "load 4 2", "store 1 3"]),
        (lambda b, x, i: x.store(i, x[i >> 2]), ["load 1 2", "store 1 3"]),
        (lambda b, x, i: x.store(i, x[i // 12]), ["load 1 2", "store 1 3"]),
        (lambda b, x, i: x.store(i, x[i >> 1]), ["load 4 2", "store 1 3"]),
    ],
)
def test_neighbours_that_touch_neighbours_use_one_access(
    write: Callable[[KernelBuilder, Memory, Value], None], found: list[str]
) -> None:
    assert memory_nodes(write) == found


def rows_and_columns(shift: int, number: int) -> Kernel:
    """Of i - shift quotients, rests and comparisons by a number, each in a place of its own."""
    b = KernelBuilder("rows", workgroup_size=16)
    out = b.buffer("out", int32, "write")
    given = b.global_id()
    i, n = given - shift, b.index(number)
    whole = [i.apply("div", i, n), i.apply("rem", i, n), i & (number - 1)]
    whole += [i >> (number.bit_length() - 1)]
    sides = [i < n, i >= n, i <= n, i > n, n < i, n >= i, n <= i, n > i]
    for place, value in enumerate((*whole, *(b.cast(x, int32) for x in sides))):
        out.store(given * 12 + place, b.cast(value, int32))
    return b.build()


@pytest.mark.parametrize("width", [2, 4, 8])
def test_what_neighbours_share_is_what_each_has(width: int) -> None:
    for shift in (0, 1, 4, 8, 16, 24):
        for number in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32):
            before = rows_and_columns(shift, number)
            after = verify(vectorize(before, width))
            wanted, got = (np.zeros(48 * 12, np.int32) for _ in range(2))
            interpret(before, 3, wanted)
            interpret(after, 3, got)
            assert (got == wanted).all(), (shift, number)


def test_lanes_that_are_not_active_do_not_divide() -> None:
    b = KernelBuilder("divide", workgroup_size=8)
    x, y = b.buffer("x", int32, "read"), b.buffer("y", int32, "write")
    i = b.global_id()
    divisor = x[i]
    with b.if_(divisor != 0):
        y[i] = 100 // divisor
    values, found = np.array([0, 1, 2, 0, 5, 0, 0, -4], np.int32), np.zeros(8, np.int32)

    interpret(verify(vectorize(b.build(), 4)), 1, values, found)

    assert found.tolist() == [0, 100, 50, 0, 20, 0, 0, -25]


@pytest.mark.parametrize("reason", ["width", "vectors", "subgroups"])
def test_a_kernel_that_cannot_be_widened_is_returned_as_it_is(reason: str) -> None:
    b = KernelBuilder("kept", workgroup_size=6 if reason == "width" else 8)
    x = b.buffer("x", float32, "read_write")
    i = b.global_id()
    if reason == "vectors":
        x.store(i * 4, x.load(i * 4, width=4))
    x[i] = b.subgroup_broadcast(x[i]) if reason == "subgroups" else 1.0
    kernel = b.build()

    assert vectorize(kernel, 4) is kernel


def read_beside(size: int, by: int, is_masked: bool) -> Kernel:
    """Of rows of a size, elements beside each by several borders, added up and written back."""
    b = KernelBuilder("beside", workgroup_size=8)
    x, out = b.buffer("x", float32, "read"), b.buffer("out", float32, "read_write")
    at, n = b.global_id(), b.index(size)
    i, j = at.apply("div", at, n), at.apply("rem", at, n)
    y, z = j + by, j - by
    columns = [
        b.max(z, 0), b.min(y, n - 1), b.select(y >= n, y - n, y), b.select(z < 0, z + n, z),
        b.min(b.select(y >= n, n * 2 - 1 - y, y), n - 1), b.max(b.min(z, y), 0), n - 1 - j,
        b.select(at >= 3, j, n - 1 - j), b.select(at < 3, n - 1 - j, j),
        y.apply("rem", b.min(y, n - 1), b.index(3)),
    ]  # fmt: skip

    def write() -> None:
        total = x[i * n + j] + x[i] + x.load(z, mask=(z >= 0) & (z < n), other=0.5)
        total = total + x.load(i + 38, mask=i < 2, other=0.25)
        for weight, column in enumerate(columns):
            total = total + (x[i * n + column] + x[column] * 0.5) * float(weight + 2)
        out.store(i * n + columns[2], total, mask=j != 1)

    if is_masked:
        with b.if_((at & 3) != 1):
            write()
    else:
        write()
    return b.build()


@pytest.mark.parametrize("width", [2, 4, 8])
@pytest.mark.parametrize("is_masked", [False, True])
def test_what_neighbours_nearly_share_is_what_each_reads(width: int, is_masked: bool) -> None:
    x = np.arange(40, dtype=np.float32) ** 2
    for size in (1, 2, 3, 5, 6, 8, 11, 16):
        for by in (1, 2):
            if by > size:
                continue
            before = read_beside(size, by, is_masked)
            after = verify(cleaned(vectorize(before, width)))
            groups = max(1, 40 // size * size // 8 - 1)
            wanted, got = np.zeros(40, np.float32), np.zeros(40, np.float32)
            interpret(before, groups, x, wanted)
            interpret(after, groups, x, got)
            assert (got == wanted).all(), (size, by)


@pytest.mark.parametrize("name", ["add", "max", "exchange", "store", "load", "exchange_equal"])
def test_lanes_that_are_not_active_change_no_count(name: str) -> None:
    b = KernelBuilder("counts", workgroup_size=8)
    x, old = b.buffer("x", int32, "read"), b.buffer("old", int32, "write")
    bins = b.shared(int32, 5, access="atomic")
    i, local = b.global_id(), b.local_id()
    bins.atomic("store", local, 3, mask=local < 5)
    b.barrier()
    with b.if_(x[i] >= 0):
        expected = 4 if name == "exchange_equal" else None
        old[i] = bins.atomic(name, x[i], 4, expected=expected, mask=x[i] < 5)
    b.barrier()
    old.store(i + 16, bins.atomic("load", local, mask=local < 5), mask=local < 5)
    values = np.array([0, 1, -1, 7, 2, 4, 9, 3, -3, 4, 3, 5, 6, 0, 1, -9], np.int32)
    wanted, found = np.full(32, -1, np.int32), np.full(32, -1, np.int32)

    interpret(b.build(), 2, values, wanted)
    interpret(verify(cleaned(vectorize(b.build(), 4))), 2, values, found)
    assert (found == wanted).all()


@pytest.mark.parametrize("name", ["add", "min", "max", "and", "or", "xor"])
@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("value", ["lane", "same"])
def test_lanes_that_change_one_element_change_it_once_unless_one_asks(
    name: str, value: str, asks: bool
) -> None:
    b = KernelBuilder("one", workgroup_size=16)
    y = b.buffer("y", int32, "atomic")
    out = b.buffer("out", int32, "write")
    given = b.global_id() * 37 % 29 + 3 if value == "lane" else b.workgroup_id() + 5
    before = y.atomic(name, b.workgroup_id() % 2, given)
    out[b.global_id()] = before if asks else given
    kernel = b.build()
    after = verify(vectorize(kernel, 8))

    assert sum(n.kind == "atomic" for n in after.walk()) == (8 if asks else 1)
    found, wanted = ([np.array([21, -9], np.int32), np.zeros(64, np.int32)] for _ in range(2))
    interpret(kernel, (4,), *wanted)
    interpret(cleaned(after), (4,), *found)
    np.testing.assert_array_equal(found[0], wanted[0])
