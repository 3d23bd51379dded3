"""Calls of one kind are recorded the second time, and made again from then on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, custom_op
from pyrite.backend.device import Device
from pyrite.errors import IndexRangeError, KernelError
from pyrite.extension import kernel, stages
from pyrite.types import TensorType

FACTOR, GROUPS = 2.0, 1


def declared(made: Any, infer: Callable[..., Any] = lambda x: x) -> Callable[..., Any]:
    @custom_op(infer=infer, kernels=[made])
    def op(x: Tensor, /) -> Any:
        """An op of one input."""
        ...

    return op


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was made anew, and not again: calls that went through the kernel."""
    from pyrite.extension.kernel import PythonKernel

    found: list[str] = []
    real = PythonKernel.launch

    def launch(self: PythonKernel, launcher: Any, call: Any) -> None:
        found.append(type(launcher).__name__)
        real(self, launcher, call)

    monkeypatch.setattr(PythonKernel, "launch", launch)
    return found


def test_the_third_call_of_a_kind_is_that_of_the_second(
    device: Device, launches: list[str]
) -> None:
    @kernel(fill={"count": 0}, inout={"out": "x"})
    def body(k: Any, x: Any, out: Any, count: Any) -> None:
        if x[k.at] > 0.0:
            out[k.at] = x[k.at] * 2.0
            count.atomic("add", (), 1)

    op = declared(body, lambda x: (x, TensorType((), pyrite.int32)))
    generator = np.random.default_rng(0)
    for view in (lambda t: t, lambda t: t[::-1], lambda t: t.mT[1:]):
        for _ in range(4):
            array = generator.normal(size=(4, 5)).astype(np.float32)
            given = view(pyrite.tensor(array, device=device))
            out, count = op(given)
            wanted = given.numpy()
            np.testing.assert_array_equal(out.numpy(), np.where(wanted > 0, 2 * wanted, wanted))
            assert count.item() == (wanted > 0).sum()

    assert launches == ["Launcher", "RecordingLauncher"] * 3


def test_what_a_kernel_and_its_grid_read_may_change(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    @kernel(workgroup_size=4, grid=lambda x, out: (GROUPS,), fill={"out": 0.0})
    def body(k: Any, x: Any, out: Any) -> None:
        i = k.global_id()
        if i < x.shape[0]:
            out[i] = x[i] * FACTOR

    op, x = declared(body), pyrite.ones((8,), device=device)

    for factor, groups in [(2.0, 1)] * 3 + [(3.0, 1)] * 3 + [(3.0, 2)] * 3 + [(2.0, 1)] * 2:
        monkeypatch.setitem(globals(), "FACTOR", factor)
        monkeypatch.setitem(globals(), "GROUPS", groups)
        assert op(x).tolist() == [factor] * 4 + [factor * (groups - 1)] * 4


def test_each_call_has_its_own_errors(device: Device) -> None:
    @kernel
    def body(k: Any, x: Any, out: Any) -> None:
        (i,) = k.at
        k.check(x[i] >= 0, "below zero")
        out[i] = x[max(x[i], 0)]

    op = declared(body)
    given = {"sound": [0, 1, 2], "outside": [0, 1, 7], "below": [0, 1, -1]}
    x = {name: pyrite.tensor(values, device=device) for name, values in given.items()}

    for _ in range(4):
        assert op(x["sound"]).tolist() == [0, 1, 2]
        with pytest.raises(IndexRangeError, match="every index of x") as caught:
            op(x["outside"]).tolist()
        assert str(caught.value.location).startswith(__file__)
        with pytest.raises(KernelError, match="below zero"):
            op(x["below"]).tolist()


def test_several_kernels_are_recorded_together(device: Device, launches: list[str]) -> None:
    @kernel(fill={"total": 0})
    def total_kernel(k: Any, x: Any, out: Any, total: Any) -> None:
        total.atomic("add", (), x[k.at])

    @kernel
    def share_kernel(k: Any, x: Any, out: Any, total: Any) -> None:
        out[k.at] = x[k.at] / total[()]

    op = declared(stages(total_kernel, share_kernel), lambda x: (x, TensorType((), x.dtype)))
    for scale in (1.0, 2.0, 4.0, 8.0):
        x = pyrite.tensor([scale, scale * 2, scale], device=device)
        assert op(x)[0].tolist() == [0.25, 0.5, 0.25]

    assert len(launches) == 4


def test_derivatives_are_recorded_too(device: Device, launches: list[str]) -> None:
    @kernel(differentiable=True)
    def body(k: Any, x: Any, out: Any) -> None:
        (i,) = k.at
        out[i] = x[i] * x[x.shape[0] - 1 - i]

    op = declared(body)
    for step in range(4):
        x = pyrite.tensor([1.0, 2.0, 3.0 + step], device=device)
        found = pyrite.grad(lambda x: op(x).sum())(x)
        assert found.tolist() == [2 * (3.0 + step), 4.0, 2.0]

    assert len(launches) == 4


def test_what_prints_is_never_recorded(device: Device, capsys: pytest.CaptureFixture[str]) -> None:
    @kernel
    def body(k: Any, x: Any, out: Any) -> None:
        print("element", x[k.at])
        out[k.at] = x[k.at]

    op = declared(body)
    for value in range(4):
        op(pyrite.tensor([value], device=device))

    assert capsys.readouterr().out.split() == f"element {' element '.join('0123')}".split()


def test_numbers_and_left_out_inputs_tell_calls_apart(device: Device) -> None:
    @kernel
    def body(k: Any, x: Any, bias: Any, out: Any, *, scale: float) -> None:
        value = x[k.at] * scale
        out[k.at] = value if bias is None else value + bias[k.at]

    @custom_op(infer=lambda x, bias, *, scale: x, kernels=[body])
    def op(x: Tensor, bias: Tensor | None, /, *, scale: float) -> Tensor:
        """Scale * x + bias."""
        ...

    x, bias = (pyrite.tensor([1.0, -2.0], device=device) for _ in range(2))
    for _ in range(3):
        for scale in (0.0, -0.0, 2.0):
            got = op(x, None, scale=scale).numpy()
            wanted = np.array([1.0, -2.0], np.float32) * np.float32(scale)
            assert got.tobytes() == wanted.tobytes()
            assert op(x, bias, scale=scale).tolist() == (wanted + bias.numpy()).tolist()
