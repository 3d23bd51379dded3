from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pyrite.errors import KernelError
from pyrite.kernel import KernelBuilder, Memory, Value, verify
from pyrite.kernel.interpret import interpret
from pyrite.testing.kernels import KernelExample, examples_of_kernels
from pyrite.types import Array, DType, float32, int32, uint32

SIZE = 8


@pytest.mark.parametrize("example", examples_of_kernels(), ids=lambda e: e.kernel.name)
def test_a_hand_written_kernel_computes_what_it_should(example: KernelExample) -> None:
    values = example.fresh()

    interpret(verify(example.kernel), example.workgroups, *values)

    for found, wanted in zip(values, example.expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_more_workgroups_than_run_at_once_give_the_same() -> None:
    b = KernelBuilder("count", workgroup_size=256)
    y = b.buffer("y", int32, "write")
    y[b.global_id()] = b.workgroup_id() + b.num_workgroups()
    count = 300
    found = np.zeros(count * 256, np.int32)

    interpret(b.build(), count, found)

    np.testing.assert_array_equal(found, np.repeat(np.arange(count), 256) + count)


def test_a_grid_of_three_axes_is_counted_with_axis_0_fastest() -> None:
    b = KernelBuilder("axes", workgroup_size=(2, 3, 2), grid=3)
    y = b.buffer("y", int32, "write")
    at, scale = b.local_index(), 12
    for axis, size in enumerate((2, 3, 4)):
        at = at + b.workgroup_id(axis) * scale
        scale *= size
    y[at] = b.local_id(0) + b.local_id(1) * 10 + b.local_id(2) * 100
    found = np.zeros(24 * 12, np.int32)

    interpret(b.build(), (2, 3, 4), found)

    one = [x + 10 * y + 100 * z for z in range(2) for y in range(3) for x in range(2)]
    np.testing.assert_array_equal(found, one * 24)


# ---- faults ----

Body = Callable[[KernelBuilder, Memory, Memory, Value], None]


def run(body: Body, size: int = SIZE, workgroups: int = 1) -> Array:
    b = KernelBuilder("faulty", workgroup_size=SIZE)
    x, shared = b.buffer("x", int32, "read_write"), b.shared(int32, SIZE)
    body(b, x, shared, b.local_index())
    values = np.arange(size, dtype=np.int32)
    interpret(b.build(), workgroups, values)
    return values


def outside(b: KernelBuilder, x: Memory, shared: Memory, lane: Value) -> None:
    x[lane] = x[lane + 1]


def before_the_first(b: KernelBuilder, x: Memory, shared: Memory, lane: Value) -> None:
    x[lane] = x[lane - 1]


def one_of_some_outside(b: KernelBuilder, x: Memory, shared: Memory, lane: Value) -> None:
    with b.if_(lane > 4):
        x[lane] = x[b.const(9, int32)]


def unaligned(b: KernelBuilder, x: Memory, shared: Memory, lane: Value) -> None:
    x.store(lane * 0 + 1, x.load(0, width=4, is_aligned=True), is_aligned=True)


def divided_by_zero(b: KernelBuilder, x: Memory, shared: Memory, lane: Value) -> None:
    x[lane] = 5 // x[lane]


def divided_beyond(b: KernelBuilder, x: Memory, shared: Memory, lane: Value) -> None:
    x[lane] = b.const(-(2**31), int32) % (lane * 0 - 1)


def without_barrier(b: KernelBuilder, x: Memory, shared: Memory, lane: Value) -> None:
    shared[lane] = lane
    x[lane] = shared[7 - lane]


def written_after_read(b: KernelBuilder, x: Memory, shared: Memory, lane: Value) -> None:
    shared[lane] = lane
    b.barrier()
    found = shared[7 - lane]
    shared[lane] = found


def all_write_one(b: KernelBuilder, x: Memory, shared: Memory, lane: Value) -> None:
    x[0] = lane


def half_a_barrier(b: KernelBuilder, x: Memory, shared: Memory, lane: Value) -> None:
    with b.if_(lane < 4):
        b.barrier()


def workgroup_barrier_for_a_buffer(
    b: KernelBuilder, x: Memory, shared: Memory, lane: Value
) -> None:
    x[lane] = lane
    b.barrier("workgroup")
    x[lane] = x[7 - lane]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (outside, r"x\[8\] is outside of 8 elements at load %\d+ in workgroup 0, invocation 7"),
        (before_the_first, r"x\[-1\] is outside of 8 elements at load %\d+ in .* invocation 0"),
        (one_of_some_outside, r"x\[9\] is outside of 8 elements at load %\d+ in .* invocation 5"),
        (unaligned, r"index 1 is not aligned to 4"),
        (divided_by_zero, r"integer div by 0, or overflow at alu %\d+ in workgroup 0, invoc.* 0"),
        (divided_beyond, r"integer rem by 0, or overflow"),
        (without_barrier, r"%0\[7\] was written by invocation 7 with no barrier between"),
        (written_after_read, r"%0\[0\] was read by invocation 7 with no barrier between"),
        (all_write_one, r"two invocations write element 0"),
        (half_a_barrier, r"only part of workgroup 0 arrives"),
        (workgroup_barrier_for_a_buffer, r"x\[7\] was written by invocation 7"),
    ],
)
def test_a_fault_is_reported_with_its_place(body: Body, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        run(body)


def test_one_element_that_all_read_is_checked() -> None:
    b = KernelBuilder("faulty", workgroup_size=SIZE)
    x, y = b.buffer("x", int32, "read"), b.buffer("y", int32, "write")
    y[b.local_index()] = x[b.const(3, int32)]
    found = np.zeros(SIZE, np.int32)

    interpret(b.build(), 1, np.arange(4, dtype=np.int32), found)
    np.testing.assert_array_equal(found, [3] * SIZE)
    with pytest.raises(KernelError, match=r"x\[3\] is outside of 3 elements"):
        interpret(b.build(), 1, np.arange(3, dtype=np.int32), found)


def test_two_workgroups_that_write_one_element_are_a_race() -> None:
    with pytest.raises(KernelError, match="two invocations write element 0"):
        run(lambda b, x, shared, lane: x.store(0, lane, mask=lane == 0), workgroups=2)


def test_a_storage_barrier_shows_writes_to_buffers() -> None:
    def body(b: KernelBuilder, x: Memory, shared: Memory, lane: Value) -> None:
        x[lane] = lane * 2
        b.barrier("storage")
        found = x[7 - lane]
        b.barrier("storage")
        x[lane] = found

    np.testing.assert_array_equal(run(body), np.arange(14, -1, -2))


def test_a_masked_access_outside_is_no_fault() -> None:
    def body(b: KernelBuilder, x: Memory, shared: Memory, lane: Value) -> None:
        found = x.load(lane + 4, mask=lane < 4, other=-1)
        b.barrier("storage")
        x[lane] = found

    np.testing.assert_array_equal(run(body), [4, 5, 6, 7, -1, -1, -1, -1])


def test_an_inactive_division_by_zero_is_no_fault() -> None:
    def body(b: KernelBuilder, x: Memory, shared: Memory, lane: Value) -> None:
        with b.if_(lane > 0):
            x[lane] = 8 // lane

    np.testing.assert_array_equal(run(body), [0, 8, 4, 2, 2, 1, 1, 1])


def test_memory_that_was_never_written_is_not_zero() -> None:
    found = run(lambda b, x, shared, lane: x.store(lane, shared[lane]))

    assert (found != 0).all()


def test_wrong_values_for_parameters_are_refused() -> None:
    b = KernelBuilder("k")
    b.buffer("x", int32, "read")
    kernel = b.build()

    with pytest.raises(KernelError, match="requires 1 values, got 0"):
        interpret(kernel, 1)
    with pytest.raises(KernelError, match="requires an array of int32, got float32"):
        interpret(kernel, 1, np.zeros(3, np.float32))
    with pytest.raises(KernelError, match="requires a flat array"):
        interpret(kernel, 1, np.zeros((3, 2), np.int32))


# ---- atomics and subgroups ----


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("add", 28 + 5), ("min", 0), ("max", 7), ("and", 0), ("or", 7), ("xor", 5), ("exchange", 7)],
)
def test_atomics_of_all_invocations_add_up(name: str, wanted: int) -> None:
    b = KernelBuilder("k", workgroup_size=SIZE)
    x = b.buffer("x", int32, "atomic")
    x.atomic(name, 0, b.local_index())
    found = np.array([5], np.int32)

    interpret(verify(b.build()), 1, found)

    assert found[0] == wanted


def test_only_one_invocation_wins_an_exchange() -> None:
    b = KernelBuilder("k", workgroup_size=SIZE)
    x, y = b.buffer("x", uint32, "atomic"), b.buffer("y", uint32, "write")
    i = b.local_index()
    y[i] = x.atomic("exchange_equal", 0, b.cast(i, uint32) + 10, expected=0)
    word, old = np.zeros(1, np.uint32), np.zeros(SIZE, np.uint32)

    interpret(verify(b.build()), 1, word, old)

    assert word[0] == 10
    np.testing.assert_array_equal(old, [0] + [10] * 7)


Collective = Callable[[KernelBuilder, Value], Value]


@pytest.mark.parametrize(
    ("operation", "wanted"),
    [
        (lambda b, x: b.subgroup_reduce("add", x), [6] * 4 + [22] * 4),
        (lambda b, x: b.subgroup_reduce("max", x), [3] * 4 + [7] * 4),
        (lambda b, x: b.subgroup_scan("add", x), [0, 1, 3, 6, 4, 9, 15, 22]),
        (lambda b, x: b.subgroup_scan("add", x, is_inclusive=False), [0, 0, 1, 3, 0, 4, 9, 15]),
        (lambda b, x: b.subgroup_shuffle(x, 1, "xor"), [1, 0, 3, 2, 5, 4, 7, 6]),
        (lambda b, x: b.subgroup_shuffle(x, 2), [2] * 4 + [6] * 4),
        (lambda b, x: b.subgroup_broadcast(x), [0] * 4 + [4] * 4),
        (lambda b, x: b.cast(b.subgroup_ballot(x > 4)[0], int32), [0] * 4 + [0b1110] * 4),
        (lambda b, x: b.subgroup_lane() + b.subgroup_size(), [4, 5, 6, 7] * 2),
    ],
)
def test_subgroups_of_four(operation: Collective, wanted: list[int]) -> None:
    b = KernelBuilder("k", workgroup_size=SIZE)
    y, lane = b.buffer("y", int32, "write"), b.local_index()
    y[lane] = operation(b, lane)
    found = np.zeros(SIZE, np.int32)

    interpret(verify(b.build()), 1, found, subgroup_size=4)

    np.testing.assert_array_equal(found, wanted)


def test_only_active_lanes_take_part_in_a_subgroup() -> None:
    b = KernelBuilder("k", workgroup_size=SIZE)
    y, lane = b.buffer("y", int32, "write"), b.local_index()
    with b.if_((lane & 1) == 1):
        y[lane] = b.subgroup_reduce("add", lane)
    found = np.zeros(SIZE, np.int32)

    interpret(verify(b.build()), 1, found, subgroup_size=4)

    np.testing.assert_array_equal(found, [0, 4, 0, 4, 0, 12, 0, 12])


@pytest.mark.parametrize("dtype", [float32, int32])
def test_min_and_max_take_the_second_unless_the_first_is_beyond(dtype: DType) -> None:
    b = KernelBuilder("k", workgroup_size=4)
    x, y = b.buffer("x", dtype, "read"), b.buffer("y", dtype, "write")
    i = b.global_id()
    y[i] = b.min(x[i], x[i + 4])
    numbers = [1, 2, float("nan"), 4, 2, 1, 5, float("nan")]
    values = np.array([0 if n != n and dtype is int32 else n for n in numbers], dtype.numpy)
    found = np.zeros(4, dtype.numpy)

    interpret(verify(b.build()), 1, values, found)

    wanted = [1, 1, 5, np.nan] if dtype is float32 else [1, 1, 0, 0]
    np.testing.assert_array_equal(found, np.array(wanted, dtype.numpy))


def test_a_loop_that_is_said_to_be_entered_and_is_not_is_a_fault() -> None:
    b = KernelBuilder("sums", workgroup_size=4)
    x, n = b.buffer("x", int32, "read_write"), b.scalar("n", int32)
    with b.for_(0, n, carried=[b.const(0, int32)], is_entered=True) as loop:
        loop.yield_(loop.carried[0] + loop.index)
    x[b.global_id()] = loop.results[0]
    kernel = b.build()
    found = np.zeros(4, np.int32)

    interpret(kernel, 1, found, 4)
    assert found.tolist() == [6, 6, 6, 6]
    with pytest.raises(KernelError, match="said to be entered"):
        interpret(kernel, 1, found, 0)
