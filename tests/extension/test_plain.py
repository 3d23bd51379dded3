"""Plain Python in a kernel means what Python means: each is judged by running it as Python.

On ``numpy`` the function runs as it was written, invocation by invocation; elsewhere it is
recorded.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, custom_op
from pyrite.backend.device import Device
from pyrite.errors import IndexRangeError, KernelError
from pyrite.extension import kernel

ROWS, COLUMNS = 9, 11


def by_if(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    if x[i, 0] > 0.0:
        value = x[i, 1]
    elif n[i] > 3:
        value = 2
    else:
        value = -1.5
    out[i] = value


def by_one_side(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    value = x[i, 0]
    if value < 0:
        value = -value
    out[i] = value


def nothing_unless(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    out[i] = 0.0
    if n[i] < 3:
        return
    out[i] = x[i, n[i]]


def summed(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    total = 0.0
    for j in range(x.shape[1]):
        total += x[i, j]
    out[i] = total


def weighted(k: Any, x: Any, n: Any, out: Any) -> None:
    """Counters and coordinates are numbers, which meet floats."""
    (i,) = k.at
    total, sign = 0, 1
    for j in range(1, x.shape[1], 2):
        total += sign * x[i, j] * j / 2 + i * 0.25
        sign = -sign
    out[i] = total


def downwards(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    total = 0.0
    for j in range(x.shape[1] - 1, -1, -1):
        total = total / 2 + x[i, j]
    for j in range(10, 3, -3):
        total = total / 2 + x[i, j]
    for j in range(n[i], 0, -2):
        total = total / 2 + x[i, j]
    out[i] = total


def of_values(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    total = 0.0
    for j in range(n[i]):
        for m in range(j, n[i], 3):
            total += x[i, m] * (m - j)
    for _ in range(n[i], 4):
        total -= 1.0
    out[i] = total


def hardly(k: Any, x: Any, n: Any, out: Any) -> None:
    """Ranges of no round and of one."""
    (i,) = k.at
    total = x[i, 0]
    for j in range(0):
        total += j
    for j in range(5, 6):
        total += x[i, j]
    for j in range(3, 0):
        total += j
    out[i] = total


def by_while(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    z, rounds = x[i, 0], 0
    while abs(z) < 50.0 and rounds < 30:
        z = z * z + x[i, 1] + 1.0
        rounds += 1
    out[i] = rounds


def forever(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    j = 0
    while True:
        if j >= x.shape[1]:
            break
        if x[i, j] > 1.0:
            break
        j += 1
    out[i] = j


def by_walrus(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    j, total = 0, 0.0
    while (value := x.get(i, j)) != 0.0:
        total += value
        j = j + 1
    out[i] = total


def first_above(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    found = -1
    for j in range(x.shape[1]):
        if x[i, j] > 0.5:
            found = j
            break
    else:
        found = 100
    out[i] = found


def some_rounds(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    total = 0.0
    for j in range(x.shape[1]):
        if x[i, j] < 0.0:
            continue
        for m in range(j):
            if m == n[i]:
                break
            if x[i, m] > x[i, j]:
                continue
            total += x[i, m]
        if total > 3.0:
            break
        total += x[i, j]
    out[i] = total


def left_from_inside(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    out[i] = -1.0
    for j in range(x.shape[1]):
        for m in range(j):
            if x[i, m] + x[i, j] > 2.0:
                out[i] = j * 100 + m
                return
    out[i] = -2.0


def short(k: Any, x: Any, n: Any, out: Any) -> None:
    """What is to the right is not read where what is to the left decides."""
    (i,) = k.at
    last = n[i] * 4
    inside = last < x.shape[1] and x[i, last] > 0.0
    outside = last >= x.shape[1] or not x[i, last] > 0.0
    out[i] = (1.0 if inside else 2.0) + (10.0 if outside else 20.0)


def chained(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    out[i] = 1.0 if -0.5 < x[i, 0] <= x[i, 1] < 2.0 else x[i, 2] if 1 <= n[i] < 4 else 0


def written_out(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    sums = [0.0, x[i, 0], 0.0]
    for j in range(3, x.shape[1]):
        for place in k.static(range(3)):
            sums[place] += x[i, j - place]
    for weight in (1, 2, 4):
        if x[i, weight] < -0.5:
            break
        if n[i] == weight:
            continue
        sums[0] += weight
    out[i] = sums[0] + 10 * sums[1] + 100 * sums[2]


def swapped(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    a, b = 0, 1
    pair = (x[i, 0], 0.0)
    for _ in range(n[i]):
        a, b = b, a + b
        pair = (pair[1] + 1.0, pair[0])
    out[i] = a + pair[0] * 2 - pair[1]


def of_truths(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    seen = False
    for j in range(x.shape[1]):
        if not seen and x[i, j] > 0.3:
            seen = True
        elif seen:
            seen = x[i, j] > -1.0
    if not seen:
        out[i] = 3.0
    else:
        out[i] = 4.0


def of_builtins(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    a, b = x[i, 0], x[i, 1]
    whole = int(a * 10.0) + round(b * 10.0)
    out[i] = (
        min(a, b, 0.5)
        + 2 * max(a, -b)
        + whole / 4
        + float(n[i]) * 0.5
        + a**2
        + (1 if bool(n[i]) else 3)
    )


def of_functions(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    out[i] = (
        clipped(x[i, 0], -0.5, 0.5) + place_of(x, i, 1.0) + power_of(x[i, 1], 3) + Scale(3)(x[i, 2])
    )


def clipped(value: Any, low: Any, high: Any) -> Any:
    if value < low:
        return low
    if value > high:
        return high
    return value


def place_of(x: Any, i: Any, wanted: Any) -> Any:
    for j in range(x.shape[1]):
        if x[i, j] > wanted:
            return j
    return -1


def power_of(value: Any, exponent: int) -> Any:
    """It calls itself as often as Python knows."""
    return 1.0 if exponent == 0 else value * power_of(value, exponent - 1)


class Scale:
    """Something with a method."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def times(self, value: Any) -> Any:
        return value * self.factor if value > 0.0 else value

    def __call__(self, value: Any) -> Any:
        return self.times(value)


def inner_functions(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    bound = x[i, 0]

    def above(value: Any) -> Any:
        if value > bound:
            return value
        return bound

    total = 0.0
    for j in range(1, 4):
        total += above(x[i, j])
    out[i] = total


def reused(k: Any, x: Any, n: Any, out: Any) -> None:
    """A name for this and that, where nothing reads it afterwards."""
    (i,) = k.at
    t = x[i, 0]
    total = t
    for j in range(3):
        t = n[i] + j
        total += x[i, t]
    if total > 0.0:
        t = "positive"
    else:
        t = (1, 2)
    t = total
    out[i] = t


def bitwise(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    bits, value = 0, n[i] * 77
    while value:
        bits += value & 1
        value >>= 1
    half = 64
    while half > 0:
        bits += half
        half //= 2
    out[i] = float(bits)


KERNELS = [
    by_if, by_one_side, nothing_unless, summed, weighted, downwards, of_values, hardly, by_while,
    forever, by_walrus, first_above, some_rounds, left_from_inside, short, chained, written_out,
    swapped, of_truths, of_builtins, of_functions, inner_functions, reused, bitwise,
]  # fmt: skip


def op_of(function: Callable[..., None]) -> Callable[..., Tensor]:
    @custom_op(
        infer=lambda x, n: pyrite.types.TensorType(x.shape[:1], x.dtype), kernels=[kernel(function)]
    )
    def op(x: Tensor, n: Tensor, /) -> Tensor:
        """An op of that kernel."""
        ...

    return op


def given(dtype: str = "float32") -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(3)
    return generator.normal(size=(ROWS, COLUMNS)).astype(dtype), np.arange(ROWS, dtype=np.int32) % 6


@pytest.mark.sample(12)
@pytest.mark.parametrize("function", KERNELS, ids=lambda f: f.__name__)
def test_a_kernel_is_what_python_makes_of_it(function: Any, device: Device) -> None:
    """At the sizes that come first, which are built in, and at others, which are arguments."""
    op, generator = op_of(function), np.random.default_rng(3)
    for shape in ((ROWS, COLUMNS), (7, 13), (70, 12), (1, 11)):
        n = np.arange(shape[0], dtype=np.int32) % 6
        x = generator.normal(size=shape).astype(np.float32)
        views = [lambda t: t] if shape[0] != 70 else [lambda t: t, lambda t: t[::-1, ::-1]]
        for view in views:
            rows = pyrite.tensor(x.T.copy(), device=device).mT if shape[0] == 7 else x
            got = op(view(pyrite.tensor(rows, device=device)), pyrite.tensor(n, device=device))
            wanted = op(view(pyrite.tensor(x, device="numpy")), pyrite.tensor(n, device="numpy"))
            np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=2e-5, atol=1e-5)


@pytest.mark.sample(4)
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int32"])
def test_numbers_take_the_dtype_of_what_they_meet(dtype: str, device: Device) -> None:
    def body(k: Any, x: Any, n: Any, out: Any) -> None:
        (i,) = k.at
        total = 0
        for j in range(x.shape[1]):
            total += x[i, j] * (j + 1)
        out[i] = total if i < 3 else 2

    if not device.backend.supports(pyrite.types.TensorType((), pyrite.types.dtype(dtype))):
        pytest.skip(f"{device} has no {dtype}")
    x, n = given()
    x = pyrite.tensor((x * 8).round().tolist(), dtype=dtype, device=device)

    got = op_of(body)(x, pyrite.tensor(n, device=device))

    exact = x.astype("float64" if dtype == "float64" else "float32").numpy()
    wanted = (exact * np.arange(1, COLUMNS + 1)).sum(1)
    wanted[3:] = 2
    assert got.dtype is x.dtype
    assert np.array_equal(got.numpy(), pyrite.tensor(wanted, dtype=dtype).numpy())


def test_fractions_of_a_kernel_in_float64_are_not_rounded_to_float32(device: Device) -> None:
    def body(k: Any, x: Any, n: Any, out: Any) -> None:
        total, weight = 0.0, 0.1
        for _ in range(5):
            total, weight = total + weight, weight / 3.0
        out[k.at] = total

    if not device.backend.supports(pyrite.types.TensorType((), pyrite.float64)):
        pytest.skip(f"{device} has no float64")
    x = pyrite.ones((1, 1), dtype="float64", device=device)

    got = op_of(body)(x, pyrite.ones((1,), dtype="int32", device=device)).item()

    assert got == pytest.approx(sum(0.1 / 3.0**i for i in range(5)), rel=1e-15)


# ---- mistakes ----


def generating(k: Any, x: Any, n: Any, out: Any) -> Any:  # the line
    yield x[0, 0]


def asking(k: Any, x: Any, n: Any, out: Any) -> None:
    def inner() -> float:
        nonlocal total  # the line
        total = 1.0
        return total

    total = 0.0
    out[k.at] = inner()


def setting(k: Any, x: Any, n: Any, out: Any) -> None:
    global ROWS  # the line
    ROWS = 3
    out[k.at] = 1.0


def endless(x: Any, depth: Any) -> Any:
    if depth > 0.0:
        return endless(x, depth - 1.0)  # the line
    return depth


def calling_itself(k: Any, x: Any, n: Any, out: Any) -> None:
    out[k.at] = endless(x, x[0, 0])


def of_two_types(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    total = x[i, 0]
    for j in range(n[i]):  # the line
        total = n[j]
    out[i] = total


def a_text_or_a_number(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    if x[i, 0] > 0.0:  # the line
        value = "text"
    else:
        value = x[i, 0]
    out[i] = value


def unset_on_one_way(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    if x[i, 0] > 0.0:
        value = x[i, 0]
    out[i] = value + 1.0  # the line


def a_list_by_a_counter(k: Any, x: Any, n: Any, out: Any) -> None:
    weights, total = [1.0, 2.0, 3.0], 0.0
    for j in range(3):
        total += weights[j]  # the line
    out[k.at] = total


def a_step_of_the_kernel(k: Any, x: Any, n: Any, out: Any) -> None:
    for _ in range(0, 10, n[0]):  # the line
        out[k.at] = 1.0


def a_fraction_as_a_bound(k: Any, x: Any, n: Any, out: Any) -> None:
    for _ in range(x[0, 0]):  # the line
        out[k.at] = 1.0


def of_other_lengths(k: Any, x: Any, n: Any, out: Any) -> None:
    pair = (x[0, 0], 1.0)
    while pair[0] < 3.0:  # the line
        pair = (pair[0] + 1.0, 1.0, 2.0)
    out[k.at] = pair[0]


MISTAKES: dict[Any, str] = {
    generating: "functions that return, got the generator generating; return a tuple",
    asking: "statements that can be recorded, got nonlocal",
    setting: "statements that can be recorded, got global",
    calling_itself: "do not call themselves, .* got endless inside itself; write a loop",
    of_two_types: "total requires one type, got float32 before the loop and int32 after a round",
    a_text_or_a_number: "value requires to be a value or a number .* got 'text' where",
    unset_on_one_way: "names to be set before they are read, got value, .*; write value = ",
    a_list_by_a_counter: r"require a Python int, .* k\.static\(range\(n\)\)",
    a_step_of_the_kernel: "range requires a step that is known .*, got int32",
    a_fraction_as_a_bound: "range requires numbers and values of int32, got float32; cast it",
    of_other_lengths: "pair requires as many items .* a tuple of 2 before .* a tuple of 3 after",
}


@pytest.mark.parametrize("function", MISTAKES, ids=lambda f: f.__name__)
def test_what_cannot_be_is_an_error_of_its_line(function: Any, interpreter: Device) -> None:
    x, n = (pyrite.tensor(a, device=interpreter) for a in given())

    with pytest.raises(KernelError, match=MISTAKES[function]) as caught:
        op_of(function)(x, n)

    file, line = str(caught.value.location).rsplit(":", 1)
    assert file == __file__
    assert "# the line" in Path(__file__).read_text().splitlines()[int(line) - 1]


def test_a_loop_leaves_no_memory_of_what_was_recorded_twice(interpreter: Device) -> None:
    sizes = []

    def body(k: Any, x: Any, n: Any, out: Any) -> None:
        total = 0.0
        for j in range(4):
            tile = k.private("float32", 2)
            tile[0] = x[0, j]
            total += tile[0]
        out[k.at] = total
        sizes.append(k.memories())

    x, n = (pyrite.tensor(a, device=interpreter) for a in given())
    np.testing.assert_allclose(op_of(body)(x, n).numpy(), x.numpy()[0, :4].sum(), rtol=1e-6)

    assert sizes == [1]


# ---- as Python ----


def test_breakpoints_stop_in_each_invocation(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def body(k: Any, x: Any, n: Any, out: Any) -> None:
        (i,) = k.at
        value = x[i, 0] * 2.0
        breakpoint()
        out[i] = value

    def stop() -> None:
        frame: Any = sys._getframe(1)
        seen.append((frame.f_locals["i"], float(frame.f_locals["value"])))
        assert frame.f_code is body.__code__

    monkeypatch.setattr(sys, "breakpointhook", stop)
    x, n = given()
    op_of(body)(pyrite.tensor(x, device="numpy"), pyrite.tensor(n, device="numpy"))

    assert seen == [(i, float(x[i, 0] * np.float32(2))) for i in range(ROWS)]


def row_sums(k: Any, x: Any, n: Any, out: Any) -> None:
    """A workgroup sums a row."""
    lane, row = k.local_id(), k.workgroup_id()
    partial = k.shared("float32", 4)
    counts = k.shared("int32", 1, access="atomic")
    total = 0.0
    for j in range(lane, x.shape[1], 4):
        total += x[row, j]
    partial[lane] = total
    counts.atomic("store", 0, 0)
    k.barrier()
    counts.atomic("add", 0, 1)
    half = 2
    while half > 0:
        if lane < half:
            partial[lane] = partial[lane] + partial[lane + half]
        k.barrier()
        half //= 2
    if lane == 0:
        out[row] = partial[0] + float(counts.atomic("load", 0))


def op_of_groups(function: Callable[..., None]) -> Callable[..., Tensor]:
    @custom_op(
        infer=lambda x, n: pyrite.types.TensorType(x.shape[:1], x.dtype),
        kernels=[kernel(workgroup_size=4, grid=lambda x, n, out: (x.shape[0],))(function)],
    )
    def op(x: Tensor, n: Tensor, /) -> Tensor:
        """An op of that kernel."""
        ...

    return op


def test_workgroups_share_memory(device: Device) -> None:
    x, n = given()

    for where in (device, pyrite.device("numpy")):
        got = op_of_groups(row_sums)(pyrite.tensor(x, device=where), pyrite.tensor(n, device=where))
        np.testing.assert_allclose(got.numpy(), x.sum(1) + 4, rtol=1e-5, atol=1e-5)


def test_invocations_that_python_runs_print_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    def body(k: Any, x: Any, n: Any, out: Any) -> None:
        print(k.local_id(), "before")
        k.barrier()
        print(k.local_id(), "after")
        if k.local_id() == 0:
            out[k.workgroup_id()] = 0.0

    op_of_groups(body)(pyrite.ones((1, 1), device="numpy"), pyrite.ones((1,), device="numpy"))

    order = capsys.readouterr().out.split("\n")[:-1]
    assert order == [f"{i} {when}" for when in ("before", "after") for i in range(4)]


def stray(k: Any, x: Any, n: Any, out: Any) -> None:
    if k.local_id() < 2:
        k.barrier()
    out[0] = 1.0


def outside(k: Any, x: Any, n: Any, out: Any) -> None:
    out[k.workgroup_id()] = x[0, 1]


@pytest.mark.parametrize(("function", "error", "words"), [
    (stray, KernelError, "to come by its barriers, got some that end before"),
    (outside, IndexRangeError, r"x\[\.\.\.\] requires an index inside of shape \(1, 1\), got"),
])  # fmt: skip
def test_mistakes_that_python_finds(function: Any, error: type[Exception], words: str) -> None:
    threads = threading.active_count()

    with pytest.raises(error, match=words):
        op_of_groups(function)(
            pyrite.ones((1, 1), device="numpy"), pyrite.ones((1,), device="numpy")
        )

    assert threading.active_count() == threads
