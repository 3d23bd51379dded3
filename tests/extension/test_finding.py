"""What finds mistakes: prints, checks, and the source of a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, custom_op
from pyrite.backend.device import Device, device_problem
from pyrite.errors import DeviceError, IndexRangeError, KernelError
from pyrite.extension import kernel, stages
from pyrite.testing.memory import contents
from pyrite.types import DTYPES, TensorType


def op_of(made: Any, infer: Callable[..., Any] = lambda x: x) -> Callable[..., Any]:
    @custom_op(infer=infer, kernels=[made])
    def op(x: Tensor, /) -> Any:
        """An op of that kernel."""
        ...

    return op


# ---- prints ----


@kernel
def telling(k: Any, x: Any, out: Any) -> None:
    i, j = k.at
    if x[i, j] > 1.0:
        print("at", i, j, "there is", x[i, j])
    for n in range(2):
        if i == n:
            k.print(n * 10, x[i, j] > 1.0)
    out[i, j] = x[i, j]


def test_what_is_printed_is_what_python_prints(
    device: Device, capsys: pytest.CaptureFixture[str]
) -> None:
    array = np.array([[0.5, 1.25, -3.0], [7.1, 1e-30, 1e30]], np.float32)
    printed = []
    for where in (device, pyrite.device("numpy")):
        op_of(telling)(pyrite.tensor(array, device=where)).numpy()
        printed.append(capsys.readouterr().out)

    assert "at 1 0 there is 7.1\n10 True\n" in printed[0]
    assert printed[0] == printed[1]


@pytest.mark.sample(6)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_values_of_every_dtype_are_printed(
    device: Device, dtype: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    if not device.backend.supports(TensorType((), dtype)):
        pytest.skip(f"{device} has no {dtype}")

    @kernel
    def body(k: Any, x: Any, out: Any) -> None:
        k.print(x[k.at], "!")
        out[k.at] = x[k.at]

    numbers = [False, True] if dtype.is_bool else [dtype.lowest, dtype.highest, 1]
    if dtype.is_float:
        numbers = [-1.5, 3e4, 0.0]
    array = np.array(numbers, dtype.numpy)
    op_of(body)(pyrite.tensor(array, device=device))

    wanted = [str(v) for v in array.astype(dtype.compute.numpy)]
    assert capsys.readouterr().out == "".join(f"{v} !\n" for v in wanted)


def test_more_than_is_kept_is_said(device: Device, capsys: pytest.CaptureFixture[str]) -> None:
    @kernel
    def body(k: Any, x: Any, out: Any) -> None:
        k.print("element", k.at[0])
        out[k.at] = x[k.at]

    x = pyrite.ones((30_000 if device.name != "interpreter" else 22_000,), device=device)
    assert op_of(body)(x).sum().item() == x.size

    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("(k.print keeps 65536 words of a launch, got ")
    assert len(lines) == (65536 - 1) // 3 + 1
    assert len(set(lines)) == len(lines)


@kernel
def told_by_text(k: Any, x: Any, out: Any) -> None:
    (i,) = k.at
    if x[i] > 1.0:
        print(f"at {i:03d} of {x.shape[0]}: {x[i]:.2f}|{x[i] > 2.0}", "then", i)
        k.print(f"<{x.name!r} {i}>")
    out[i] = x[i]


def test_an_f_string_is_printed_as_python_does(
    device: Device, capsys: pytest.CaptureFixture[str]
) -> None:
    op_of(told_by_text)(pyrite.tensor([0.5, 1.25, 7.125], device=device)).numpy()

    assert capsys.readouterr().out == (
        "at 001 of 3: 1.25|False then 1\n<'x' 1>\nat 002 of 3: 7.12|True then 2\n<'x' 2>\n"
    )


def test_vectors_are_printed(anywhere: Device, capsys: pytest.CaptureFixture[str]) -> None:
    @kernel(inner=1)
    def told_rows(k: Any, x: Any, out: Any) -> None:
        (i,) = k.at
        print("row", x[i])
        print(f"{x[i]:.2f} at {k.at}")
        out[i] = x[i]

    op_of(told_rows)(pyrite.tensor([[0.5, 1.25], [3.0, -1.0]], device=anywhere)).numpy()

    assert capsys.readouterr().out == (
        "row (0.5, 1.25)\n(0.50, 1.25) at (0,)\nrow (3.0, -1.0)\n(3.00, -1.00) at (1,)\n"
    )


def test_an_f_string_of_values_is_no_message(interpreter: Device) -> None:
    @kernel
    def told_late(k: Any, x: Any, out: Any) -> None:
        (i,) = k.at
        assert x[i] > 1.0, f"small at {i}"
        out[i] = x[i]

    with pytest.raises(KernelError, match="an f-string requires values that Python knows"):
        op_of(told_late)(pyrite.ones((3,), device=interpreter))


# ---- checks ----


@kernel
def rooted(k: Any, x: Any, out: Any) -> None:
    (i,) = k.at
    k.check(x[i] >= 0.0, "a root of a negative number")  # the line of the check
    assert x[i] < 100.0
    out[i] = k.math.sqrt(x[i]) + x[int(x[i])]


LINE = rooted.function.__code__.co_firstlineno + 3


@pytest.mark.sample(4)
@pytest.mark.parametrize(("numbers", "kind", "words", "line"), [
    ([1.0, -4.0, 0.0], KernelError, "a root of a negative number, in ", LINE),
    ([1.0, 100.0, 0.0], KernelError, "assert x", LINE + 1),
    ([-4.0, 100.0, 0.0], KernelError, "a root of a negative number, in ", LINE),
    ([1.0, 3.0, 0.0], IndexRangeError, "every index of x", None),
])  # fmt: skip
def test_a_check_that_fails_is_raised_with_its_line(
    device: Device, numbers: list[float], kind: type[Exception], words: str, line: int | None
) -> None:
    got = op_of(rooted)(pyrite.tensor(numbers, device=device))

    with pytest.raises(kind, match=words) as caught:
        got.numpy()

    location = str(getattr(caught.value, "location", ""))
    assert location.startswith(__file__)
    assert line is None or location.endswith(f":{line}")


@kernel(workgroup_size=(8, 2), grid=lambda *_: (3, 2))
def bounded(k: Any, x: Any, out: Any) -> None:
    i, j = k.global_id(1), k.global_id(0)
    k.check(x[i, j] < 9.0, "too large")
    k.check(x[i, j] > -9.0, "too small")
    out[i, j] = x[i, j]


@kernel
def bounded_each(k: Any, x: Any, out: Any) -> None:
    k.check(x[k.at] < 9.0, "too large")
    k.check(x[k.at] > -9.0, "too small")
    out[k.at] = x[k.at]


@pytest.mark.parametrize("at", [(0, 0), (2, 17), (3, 23)])
@pytest.mark.parametrize(("number", "words"), [(10.0, "too large"), (-10.0, "too small")])
def test_a_check_tells_the_invocation(
    device: Device, at: tuple[int, int], number: float, words: str
) -> None:
    x = np.zeros((4, 24), np.float32)
    x[at] = number
    x[::-1, ::-1][at] = -10.0  # of several that fail it is one of the first check
    (i, j), (a, b) = ((n, m) for n, m in (at, (3 - at[0], 23 - at[1])))
    others = rf"|\({a}, {b}\)" if number < 0 else ""

    with pytest.raises(KernelError, match=rf"^{words}, in .*, element (\({i}, {j}\){others})\n"):
        op_of(bounded_each)(pyrite.tensor(x, device=device)).numpy()
    x[3 - at[0], 23 - at[1]] = 0.0
    where = rf"invocation \({j % 8}, {i % 2}\) of workgroup \({j // 8}, {i // 2}\)"
    with pytest.raises(KernelError, match=f"^{words}, in kernel 'bounded', {where}\n"):
        op_of(bounded)(pyrite.tensor(x, device=device)).numpy()


def test_a_launch_after_one_that_failed_tells_nothing_of_its_own(device: Device) -> None:
    first, then = (np.zeros((2, 3), np.float32) for _ in range(2))
    first[0, 1], then[1, 2] = -10.0, 10.0
    op = op_of(bounded_each)
    x, y = (op(pyrite.tensor(a, device=device)) for a in (first, then))

    for made in (y, x):
        with pytest.raises(KernelError, match=r"^too small, .* element \(0, 1\)\n"):
            made.numpy()


def test_checks_that_hold_change_nothing(device: Device) -> None:
    x = pyrite.tensor([1.0, 4.0, 2.0, 0.0, 9.0, 0.0, 0.0, 0.0, 0.0, 6.0], device=device)
    want = [np.sqrt(v) + x.tolist()[int(v)] for v in [1.0, 4.0, 2.0, 0.0, 9.0]]

    assert contents(op_of(rooted)(x)).tolist()[:5] == pytest.approx(want, rel=1e-6)


def test_python_says_where_a_check_fails() -> None:
    with pytest.raises(KernelError, match=r"a root of a negative number, in element \(1,\)$"):
        op_of(rooted)(pyrite.tensor([1.0, -4.0], device="numpy"))


def test_what_python_knows_is_checked_at_once(interpreter: Device) -> None:
    @kernel
    def body(k: Any, x: Any, out: Any) -> None:
        k.check(x.shape[0] == 4, "four elements")
        out[k.at] = x[k.at]

    assert op_of(body)(pyrite.ones((4,), device=interpreter)).tolist() == [1.0] * 4
    for size in (3, 5):
        with pytest.raises(KernelError, match="four elements, in kernel 'body'"):
            op_of(body)(pyrite.ones((size,), device=interpreter))


# ---- source ----


@kernel
def scaled(k: Any, x: Any, out: Any, *, factor: float) -> None:
    if x[k.at] > factor:
        out[k.at] = x[k.at]
    else:
        out[k.at] = 0.0


@pytest.mark.parametrize(("name", "words"), [
    ("wgpu", ("@compute @workgroup_size(64, 1, 1)", "array<f32>", "if (")),
    ("cpu", ("define", "float", "fcmp")),
])  # fmt: skip
def test_the_source_is_that_of_the_device(name: str, words: tuple[str, ...]) -> None:
    if problem := device_problem(name):
        pytest.skip(problem)
    type = TensorType((5, 3), pyrite.float32)

    text = scaled.source(name, [type], [type], factor=2.0)

    assert all(word in text for word in words), text


def test_the_interpreter_has_the_ir_and_numpy_nothing(interpreter: Device) -> None:
    type = TensorType((5,), pyrite.float32)

    assert "kernel scaled(x: float32 read" in scaled.source(interpreter, [type], [type], factor=2.0)
    with pytest.raises(DeviceError, match="source requires a device that makes kernels, got numpy"):
        scaled.source("numpy", [type], [type], factor=2.0)


# ---- what the interpreter finds, told by the user's lines ----


def grouped(function: Callable[..., None]) -> Callable[..., Any]:
    return op_of(kernel(workgroup_size=8, grid=lambda *_: (2,))(function))


def without_barrier(k: Any, x: Any, out: Any) -> None:
    tile = k.shared("float32", 8)
    lane = k.local_id()
    tile[lane] = x[lane]
    if k.workgroup_id() == 0:
        out[lane] = tile[7 - lane]


def two_writers(k: Any, x: Any, out: Any) -> None:
    out[k.local_id() % 4] = x[0]


def written_after_read(k: Any, x: Any, out: Any) -> None:
    tile = k.shared("float32", 8)
    tile[k.local_id()] = x[0]
    k.barrier()
    total = tile[0]
    tile[0 * k.local_id()] = total
    if k.workgroup_id() == 0:
        out[k.local_id()] = total


@pytest.mark.parametrize(
    ("function", "offset", "wrong"),
    [
        (without_barrier, 5, r"element 7 of the memory of (\S+):\d+ was written by invocation 7 "
         "with no barrier between, read at {} by invocation 0 of workgroup 0; put one between"),
        (two_writers, 1, "two invocations write element 0 of out, written at {} by invocation 0 of "
         "workgroup 0; let one of them, or change it by an atomic"),
        (written_after_read, 5, r"element 0 of the memory of (\S+):\d+ was read by invocation 7 "
         "with no barrier between, written at {} by invocation 0 of workgroup 0; put one between"),
    ],
    ids=["without barrier", "two writers", "written after read"],
)  # fmt: skip
def test_a_race_is_told_by_the_line_the_invocations_and_what_to_do(
    interpreter: Device, function: Any, offset: int, wrong: str
) -> None:
    code = function.__code__
    line = f"{code.co_filename}:{code.co_firstlineno + offset}"

    with pytest.raises(KernelError, match=wrong.format(line)) as failed:
        grouped(function)(pyrite.ones((8,), device=interpreter))
    assert failed.value.location == line


def test_workgroups_are_not_in_order(interpreter: Device) -> None:
    @kernel(workgroup_size=8, grid=lambda *_: (2,), fill={"out": 0})
    def handed_on(k: Any, x: Any, out: Any) -> None:
        i = k.global_id()
        out[i] = x[i]
        k.barrier("storage")
        out[i] = out[15 - i]

    with pytest.raises(
        KernelError, match=r"was written by invocation 7 of workgroup 1 with nothing between that "
        "orders workgroups, read at .* in a stage, or an op, after it",
    ):  # fmt: skip
        op_of(handed_on)(pyrite.ones((16,), device=interpreter))


def test_the_source_of_stages_is_that_of_each(interpreter: Device) -> None:
    @kernel
    def first(k: Any, x: Any, kept: Any, out: Any) -> None:
        kept[k.at] = x[k.at] * 2.0

    @kernel
    def second(k: Any, x: Any, kept: Any, out: Any) -> None:
        out[k.at] = kept[k.at] + 1.0  # what only a stage may read

    type = TensorType((4,), pyrite.float32)
    text = stages(first, second).source(interpreter, [type], [type, type])
    assert text.index("kernel first(") < text.index("kernel second(")
    assert stages(first, second).source("cpu", [type], [type, type]).count("define void") == 2
