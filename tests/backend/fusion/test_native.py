"""What machine code records, and notes on a tape, is what Python records and notes."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import pyrite
from pyrite import Tensor
from pyrite.autodiff import node
from pyrite.autodiff.tape import Autodiff
from pyrite.backend.device import Device
from pyrite.backend.fusion import Fusion, passage, pending
from pyrite.backend.fusion.native import native_key, native_record_again
from pyrite.backend.fusion.pending import PendingCalls
from pyrite.op import Constant
from pyrite.runtime.cpu.native_call import is_possible
from pyrite.types import TensorType

pytestmark = pytest.mark.skipif(not is_possible(), reason="objects are not to be read here")

X = np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32)
STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "elementwise": lambda x, w: ((x * 0.5 + w).exp() - x / 3).tanh(),
    "views": lambda x, w: x.T.reshape(6, 5) * w[::2].sum(0, keepdims=True),
    "products": lambda x, w: (x @ w.T) @ x,
    "layers": lambda x, w: x.linear(w[:5], w[0]).layer_norm(w[0], w[1]).softmax(-1),
    "one operand twice": lambda x, w: x * x + x,
    "several results": lambda x, w: x.split(2)[1] * 2.0 + w.sort()[0][0],
    "a norm with its statistics": lambda x, w: (
        sum(y.square().sum() for y in x.batch_norm(w[0], w[1])) + x.batch_norm(w[0])[0] * w
    ),
    "whole numbers among results": lambda x, w: (
        x * w.sort(0)[1] + w.sort(0)[0] + x.topk(2)[0].sum()
    ),
    "more results than are noted at once": lambda x, w: sum(w.T.reshape(30).unstack()) * x,
    "results of what is not tracked": lambda x, w: x * w.detach().sort(0)[0] + (w.detach() * 2.0),
    "whole numbers and bools": lambda x, w: (x > w)._where(x, 1) * (x > 0),
    "indices": lambda x, w: x.take(pyrite.tensor([1, 0, 3], device=x.device), 0) + w[:3],
    "a detached one": lambda x, w: x * w.detach() + (w * 2.0).detach(),
    "narrow": lambda x, w: (x.astype(pyrite.float16) * w.astype(pyrite.float16)).astype(x.dtype),
    "nothing": lambda x, w: x[:0] * w[:0] + x.sum(),
}


@pytest.fixture
def device() -> Device:
    return Device(Fusion(pyrite.device("cpu").backend.root))


@pytest.fixture
def by_python() -> Callable[[Callable[[], Any]], Any]:
    """What runs a function whose tapes are Python's, on a device that records by Python."""
    pyrite.autodiff("cpu")

    def run(function: Callable[[], Any]) -> Any:
        native = vars(Autodiff)["execute"]
        Autodiff.execute = Autodiff.by_python  # type: ignore[method-assign, assignment]
        try:
            return function()
        finally:
            Autodiff.execute = native  # type: ignore[method-assign]

    return run


def recorded_by_python() -> Device:
    device = Device(Fusion(pyrite.device("cpu").backend.root))
    backend: Any = device.backend
    del backend.execute
    return device


def gradients(step: Callable[[Any, Any], Any], device: Device) -> list[Any]:
    """What three steps give: the first is noted anew, and later ones came before."""
    found = []
    for scale in (1.0, 2.0, 3.0):
        x, w = (pyrite.tensor(X * s, device=device) for s in (scale, scale + 1))
        loss = pyrite.value_and_grad(lambda x, w: step(x, w).sum(), argnums=(0, 1))
        value, both = loss(x, w)
        found.append([value.numpy(), *[g.numpy() for g in both]])
    return found


@pytest.mark.parametrize("name", STEPS)
def test_gradients_are_those_of_python(name: str, device: Device, by_python: Any) -> None:
    want = by_python(lambda: gradients(STEPS[name], recorded_by_python()))

    for got, expected in zip(gradients(STEPS[name], device), want, strict=True):
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", STEPS)
def test_second_derivatives_are_those_of_python(name: str, by_python: Any) -> None:
    def twice(device: Device) -> Any:
        x, w = (pyrite.tensor(X, device=device) for _ in range(2))
        first = pyrite.grad(lambda x: STEPS[name](x, w).square().sum())
        return pyrite.grad(lambda x: first(x).square().sum())(x).numpy()

    want = by_python(lambda: twice(recorded_by_python()))

    for _ in range(3):
        np.testing.assert_array_equal(
            twice(Device(Fusion(pyrite.device("cpu").backend.root))), want
        )


def test_what_was_recorded_once_python_does_not_record(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = pyrite.tensor(X, device=device)
    tracked = pyrite.tensor(X, device=pyrite.autodiff(device)).require_grad()

    def calls() -> list[Tensor]:
        return [
            (x + x).exp() * 0.5, (tracked * 0.5 + tracked).exp() @ tracked.T,
            *tracked.batch_norm(tracked[0]), *x.batch_norm(),
            (tracked.detach() * 2.0).exp(), *tracked.detach().batch_norm(),
        ]  # fmt: skip

    def refuse(*_: Any) -> Any:
        raise AssertionError("by Python")

    for _ in range(2):
        x - 1.0
        held = calls()
        device.synchronize()
    x - 1.0  # the first one after a wait is looked at
    for module in (pending, node):
        monkeypatch.setattr(module, "_new", refuse)
    monkeypatch.setattr(PendingCalls, "_added", refuse)
    monkeypatch.setattr(Autodiff, "_executed", refuse)
    again = calls()
    monkeypatch.undo()

    for a, b in zip(held, again, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_nothing_is_held_that_was_let_go(device: Device) -> None:
    x = pyrite.tensor(X, device=device)
    tracked = pyrite.tensor(X, device=pyrite.autodiff(device)).require_grad()
    number, counts = 1e5 + 0.5, []

    def calls() -> None:
        x + number, x + x, x.exp(), tracked * number, tracked @ tracked.T, tracked.exp()
        tracked.linear(tracked[:5], tracked[0])
        tracked.batch_norm(tracked[0]), x.batch_norm(), tracked.detach().sort(0)
        device.synchronize()

    for _ in range(20):
        calls()
    for _ in range(2):
        for _ in range(500):
            calls()
        leaf, value = tracked._handle.node, tracked._handle.value
        calls_of: Any = Tensor.add.op.plans  # type: ignore[attr-defined]
        held = (
            x, x._handle, x._type, x._backend, tracked, tracked._handle, leaf, value, number,
            value._handle, tracked._backend, calls_of[(), x._type.key, float], None, True, False,
            PendingCalls, Autodiff,
        )  # fmt: skip
        counts.append([sys.getrefcount(y) for y in held])

    # None and the bools are shared with all that runs beside.
    for n, (before, after) in enumerate(zip(*counts, strict=True)):
        assert abs(after - before) < 100, n


def test_another_thread_may_read_what_is_being_recorded(device: Device) -> None:
    x = pyrite.tensor(X, device=device)
    made: list[Tensor] = []
    done = threading.Event()
    wrong: list[Any] = []

    def read() -> None:
        while not done.is_set() or made:
            if made:
                found = made.pop().numpy()
                if not np.array_equal(found, X + np.float32(0.5)):
                    wrong.append(found)

    thread = threading.Thread(target=read)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread.start()
    try:
        for _ in range(2000):
            made.append(x + 0.5)
            x * 2.0
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(interval)

    assert not wrong


def test_tasks_record_their_own(device: Device) -> None:
    x = pyrite.tensor(X, device=device)

    async def task(number: float) -> Any:
        for _ in range(6):
            a = x + number
            await asyncio.sleep(0)
            b = a * 2.0
            await asyncio.sleep(0)
            found = (b - x).numpy()
        return found

    async def both() -> Any:
        return await asyncio.gather(task(1.0), task(2.0))

    one, two = asyncio.run(both())

    np.testing.assert_array_equal(one, (X + np.float32(1)) * 2 - X)
    np.testing.assert_array_equal(two, (X + np.float32(2)) * 2 - X)


def test_calls_that_run_are_looked_at_by_python(device: Device) -> None:
    record_again = native_record_again(device.backend)
    assert record_again is not None
    x = pyrite.tensor(X, device=device)
    held = x + x
    calls = held._handle.place[0]
    plan = Tensor.add.op.plans[(), x._type.key, x._type.key]  # type: ignore[attr-defined]
    device.synchronize()

    assert calls.is_done
    assert record_again(calls, [x._handle, x._handle], plan) is None
    del held


def test_passages_are_known_by_what_python_knows_them_by(device: Device) -> None:
    native: Any = native_key(device.backend)
    assert native is not None
    x, y = (pyrite.tensor(X, device=device) for _ in range(2))
    computed = x * 3.0
    device.synchronize()
    calls: Any = PendingCalls(device.backend.recorded)  # type: ignore[attr-defined]
    other: Any = PendingCalls(device.backend.recorded)  # type: ignore[attr-defined]
    pending = x * 2.0
    number = Constant(2.0, TensorType((), pyrite.float32))
    flag = Constant(True, TensorType((), pyrite.bool))
    operands = [x._handle, None, number, y._handle, computed._handle, x._handle, flag]

    want = passage.key_of(other, "head", operands)

    assert want == ("head", -1, -2, -3, -1, True)
    assert native(calls, "head", operands) == want
    assert native(calls, "head", operands[:3]) == want[:2]
    assert [id(i) for i in calls.inputs] == [id(i) for i in other.inputs]
    assert calls.places == other.places
    assert native(calls, "head", [pending._handle]) is None
    assert native(pending._handle.place[0], "head", [pending._handle]) == ("head", 0)
