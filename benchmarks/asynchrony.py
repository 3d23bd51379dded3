"""What a second of work holds up: the call that asks for it, its flush, and an event loop.

The work is a chain of matrix products, as many as take about a second, on each device that works
here; a software Vulkan adapter counts as one.  Issue 3 asks that a flush of a second of work
returns in under 5 % of it.  The jitter is how late an event loop is that sleeps 5 ms at a time,
while it awaits the work, and while nothing is under way.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Awaitable
from time import perf_counter

import pyrite
from pyrite.backend.device import device_problem

DEVICES = ("cpu", "wgpu")
SIZE = 1024
TICK = 0.005
REPEATS = 5


def main() -> None:
    """Print the times."""
    for name in DEVICES:
        problem = device_problem(name)
        if problem is None:
            print(f"{name}: {report(pyrite.device(name))}")
        else:
            print(f"{name}: does not work here: {problem}")


def report(device: pyrite.Device) -> str:
    """The figures of one device, one on each line."""
    x = pyrite.full((SIZE, SIZE), 1.0 / SIZE, device=device)
    products = calibrate(x)
    whole, asked, flushed = zip(*(submit(x, products) for _ in range(REPEATS)), strict=True)
    idle = asyncio.run(lateness(asyncio.sleep(1.0)))
    busy = asyncio.run(lateness_of(x, products))
    work = statistics.median(whole)
    return "\n".join(
        [
            f"{products} products of {SIZE} x {SIZE}, {work:.2f} s",
            line("asking for them", asked, work),
            line("their flush", flushed, work),
            f"  {'an event loop, idle, is late by':36} {late(idle)}",
            f"  {'while it awaits them':36} {late(busy)}",
        ]
    )


def calibrate(x: pyrite.Tensor) -> int:
    """How many products take about a second."""
    submit(x, 1)  # compiles
    products = 1
    while (seconds := submit(x, products)[0]) < 0.5:
        products *= 2
    return max(1, round(products / seconds))


def submit(x: pyrite.Tensor, products: int) -> tuple[float, float, float]:
    """Seconds until the work is done, until it was asked for, and of that last flush."""
    runtime = x.device.backend.root.runtime  # type: ignore[attr-defined]
    x.device.synchronize()
    start = perf_counter()
    y = chain(x, products)
    asked = perf_counter()
    runtime.flush()
    flushed = perf_counter()
    x.device.synchronize()
    del y
    return perf_counter() - start, asked - start, flushed - asked


def chain(x: pyrite.Tensor, products: int) -> pyrite.Tensor:
    """x to a power; all its elements are 1 / SIZE, and so are those of the power."""
    y = x
    for _ in range(products):
        y = y @ x
    return y


async def lateness_of(x: pyrite.Tensor, products: int) -> list[float]:
    """How late the event loop is while it awaits the work."""
    return await lateness(chain(x, products).to_numpy_async())


async def lateness(awaited: Awaitable[object]) -> list[float]:
    """Seconds by which each tick comes late until something awaited is there."""
    found: list[float] = []

    async def tick() -> None:
        while True:
            start = perf_counter()
            await asyncio.sleep(TICK)
            found.append(perf_counter() - start - TICK)

    ticker = asyncio.create_task(tick())
    await awaited
    ticker.cancel()
    return found


def line(what: str, seconds: tuple[float, ...], work: float) -> str:
    """A median, and what part of the work it is."""
    median = statistics.median(seconds)
    return f"  {what:36} {median * 1e3:8.2f} ms = {median / work:6.2%}"


def late(seconds: list[float]) -> str:
    """The middle and the worst of many."""
    worst, middle = max(seconds), statistics.median(seconds)
    return f"{middle * 1e3:8.2f} ms, at most {worst * 1e3:.2f} ms, {len(seconds)} ticks"


if __name__ == "__main__":
    main()
