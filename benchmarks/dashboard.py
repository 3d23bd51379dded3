"""What the dashboard costs a training beside ``--plain``, and how long it takes to read a long run.

Two trainings, ``pyrite train digits`` with lines and with the dashboard, run on the same two
processors, each in a terminal that this program holds; it needs none itself.  They take turns of
a second: of the two, one is always stopped (SIGSTOP), dashboard and all.  So what else the
machine does falls on neighbouring turns alike.  The speed of a turn is that of the steps which are
told in it.  Printed are the median of the ratios of neighbours, its 95 % interval by resampling
them, and how much of a processor the dashboard takes.

    python benchmarks/dashboard.py                    # 60 pairs of turns: two minutes and a half
    python benchmarks/dashboard.py --pairs 20 --size 200x60 --batch 32
    python benchmarks/dashboard.py --steps 1000000 --read-every 1    # write and read such a file
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import random
import signal
import statistics
import struct
import sys
import tempfile
import termios
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import psutil

from pyrite.train import EpochStarted, Reading, RunStarted, StepEnded
from pyrite.train.event_file import EventWriter
from pyrite.train.event_table import Steps, read_event_table
from pyrite.train.view.watch.follower import Follower

RESAMPLES = 10_000
#: Seconds of a turn, and of its beginning that do not count.
TURN, SETTLING = 1.0, 0.1
#: Epochs before the first turn, in which both compile kernels and the dashboard starts; and the
#: most seconds that they may take.
WARM_UP, PATIENCE = 10, 120.0


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--size", default="80x24")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--read-every", type=int, default=10)
    arguments = parser.parse_args()
    if arguments.steps:
        read_a_long_run(arguments.steps, arguments.read_every)
    else:
        compare(arguments)


@dataclass
class Training:
    """A training in a terminal of its own, which is stopped and goes on when it is told to."""

    kind: str
    arguments: argparse.Namespace
    folder: Path
    process: psutil.Process = field(init=False)
    _terminal: int = field(init=False)
    _written: bytes = b""

    def __enter__(self) -> Self:
        number, self._terminal = pty.fork()
        if not number:
            columns, rows = map(int, self.arguments.size.split("x"))
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.environ["TERM"] = "xterm-256color"
            os.execvp(sys.executable, self._command())
        self.process = psutil.Process(number)
        threading.Thread(target=self._read, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(psutil.NoSuchProcess):
            self.go_on()
            self.process.send_signal(signal.SIGINT)
            gone, _ = psutil.wait_procs([self.process], timeout=10)
            if not gone:
                self.process.kill()

    def stop(self) -> None:
        """Let it and its dashboard wait."""
        for process in self._processes():
            process.suspend()

    def go_on(self) -> None:
        """Let both go on."""
        for process in self._processes():
            process.resume()

    def dashboard_seconds(self) -> float:
        """Return the processor time of the dashboard so far."""
        return sum(sum(shown.cpu_times()[:2]) for shown in self.process.children())

    def speed(self, begin: float, end: float) -> float:
        """Return steps a second, from the first that was told between two times to the last."""
        steps = self.steps()
        assert steps is not None
        inside = steps.select((steps.fields["time"] >= begin) & (steps.fields["time"] <= end))
        if len(inside) < 2:
            raise SystemExit(f"{self.kind} told of {len(inside)} steps in a turn of {TURN} s")
        count = (inside.epochs[-1] - inside.epochs[0]) * inside.fields["steps"][0]
        return float(count / (inside.fields["time"][-1] - inside.fields["time"][0]))

    def steps(self) -> Steps | None:
        """Return the steps of training that were told so far."""
        path = self.folder / "events.jsonl"
        return read_event_table(path).steps.get("train") if path.exists() else None

    def wait_until_warm(self) -> None:
        """Return when some epochs are done.  Raises SystemExit where it ends, or takes too long."""
        deadline = time.monotonic() + PATIENCE
        while (steps := self.steps()) is None or steps.fields["epoch"][-1] < WARM_UP:
            self.require_running()
            if time.monotonic() > deadline:
                raise SystemExit(f"{self.kind} is too slow: no {WARM_UP} epochs in {PATIENCE} s")
            time.sleep(0.5)

    def _processes(self) -> list[psutil.Process]:
        return [self.process, *self.process.children()]

    def _command(self) -> list[str]:
        return [
            sys.executable, "-m", "pyrite", "train", "digits", "--out", str(self.folder),
            "--device", self.arguments.device, "--epochs", str(10**6),
            "--batch-size", str(self.arguments.batch), *(["--plain"] * (self.kind == "plain")),
        ]  # fmt: skip

    def _read(self) -> None:
        """Take what it writes, as a terminal does."""
        with suppress(OSError):  # it has ended
            while piece := os.read(self._terminal, 1 << 16):
                self._written = (self._written + piece)[-4000:]

    def require_running(self) -> None:
        """Raise SystemExit where it has ended, with what it wrote last."""
        if not self.process.is_running() or self.process.status() == psutil.STATUS_ZOMBIE:
            raise SystemExit(f"{self.kind} ended:\n{self._written.decode(errors='replace')}")


def compare(arguments: argparse.Namespace) -> None:
    """Let two trainings take turns, and print how fast they were."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.cores])
    with (
        tempfile.TemporaryDirectory() as folder,
        Training("plain", arguments, Path(folder, "plain")) as plain,
        Training("dashboard", arguments, Path(folder, "dashboard")) as shown,
    ):
        for training in (plain, shown):
            training.wait_until_warm()
        for training in (plain, shown):
            training.stop()
        ratios, speeds, busy = [], [], []
        for pair in range(arguments.pairs):
            speed = {}
            for training in (plain, shown) if pair % 2 else (shown, plain):
                used = training.dashboard_seconds()
                speed[training.kind] = turn(training)
                if training is shown:
                    busy.append((training.dashboard_seconds() - used) / TURN)
            ratios.append(speed["plain"] / speed["dashboard"])
            speeds.append(speed["plain"])
            both = f"{speed['plain']:7.1f} and {speed['dashboard']:7.1f} steps/s"
            print(f"pair {pair + 1:3}  {both}   ratio {ratios[-1]:.4f}", flush=True)
    low, high = interval(ratios)
    print(f"\n{statistics.median(speeds):.0f} steps/s; with the dashboard, steps take "
          f"{statistics.median(ratios):.4f} times as long [{low:.4f}, {high:.4f}]")  # fmt: skip
    print(f"of a processor, the dashboard takes {statistics.mean(busy):.1%}")


def turn(training: Training) -> float:
    """Let a training go on for a turn; return its steps a second."""
    training.require_running()
    training.go_on()
    began = time.time()
    time.sleep(TURN)
    ended = time.time()
    training.stop()
    return training.speed(began + SETTLING, ended)


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
        print(f"{path.stat().st_size / 1e6:.1f} MB, {points:,} readings")
        began_table = time.perf_counter()
        read_event_table(path)
        table_seconds = time.perf_counter() - began_table
        print(f"read in {seconds:.2f} s by the dashboard, in {table_seconds:.2f} s by a report")


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


if __name__ == "__main__":
    main()
