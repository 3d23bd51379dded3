"""How late the frames of a window come beside Pyrite's work: cold start included.

    python benchmarks/window.py [--device cpu] [--seconds 10] [--switch 0.001]

A loop of 60 Hz, as a window has, runs beside nothing, beside an image pipeline in the same loop
(`examples/apps/video_filters.py`, prepared by `pyrite.prepare` and awaited), and beside a training
on a thread of its own.  Each case is a new process, so kernels are compiled while it is measured.
Told are how late frames came, median, p99 and worst, in ms; the goal is 5 at p99 on cpu.  What the
machine itself does to such a loop is the first line: compare with it.

``--switch`` is `sys.setswitchinterval`: how long a thread may keep Python from another that waits,
5 ms where nobody says otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path

import numpy as np

APPS = Path(__file__).parents[1] / "examples" / "apps"
FRAME = 1 / 60


async def frames(until: float) -> list[float]:
    """Return how late each frame came, in seconds; a late one does not delay the next."""
    late, due = [], time.perf_counter()
    while due < until:
        due += FRAME
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        late.append(time.perf_counter() - due)
        due += FRAME * int(late[-1] / FRAME)
    return late


Work = Callable[[float], Awaitable[None]]


def nothing(device: str) -> Work:
    """Do nothing."""

    async def work(until: float) -> None:
        pass

    return work


def pipeline(device: str) -> Work:
    """Filter one frame after the other, of 160 x 120."""
    import pyrite

    video = import_module("video_filters")
    where = pyrite.device(device)
    film = list(video.frames(8, 120, 160))

    async def work(until: float) -> None:
        model, n = video.Denoiser().to(where), 0
        await pyrite.prepare(video.filtered, model, pyrite.tensor(film[0], device=where))
        began = time.perf_counter()
        while time.perf_counter() < until:
            clean, edges = video.filtered(model, pyrite.tensor(film[n % 8], device=where))
            await pyrite.read_async(clean, edges)
            n += 1
        print(f"{n} pictures in {until - began:.1f} s,", end=" ")

    return work


def training(device: str) -> Work:
    """Train a network for digits on a thread."""
    import pyrite

    network = import_module("digits_window").Training(pyrite.device(device))

    async def work(until: float) -> None:
        network.begin()
        await asyncio.sleep(until - time.perf_counter())
        network.end()
        print(f"{network.steps} steps,", end=" ")

    return work


CASES: dict[str, Callable[[str], Work]] = {
    "nothing": nothing, "pipeline": pipeline, "training": training,
}  # fmt: skip


async def measured(work: Work, seconds: float) -> list[float]:
    """Return how late frames came beside some work."""
    until = time.perf_counter() + seconds
    late, _ = await asyncio.gather(frames(until), work(until))
    return late


def main() -> None:
    """Run each case in a process of its own, or one case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--switch", type=float, default=0.001)
    parser.add_argument("--case", choices=CASES)
    given = parser.parse_args()
    if given.case is None:
        for case in CASES:
            subprocess.run([sys.executable, *sys.argv, "--case", case], check=True)
        return
    sys.setswitchinterval(given.switch)
    sys.path.insert(0, str(APPS))
    work = CASES[given.case](given.device)  # what is imported and read before a window opens
    late = np.array(asyncio.run(measured(work, given.seconds))) * 1e3
    median, high, worst = np.percentile(late, (50, 99, 100))
    print(
        f"beside {given.case} on {given.device}: {len(late)} frames, late by {median:.2f} ms, "
        f"{high:.2f} at p99, {worst:.1f} at worst; load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
