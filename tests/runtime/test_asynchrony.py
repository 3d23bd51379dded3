"""Ops return at once, and an event loop runs on while values are awaited: on every device.

How fast a machine is does not matter: where a statement needs work that lasts, the work is doubled
until it lasts long enough.  Of an op or a read that waited, no amount of work would make it true.
"""

from __future__ import annotations

import asyncio
import collections
import os
import queue
import threading
import time
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.autodiff import autodiff
from pyrite.backend.device import device_problem
from pyrite.errors import IndexRangeError, ShapeError, SyncError
from pyrite.runtime.protocol import Runtime
from pyrite.types import TensorType

EVERYWHERE = ("numpy", "torch:cpu", "cpu", "wgpu")
#: Devices with a queue of their own.
QUEUED = ("cpu", "wgpu")

#: Doublings of both, before a test gives up.
MOST_DOUBLINGS = 9

#: Turns of an event loop that an awaited read takes, at least; one that waits takes one or two.
TURNS = 20


@pytest.fixture(params=EVERYWHERE)
def everywhere(request: pytest.FixtureRequest) -> pyrite.Device:
    return working(request.param)


@pytest.fixture(params=QUEUED)
def queued(request: pytest.FixtureRequest) -> pyrite.Device:
    return working(request.param)


def working(name: str) -> pyrite.Device:
    problem = device_problem(name)
    if problem is not None:
        pytest.skip(f"device does not work here: {problem}")
    return pyrite.device(name)


def runtime_of(device: pyrite.Device) -> Runtime:
    runtime: Runtime = device.backend.root.runtime  # type: ignore[attr-defined]
    return runtime


def work(x: pyrite.Tensor, amount: int) -> pyrite.Tensor:
    """So many launches of as many copies, some milliseconds each; values stay between 0 and 1.

    Of few elements no number of launches lasts where a device ends one before the next is made.
    """
    copies = x.expand((amount, *x.shape))
    for _ in range(amount):
        copies = copies.sin()
    return copies[0]


def amounts() -> Any:
    """Amounts of work, each twice the one before."""
    return [1 << n for n in range(MOST_DOUBLINGS)]


async def turns_during(awaited: Any) -> int:
    """How many turns the event loop makes until something awaited is there."""
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    ticker = asyncio.create_task(turn())
    try:
        await awaited
    finally:
        ticker.cancel()
    return turns


# ---- nothing waits but a read ----


def test_ops_and_flushes_return_before_the_work_is_done(queued: pyrite.Device) -> None:
    runtime = runtime_of(queued)
    x = pyrite.ones((1 << 20,), device=queued)

    def is_under_way(amount: int) -> bool:
        y = work(x, amount)
        under_way = not runtime.is_done(runtime.flush())
        assert 0.0 < y[0].item() < 1.0
        return under_way

    assert any(is_under_way(amount) for amount in amounts())


def test_an_event_loop_runs_on_while_a_value_is_awaited(queued: pyrite.Device) -> None:
    x = pyrite.ones((1 << 20,), device=queued)

    async def turns(amount: int) -> int:
        return await turns_during(work(x, amount).sum().item_async())

    assert any(asyncio.run(turns(amount)) >= TURNS for amount in amounts())


def test_an_event_loop_runs_on_while_a_device_is_awaited(queued: pyrite.Device) -> None:
    runtime = runtime_of(queued)
    x = pyrite.ones((1 << 20,), device=queued)

    async def turns(amount: int) -> int:
        y = work(x, amount)
        found = await turns_during(queued.synchronize_async())
        assert runtime.is_done(runtime.flush())
        del y
        return found

    assert any(asyncio.run(turns(amount)) >= TURNS for amount in amounts())


def test_more_may_be_asked_while_a_value_is_awaited(queued: pyrite.Device) -> None:
    x = pyrite.ones((1 << 16,), device=queued)

    async def both() -> list[float]:
        first = asyncio.create_task((x + 1.0).sum().item_async())
        await asyncio.sleep(0)
        second = (x + 2.0).sum().item_async()
        return [float(await value) for value in (second, first)]

    assert asyncio.run(both()) == [3.0 * (1 << 16), 2.0 * (1 << 16)]


def test_a_read_that_is_cancelled_does_no_harm(queued: pyrite.Device) -> None:
    x = pyrite.ones((1 << 20,), device=queued)

    async def give_up() -> None:
        task = asyncio.create_task(work(x, 8).to_numpy_async())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())

    assert (x + 1.0).sum().item() == 2.0 * (1 << 20)


# ---- whatever drives the coroutine ----


def by_asyncio(body: Callable[[], Any]) -> Any:
    return asyncio.run(body())


def by_hand(body: Callable[[], Any]) -> Any:
    coroutine = body()
    while True:
        try:
            assert coroutine.send(None) is None
        except StopIteration as stop:
            return stop.value


def by_turns(body: Callable[[], Any]) -> Any:
    """A loop of a few lines, with another task beside it."""
    turns = 0

    @types.coroutine
    def ticking() -> Any:
        nonlocal turns
        while True:
            turns += 1
            yield

    tasks, found = collections.deque([ticking(), body()]), None
    while len(tasks) == 2:
        task = tasks.popleft()
        try:
            task.send(None)
        except StopIteration as stop:
            found = stop.value
        else:
            tasks.append(task)
    assert turns
    return found


def by_trio(body: Callable[[], Any]) -> Any:
    return pytest.importorskip("trio").run(body)


def in_qt() -> Any:
    """Return Qt's application, without a screen, where there is Qt."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    widgets = pytest.importorskip("PySide6.QtWidgets")
    pytest.importorskip("rendercanvas.qt")  # before there is an application, which it would not run
    return widgets.QApplication.instance() or widgets.QApplication([])


def by_qasync(body: Callable[[], Any]) -> Any:
    """Qt's loop as asyncio's."""
    loop = pytest.importorskip("qasync").QEventLoop(in_qt())
    asyncio.set_event_loop(loop)
    try:
        with loop:
            return loop.run_until_complete(body())
    finally:
        asyncio.set_event_loop(None)


def by_rendercanvas(name: str) -> Callable[[Callable[[], Any]], Any]:
    def run(body: Callable[[], Any]) -> Any:
        if name == "trio":
            pytest.importorskip("trio")
        if name == "qt":
            in_qt()
        module = pytest.importorskip(f"rendercanvas.{name}")
        loop: Any = {
            "raw": "RawLoop", "asyncio": "AsyncioLoop", "trio": "TrioLoop", "qt": "QtLoop",
        }[name]  # fmt: skip
        loop, outcome = getattr(module, loop)(), []

        async def main() -> None:
            try:
                outcome.append(await body())
            except BaseException as error:
                outcome.append(error)
                if not isinstance(error, Exception):
                    raise
            finally:
                loop.stop(force=True)

        loop._stop_when_no_canvases = False  # else it ends after 0.1 s, and cancels
        loop.add_task(main)
        loop.run()
        (found,) = outcome
        if isinstance(found, BaseException):
            raise found
        return found

    return run


DRIVERS = {
    "asyncio": by_asyncio, "hand": by_hand, "turns": by_turns, "trio": by_trio,
    **{f"rendercanvas.{n}": by_rendercanvas(n) for n in ("raw", "asyncio", "trio", "qt")},
    "qasync": by_qasync,
}  # fmt: skip


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("name", [*EVERYWHERE, "candle"])
def test_any_loop_drives_what_is_awaited(name: str, driver: str) -> None:
    device = working(name)
    x = pyrite.full((1 << 16,), 2.0, device=device)
    large = pyrite.ones((1 << 19,), device=device)

    async def body() -> Any:
        await device.synchronize_async()
        arrays = await pyrite.read_async(x.max(), (large + 1.0))
        # Candle has no argwhere.
        places = await (x[:3] > 1.0).to(name.replace("candle", "cpu")).argwhere_async()
        return (
            await (x + 1.0).sum().item_async(), (await (x * 2.0).to_numpy_async())[-1],
            arrays[0].item(), arrays[1].sum(), places.shape,
        )  # fmt: skip

    assert DRIVERS[driver](body) == (3.0 * (1 << 16), 4.0, 2.0, 2.0 * (1 << 19), (3, 1))


@pytest.mark.parametrize("driver", DRIVERS)
def test_any_loop_waits_while_kernels_are_compiled_elsewhere(
    queued: pyrite.Device, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, threads = type(runtime_of(queued)), []
    compile = runtime.compile

    def noting(self: Any, kernel: Any) -> Any:
        if kernel.name in ("by_types_kernel", "by_examples_kernel"):
            threads.append(threading.get_ident())
        return compile(self, kernel)

    monkeypatch.setattr(runtime, "compile", noting)

    @pyrite.extension.kernel
    def by_types_kernel(k: Any, x: Any, out: Any, *, by: float) -> None:
        out[k.at] = x[k.at] + by

    @pyrite.extension.kernel
    def by_examples_kernel(k: Any, x: Any, out: Any) -> None:
        out[k.at] = x[k.at] * 2.0

    @pyrite.custom_op(infer=lambda x, *, by: x, kernels=[by_types_kernel])
    def by_types(x: pyrite.Tensor, /, *, by: float) -> pyrite.Tensor:
        """x + by."""
        ...

    @pyrite.custom_op(infer=lambda x: x, kernels=[by_examples_kernel])
    def by_examples(x: pyrite.Tensor, /) -> pyrite.Tensor:
        """2 x."""
        ...

    x = pyrite.ones((5,), device=queued)

    async def body() -> None:
        await by_types.prepare(TensorType((5,), pyrite.float32), by=0.5, device=queued)
        await pyrite.prepare(by_examples, x)

    DRIVERS[driver](body)

    assert len(threads) == 2
    assert threading.get_ident() not in threads
    assert by_types(by_examples(x), by=0.5).tolist() == [2.5] * 5
    assert len(threads) == 2


@pytest.mark.parametrize("driver", DRIVERS)
def test_any_loop_gets_the_errors(queued: pyrite.Device, driver: str) -> None:
    async def nothing() -> None: ...

    # Skips where the loop is missing: a failure that nobody reads would show in the next test.
    DRIVERS[driver](nothing)
    x = pyrite.arange(4, device=queued)
    outside = x.take(pyrite.tensor([9], device=queued), 0)

    with pytest.raises(IndexRangeError, match="take requires"):
        DRIVERS[driver](outside.to_numpy_async)


def test_a_coroutine_that_is_closed_leaves_nothing(queued: pyrite.Device) -> None:
    x = pyrite.ones((1 << 20,), device=queued)

    def is_closed_on_its_way(amount: int) -> bool:
        coroutine = work(x, amount).to_numpy_async()
        try:
            coroutine.send(None)
        except StopIteration:
            return False
        coroutine.close()
        return True

    assert any(is_closed_on_its_way(amount) for amount in amounts())
    for thread in threading.enumerate():
        if thread.name == "pyrite-wait":
            thread.join(60)

    assert not [t for t in threading.enumerate() if t.name == "pyrite-wait"]
    assert (x + 1.0).sum().item() == 2.0 * (1 << 20)


def test_trio_cancels_what_is_awaited(queued: pyrite.Device) -> None:
    trio = pytest.importorskip("trio")
    x = pyrite.ones((1 << 20,), device=queued)

    async def give_up(amount: int) -> bool:
        with trio.CancelScope() as scope:
            scope.cancel()
            await work(x, amount).to_numpy_async()
        return bool(scope.cancelled_caught)

    assert any(trio.run(give_up, amount) for amount in amounts())
    assert (x + 1.0).sum().item() == 2.0 * (1 << 20)


# ---- without a loop ----


@pytest.mark.parametrize("name", [*EVERYWHERE, "candle"])
def test_what_is_ready_is_asked_without_waiting(name: str) -> None:
    x = pyrite.ones((1 << 16,), device=working(name))
    with pyrite.no_sync():
        y = work(x, 4)
        deadline = time.monotonic() + 60
        while not y.is_ready():
            assert time.monotonic() < deadline
            work(x, 1)  # what is asked for later does not delay it
            time.sleep(0.001)
    assert 0.0 < y[0].item() < 1.0


def test_what_is_under_way_is_not_ready(queued: pyrite.Device) -> None:
    x = pyrite.ones((1 << 20,), device=queued)

    assert any(not work(x, amount).is_ready() for amount in amounts())


@pytest.mark.parametrize("name", [*EVERYWHERE, "candle"])
def test_a_function_is_called_when_a_tensor_is_ready(name: str) -> None:
    x = pyrite.tensor([1.0, 2.0], device=working(name))
    leaf = x.to(autodiff(x.device)).require_grad()
    done: queue.Queue[pyrite.Tensor] = queue.Queue()

    for y in (x * 2.0, (leaf * 2.0)):
        y.when_ready(done.put)
        found = done.get(timeout=60)
        assert found is y
        assert found.is_ready()
        assert found.tolist() == [2.0, 4.0]
    assert done.empty()


def test_it_is_called_of_what_failed_too(queued: pyrite.Device) -> None:
    x = pyrite.arange(4, device=queued)
    outside = x.take(pyrite.tensor([9], device=queued), 0)
    done: queue.Queue[pyrite.Tensor] = queue.Queue()

    outside.when_ready(done.put)

    with pytest.raises(IndexRangeError):
        done.get(timeout=60).numpy()


# ---- what is read ----


def test_reads_that_are_awaited_together_get_their_own_values(everywhere: pyrite.Device) -> None:
    tensors = [pyrite.full((100 + i,), float(i), device=everywhere) * 2.0 for i in range(12)]

    async def read() -> Any:
        return await asyncio.gather(*(x.to_numpy_async() for x in tensors))

    for i, array in enumerate(asyncio.run(read())):
        np.testing.assert_array_equal(array, np.full(100 + i, 2.0 * i, np.float32))
        assert not array.flags.writeable


def test_several_tensors_are_read_together(everywhere: pyrite.Device) -> None:
    x = pyrite.tensor([[1.0, 2.0], [3.0, 4.0]], device=everywhere)
    leaf = x.to(autodiff(everywhere)).require_grad()
    wanted = (x, x.mT, leaf * 2.0, x[:0], x.sum(), pyrite.tensor([7]), x > 1.5)

    for found in (pyrite.read(*wanted), asyncio.run(pyrite.read_async(*wanted))):
        assert [a.tolist() for a in found] == [w.tolist() for w in wanted]
    assert pyrite.read() == ()


def test_a_transaction_is_one_read_back(queued: pyrite.Device) -> None:
    report = runtime_of(queued).report
    x = pyrite.arange(10, dtype="float32", device=queued)
    inside = x.take(pyrite.tensor([1, 2], device=queued), 0)  # its indices are tested, and read too
    leaf = x.to(autodiff(queued))
    before = report()["read_backs"]

    pyrite.read(x, x + 1.0, inside, leaf * 3.0)
    asyncio.run(pyrite.read_async(x, inside))

    assert report()["read_backs"] == before + 2


def test_values_are_awaited_where_waiting_is_forbidden(everywhere: pyrite.Device) -> None:
    x = pyrite.tensor([3.0], device=everywhere)

    async def read() -> Any:
        await everywhere.synchronize_async()
        return await x.item_async(), (await pyrite.read_async(x))[0].tolist()

    with pyrite.no_sync():
        assert asyncio.run(read()) == (3.0, [3.0])
        with pytest.raises(SyncError, match="read requires waiting for the device"):
            pyrite.read(x)


def test_gradients_are_awaited(everywhere: pyrite.Device) -> None:
    w = pyrite.tensor([1.0, 2.0], device=autodiff(everywhere)).require_grad()
    loss = (w * w).sum()

    async def read() -> Any:
        return await pyrite.read_async(loss, loss.backward()[w])

    found = asyncio.run(read())
    assert [a.tolist() for a in found] == [5.0, [2.0, 4.0]]


# ---- errors ----


@pytest.mark.parametrize("form", ["value", "transaction", "device"])
def test_an_index_outside_is_raised_at_the_next_awaited_read(
    queued: pyrite.Device, form: str
) -> None:
    x = pyrite.arange(4, device=queued)
    outside = x.take(pyrite.tensor([9], device=queued), 0)

    async def read() -> None:
        if form == "value":
            await outside.to_numpy_async()
        elif form == "transaction":
            await pyrite.read_async(x, outside)
        else:
            await queued.synchronize_async()

    with pytest.raises(IndexRangeError, match=r"take requires -4 <= index < 4"):
        asyncio.run(read())
    assert x.sum().item() == 6  # it is raised once


def test_one_value_is_awaited_of_one_element_only(everywhere: pyrite.Device) -> None:
    with pytest.raises(ShapeError, match=r"item_async requires one element, got shape \(2,\)"):
        asyncio.run(pyrite.ones((2,), device=everywhere).item_async())
