"""How late the frames of a window come beside Pyrite's work: cold start included.

    python benchmarks/window.py [--device cpu] [--seconds 5] [--switch 0.0003] [--realtime]

A loop of 60 Hz, as a window has, runs beside nothing, beside an image pipeline in the same loop
(`examples/apps/video_filters.py`, prepared by `pyrite.prepare` and awaited), and beside a training
on a thread of its own.  Each case is a new process, so kernels are compiled while it is measured.
Told are how late frames came, median, p99 and worst, in ms; the goal is 5 at p99 on cpu.

What an application does for that, and this does: it sets `sys.setswitchinterval`, how long a thread
may keep Python from another that waits (5 ms where nobody says otherwise); it calls `gc.freeze()`
once all is imported, without which one collection of all objects holds Python for 80 ms; and it
makes a model away from the loop, as `pyrite.prepare` compiles away from it.

``--realtime`` asks Linux for real-time priority, the loop's above the others': on a machine that
others share nothing else is a measure of this program.  Linux takes 50 ms of each second from such
threads, so the work rests for 80 ms in each 0.7 s.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import subprocess
import sys
import threading
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


class Rests:
    """What keeps real-time threads below the share that Linux grants them; nothing for others."""

    def __init__(self, *, are_wanted: bool) -> None:
        self._are_wanted = are_wanted
        self._last = time.perf_counter()

    def due(self) -> float:
        """Return for how many seconds to rest now."""
        now = time.perf_counter()
        if not self._are_wanted or now - self._last < 0.7:
            return 0.0
        self._last = now + 0.08
        return 0.08


def watch_priorities() -> None:
    """Have every thread of this process at real-time priority, the first above the others."""
    first = os.getpid()

    def watch() -> None:
        while True:
            for task in map(int, os.listdir("/proc/self/task")):
                level = os.sched_param(51 if task == first else 50)
                try:
                    os.sched_setscheduler(task, os.SCHED_FIFO, level)
                except ProcessLookupError:  # it has ended
                    continue
            time.sleep(0.05)

    threading.Thread(target=watch, daemon=True).start()


Work = Callable[[float], Awaitable[None]]


def nothing(device: str, rests: Rests) -> Work:
    """Do nothing."""

    async def work(until: float) -> None:
        pass

    return work


def pipeline(device: str, rests: Rests) -> Work:
    """Filter one frame after the other, of 160 x 120."""
    import pyrite

    video = import_module("video_filters")
    where = pyrite.device(device)
    film = list(video.frames(8, 120, 160))

    async def work(until: float) -> None:
        model, n = await asyncio.to_thread(lambda: video.Denoiser().to(where)), 0
        await pyrite.prepare(video.filtered, model, pyrite.tensor(film[0], device=where))
        began = time.perf_counter()
        while time.perf_counter() < until:
            clean, edges = video.filtered(model, pyrite.tensor(film[n % 8], device=where))
            await pyrite.read_async(clean, edges)
            n += 1
            if pause := rests.due():
                await asyncio.sleep(pause)
        print(f"{n} pictures in {until - began:.1f} s,", end=" ")

    return work


def training(device: str, rests: Rests) -> Work:
    """Train a network for digits on a thread."""
    import pyrite

    app = import_module("digits_window")

    class Training(app.Training):  # type: ignore[name-defined]
        """It rests in between."""

        def advance(self) -> None:
            time.sleep(rests.due())
            super().advance()

    network = Training(pyrite.device(device))

    async def work(until: float) -> None:
        network.begin()
        await asyncio.sleep(until - time.perf_counter())
        network.end()
        print(f"{network.steps} steps,", end=" ")

    return work


CASES: dict[str, Callable[[str, Rests], Work]] = {
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
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--switch", type=float, default=0.0003)
    parser.add_argument("--realtime", action="store_true")
    parser.add_argument("--case", choices=CASES)
    given = parser.parse_args()
    if given.case is None:
        for case in CASES:
            subprocess.run([sys.executable, *sys.argv, "--case", case], check=True)
        return
    sys.setswitchinterval(given.switch)
    sys.path.insert(0, str(APPS))
    if given.realtime:
        watch_priorities()
    rests = Rests(are_wanted=given.realtime)
    work = CASES[given.case](given.device, rests)  # what is imported before a window opens
    gc.collect()
    gc.freeze()
    late = np.array(asyncio.run(measured(work, given.seconds))) * 1e3
    median, high, worst = np.percentile(late, (50, 99, 100))
    print(
        f"beside {given.case} on {given.device}: {len(late)} frames, late by {median:.2f} ms, "
        f"{high:.2f} at p99, {worst:.1f} at worst; load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
