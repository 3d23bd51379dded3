"""What the dashboard costs a training beside ``--plain``, and how long it takes to read a long run.

Each training is ``pyrite train digits`` in a terminal of its own, on two processors; the two kinds
take turns, in an order that alternates.  The time of a step is that of the epochs after the first,
as the run itself tells it. Printed are the median of the pairs' ratios, its 95 % interval by
resampling the pairs, and how much processor time the dashboard took.  On a machine that does other
things too, pairs of runs say little; ``--turns`` stops and continues the dashboard's process within
one run, five seconds each, and compares the steps of neighbouring turns.

    python benchmarks/dashboard.py [--pairs 20] [--epochs 60] [--batch 64] [--size 80x24]
    python benchmarks/dashboard.py --turns 40         # one run, whose dashboard is stopped in turns
    python benchmarks/dashboard.py --steps 1000000 --read-every 10    # write and read such a file
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import random
import resource
import signal
import statistics
import struct
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from pyrite.train import (
    EpochEnded,
    EpochStarted,
    Event,
    Reading,
    RunStarted,
    StepEnded,
    read_events,
)
from pyrite.train.event_file import EventWriter
from pyrite.train.view.watch.follower import Follower

RESAMPLES = 10_000
#: Seconds of a turn, and before the first: the dashboard has started, kernels are compiled.
TURN, WARM_UP = 5.0, 6.0


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--turns", type=int)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--size", default="80x24")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--read-every", type=int, default=10)
    arguments = parser.parse_args()
    if arguments.steps:
        read_a_long_run(arguments.steps, arguments.read_every)
    elif arguments.turns:
        take_turns(arguments)
    else:
        compare(arguments)


def compare(arguments: argparse.Namespace) -> None:
    """Train in pairs, with lines and with the dashboard, and print the ratios."""
    _use_cores(arguments.cores)
    ratios, dashboard_seconds = [], []
    for pair in range(arguments.pairs):
        step, seconds = {}, {}
        for kind in ("plain", "dashboard") if pair % 2 else ("dashboard", "plain"):
            step[kind], seconds[kind] = train(arguments, kind)
        ratios.append(step["dashboard"] / step["plain"])
        dashboard_seconds.append(seconds["dashboard"] - seconds["plain"])
        print(
            f"pair {pair + 1:3}  plain {1 / step['plain']:7.1f} steps/s   "
            f"dashboard {1 / step['dashboard']:7.1f} steps/s   ratio {ratios[-1]:.4f}",
            flush=True,
        )
    low, high = interval(ratios)
    print(f"\nsteps take {statistics.median(ratios):.4f} times as long [{low:.4f}, {high:.4f}]")
    print(f"processor seconds more, a run: {statistics.median(dashboard_seconds):.2f}")


def take_turns(arguments: argparse.Namespace) -> None:
    """Train once, stop and continue the dashboard meanwhile, and print how fast steps were."""
    _use_cores(arguments.cores)
    turns: list[tuple[float, float, bool]] = []
    busy: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "run")

        def switch(process: int) -> None:
            wait_for(lambda: seconds_of(run) > WARM_UP)
            (shown,) = psutil.Process(process).children()
            for turn in range(2 * arguments.turns):
                (shown.resume if turn % 2 else shown.suspend)()
                used, began = sum(shown.cpu_times()[:2]), time.time()
                time.sleep(TURN)
                turns.append((began + TURN / 10, time.time(), bool(turn % 2)))
                if turn % 2:
                    busy.append((sum(shown.cpu_times()[:2]) - used) / TURN)
            shown.resume()
            os.kill(process, signal.SIGINT)

        in_a_terminal(command_of({**vars(arguments), "epochs": 10**6}, run, "dashboard"),
                      arguments.size, switch)  # fmt: skip
        times = [e.time for e in read_events(run / "events.jsonl") if is_step(e.event)]
    speeds = [(speed(times, begin, end), is_shown) for begin, end, is_shown in turns]
    ratios = [a / b for (a, _), (b, is_shown) in pairwise(speeds) if is_shown]
    ratios += [b / a for (a, is_shown), (b, _) in pairwise(speeds) if is_shown]
    low, high = interval(ratios)
    print(f"{statistics.median(v for v, _ in speeds):.0f} steps/s, {len(ratios)} neighbours")
    print(f"steps take {statistics.median(ratios):.4f} times as long [{low:.4f}, {high:.4f}]")
    print(f"of a processor, the dashboard takes {statistics.median(busy):.1%}")


def is_step(event: Event) -> bool:
    """Whether a step of training was told."""
    return isinstance(event, StepEnded) and event.split == "train"


def speed(times: list[float], begin: float, end: float) -> float:
    """Return steps told a second, within a span and from its first step to its last, times 10."""
    inside = [at for at in times if begin <= at <= end]
    return 10 * (len(inside) - 1) / (inside[-1] - inside[0])


def seconds_of(run: Path) -> float:
    """Return for how long a run has told of steps."""
    if not (run / "events.jsonl").exists():
        return 0.0
    times = [entry.time for entry in read_events(run / "events.jsonl") if is_step(entry.event)]
    return times[-1] - times[0] if times else 0.0


def wait_for(is_so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    while not is_so():
        time.sleep(0.5)


def _use_cores(count: int) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def command_of(arguments: Mapping[str, Any], run: Path, kind: str) -> list[str]:
    """Return the command that trains."""
    return [
        sys.executable, "-m", "pyrite", "train", "digits", "--out", str(run),
        "--device", arguments["device"], "--epochs", str(arguments["epochs"]),
        "--batch-size", str(arguments["batch"]), *(["--plain"] if kind == "plain" else []),
    ]  # fmt: skip


def train(arguments: argparse.Namespace, kind: str) -> tuple[float, float]:
    """Return the seconds of a step, and the processor seconds of all processes of the run."""
    with tempfile.TemporaryDirectory() as folder:
        command = command_of(vars(arguments), Path(folder, "run"), kind)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        in_a_terminal(command, arguments.size)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return seconds_per_step(Path(folder, "run")), _processor(after) - _processor(before)


def in_a_terminal(
    command: list[str], size: str, meanwhile: Callable[[int], None] | None = None
) -> None:
    """Run a command in a terminal that shows all that is written to it.

    meanwhile: called with the number of the process, on a thread; it may interrupt the process.
    """
    columns, rows = map(int, size.split("x"))
    process, terminal = pty.fork()
    if not process:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.environ["TERM"] = "xterm-256color"
        os.execvp(command[0], command)
    if meanwhile is not None:
        threading.Thread(target=meanwhile, args=(process,), daemon=True).start()
    written = b""
    try:
        while piece := os.read(terminal, 1 << 16):
            written = (written + piece)[-4000:]
    except OSError:  # the terminal has no program any more
        pass
    os.close(terminal)
    _, status = os.waitpid(process, 0)
    if status and meanwhile is None:
        raise SystemExit(f"{' '.join(command)} failed:\n{written.decode(errors='replace')}")


def seconds_per_step(run: Path) -> float:
    """Return the mean over the epochs of training after the first: that one compiles kernels."""
    events = [entry.event for entry in read_events(run / "events.jsonl")]
    steps = next(event.steps for event in events if isinstance(event, EpochStarted))
    epochs = [e for e in events if isinstance(e, EpochEnded) and e.split == "train" and e.epoch > 1]
    return statistics.mean(epoch.seconds for epoch in epochs) / steps


def interval(ratios: list[float]) -> tuple[float, float]:
    """Return the 95 % interval of the median."""
    draw = random.Random(0)
    medians = sorted(
        statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES)
    )
    return medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES)]


def read_a_long_run(steps: int, read_every: int) -> None:
    """Write the events of a run of one metric and one loss, and read them as the dashboard does."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "events.jsonl")
        write_a_long_run(path, steps, read_every)
        follower, began = Follower(path), time.perf_counter()
        while not follower.read(0.1):
            pass
        seconds = time.perf_counter() - began
        points = len(follower.state.curves["train", "Loss"])
        print(f"{path.stat().st_size / 1e6:.1f} MB, {points:,} readings, read in {seconds:.2f} s")


def write_a_long_run(path: Path, steps: int, read_every: int, epochs: int = 100) -> None:
    """Write what a learner with that `read_every` writes."""
    each = steps // epochs
    with EventWriter(path) as writer:
        writer.append(RunStarted("cpu", 0, epochs, 1, path.parent))
        for epoch in range(1, epochs + 1):
            writer.append(EpochStarted(epoch, epochs, 0, each))
            for step in range(read_every, each + 1, read_every):
                value = 1 / (epoch * step + 1) ** 0.5
                readings = Reading("Loss", value, "", "lower"), Reading("Accuracy", 1 - value, "%")
                times = value / 100, value / 1000
                writer.append(
                    StepEnded(
                        "train", epoch, step, each, readings, *times, 32, value / 9, value * 9
                    )
                )


def _processor(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
