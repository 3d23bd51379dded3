"""Ops return at once, and an event loop runs on while values are awaited: on every device.

How fast a machine is does not matter: where a statement needs work that lasts, the work is doubled
until it lasts long enough.  Of an op or a read that waited, no amount of work would make it true.
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.autodiff import autodiff
from pyrite.backend.device import device_problem
from pyrite.errors import IndexRangeError, ShapeError, SyncError
from pyrite.runtime.protocol import Runtime

EVERYWHERE = ("numpy", "torch:cpu", "cpu", "wgpu")
#: Devices with a queue of their own.
QUEUED = ("cpu", "wgpu")

#: Doublings of some ten milliseconds of work before a test gives up.
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
    """Some milliseconds of work for each unit; all values stay between 0 and 1."""
    for _ in range(amount):
        x = x.sin()
    return x


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
