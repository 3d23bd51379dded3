"""On ``numpy`` a kernel is run by Python: its breakpoints, prints and mistakes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, custom_op
from pyrite.backend.device import Device
from pyrite.errors import IndexRangeError, KernelError
from pyrite.extension import kernel


def test_breakpoints_stop_in_each_invocation(
    monkeypatch: pytest.MonkeyPatch, op_of: Any, rows: Any
) -> None:
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
    x, n = rows
    op_of(body)(pyrite.tensor(x, device="numpy"), pyrite.tensor(n, device="numpy"))

    assert seen == [(i, float(x[i, 0] * np.float32(2))) for i in range(len(x))]


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


def test_workgroups_share_memory(device: Device, rows: Any) -> None:
    x, n = rows

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


def a_half(k: Any, x: Any, n: Any, out: Any) -> None:
    out[k.workgroup_id()] = x[0, 0.5]


def of_no_number(k: Any, x: Any, n: Any, out: Any) -> None:
    out[k.workgroup_id()] = x


def a_row_to_a_place(k: Any, x: Any, n: Any, out: Any) -> None:
    out[k.workgroup_id()] = (1.0, 2.0)


@pytest.mark.parametrize(("function", "error", "words"), [
    (stray, KernelError, "to come by its barriers, got some that end before"),
    (outside, IndexRangeError, r"x\[\.\.\.\] requires an index inside of shape \(1, 1\), got"),
    (a_half, KernelError, "requires integers as coordinates, got 0.5 on axis 1"),
    (of_no_number, KernelError, "requires numbers and values of its own, got DirectArgument"),
    (a_row_to_a_place, KernelError, "a constant requires one number, got tuple of 2"),
])  # fmt: skip
def test_mistakes_that_python_finds(function: Any, error: type[Exception], words: str) -> None:
    before = set(threading.enumerate())

    with pytest.raises(error, match=words):
        op_of_groups(function)(
            pyrite.ones((1, 1), device="numpy"), pyrite.ones((1,), device="numpy")
        )

    assert not set(threading.enumerate()) - before
