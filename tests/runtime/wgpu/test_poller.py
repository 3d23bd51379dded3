"""Waiting: an event loop runs on, and who gives up does no harm."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("wgpu")


from pyrite.kernel import Kernel, KernelBuilder
from pyrite.runtime.wgpu import WgpuRuntime, native
from pyrite.types import float32, int32

Program = Callable[[str], str]


def slow() -> Kernel:
    """Return one of some tenths of a second on lavapipe, for 20,000 rounds."""
    b = KernelBuilder("slow", workgroup_size=64)
    x, rounds = b.buffer("x", float32, "read_write"), b.scalar("rounds", int32)
    i = b.global_id()
    with b.for_(0, rounds, carried=[x[i]]) as loop:
        loop.yield_(loop.carried[0] * 0.999 + x[0])
    x[i] = loop.results[0]
    return b.build()


def test_an_event_loop_runs_on_while_values_are_awaited(runtime: WgpuRuntime) -> None:
    x = runtime.upload(np.ones(1 << 16, np.float32))
    kernel = runtime.compile(slow())
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    async def read(rounds: int) -> Any:
        nonlocal ticks
        ticks = 0
        ticker = asyncio.create_task(tick())
        runtime.launch(kernel, [x, rounds], [1 << 10])
        values = await runtime.read_all_async([(x, float32, (1 << 16,))])
        await runtime.synchronize_async()
        ticker.cancel()
        return values[0]

    # However fast the machine is: the work is doubled until it lasts.
    for doublings in range(9):
        assert asyncio.run(read(20_000 << doublings))[-1] > 1.0
        if ticks > 10:
            break
    else:
        pytest.fail("an event loop stood still")


def test_who_waits_leaves_the_device_to_a_thread_that_polls(runtime: WgpuRuntime) -> None:
    """And finds out that its work is done, whoever was called back."""
    x = runtime.upload(np.ones(1 << 10, np.float32))
    kernel, ended = runtime.compile(slow()), threading.Event()

    def poll_on() -> None:
        while not ended.is_set():
            with native.polling:  # for as long as it can
                native.poll(runtime.device.raw)

    threads = [threading.Thread(target=poll_on) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            runtime.launch(kernel, [x, 10], [1 << 4])
            runtime.synchronize()
    finally:
        ended.set()
        for thread in threads:
            thread.join()

    assert runtime.read(x, float32, (1 << 10,))[0] > 1.0


def test_a_read_that_is_cancelled_does_no_harm(runtime: WgpuRuntime) -> None:
    x = runtime.upload(np.ones(1 << 16, np.float32))

    async def give_up() -> None:
        runtime.launch(runtime.compile(slow()), [x, 20_000], [1 << 10])
        task = asyncio.create_task(runtime.read_all_async([(x, float32, (1 << 16,))]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())
    gc.collect()
    runtime.synchronize()

    assert runtime.read(x, float32, (1 << 16,))[0] > 1.0
