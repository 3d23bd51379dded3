"""A dashboard in a terminal of its own: a run survives whatever happens to it."""

from __future__ import annotations

import fcntl
import io
import os
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip("textual", reason="the extra tui is not installed")

from pyrite.train import (
    EpochEnded,
    Interrupted,
    Logged,
    Paused,
    PauseEnded,
    PlainView,
    RunEnded,
    RunStarted,
    StepEnded,
    read_events,
)
from pyrite.train.view import dashboard
from pyrite.train.view.dashboard import Dashboard

#: Trains in a terminal: slowly, so that somebody may press keys, for ever, and with much to say.
PROGRAM = """
import sys, time, warnings
import numpy as np, pyrite
from pyrite import nn
from pyrite.data import DataLoader, InMemoryDataset
from pyrite.train import Dashboard, Learner, supervised

items = [(np.full(3, i / 8, np.float32), i % 2) for i in range(40)]
usual, calls = supervised(nn.CrossEntropyLoss()), iter(range(10**9))

def step(model, batch):
    time.sleep(0.01)
    if next(calls) == 5:
        print("printed meanwhile")
        warnings.warn("warned meanwhile")
    return usual(model, batch)

learner = Learner(nn.Linear(3, 2), pyrite.optim.Adam(1e-2), step, views=[Dashboard()],
                  directory=sys.argv[1], read_every=2)
epochs = int(sys.argv[2])
result = learner.fit(DataLoader(InMemoryDataset(items), 4), epochs=epochs)
print("the program ended:", result.outcome)
"""
PATIENCE = 120


class Terminal:
    """A program that has a terminal, and whoever sits in front of it."""

    def __init__(self, *arguments: str | Path, shell: bool = False) -> None:
        self.master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.attributes = termios.tcgetattr(slave)
        environment = {
            **os.environ, "TERM": "xterm-256color", "PYTHONPATH": os.pathsep.join(sys.path),
        }  # fmt: skip
        leader = ["sh", "-c", '"$@"; sleep 600', "sh"] if shell else []
        self.program = subprocess.Popen(
            [*leader, sys.executable, "-c", PROGRAM, *map(str, arguments)],
            stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        self.slave = slave
        self.written = b""
        self.is_closed = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def process_of_the_dashboard(self) -> psutil.Process:
        (process,) = psutil.Process(self.program.pid).children()
        return process

    def dashboards(self) -> list[psutil.Process]:
        """The dashboard, also where others have been started and have not ended."""
        found = []
        with suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self.program.pid).children():
                if "pyrite.train.view.watch" in process.cmdline():
                    found.append(process)
        return found

    def wait_for(self, text: str) -> None:
        """Wait until the text was written, escape sequences between its characters left out."""
        wait(lambda: text in self.text(), lambda: self.text()[-3000:])

    def text(self) -> str:
        return re.sub(r"\x1b[\[(][0-9;?<>$=]*[a-zA-Z]", "", self.written.decode("utf-8", "replace"))

    def lines_after_the_dashboard(self) -> str:
        after = self.written.rsplit(b"\x1b[?1049l", 1)[1].decode("utf-8", "replace")
        return re.sub(r"\x1b[\[(][0-9;?<>$=]*[a-zA-Z]", "", after)

    def close(self) -> None:
        """Close the window: the terminal is gone."""
        self.is_closed = True
        os.close(self.slave)
        self._reader.join(0)
        os.close(self.master)

    def end(self) -> None:
        if self.program.poll() is None:
            for process in psutil.Process(self.program.pid).children(recursive=True):
                process.kill()
            self.program.kill()
        self.program.wait()
        if not self.is_closed:
            self.close()

    def _read(self) -> None:
        while not self.is_closed:
            try:
                piece = os.read(self.master, 1 << 16)
            except OSError:
                return
            self.written += piece


def wait(is_so: Callable[[], bool], why: Callable[[], str] = str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, why()
        time.sleep(0.02)


def told(folder: Path) -> list[Any]:
    path = folder / "events.jsonl"
    return [entry.event for entry in read_events(path)] if path.exists() else []


def wait_for_event(folder: Path, kind: type) -> None:
    wait(lambda: any(isinstance(event, kind) for event in told(folder)))


@pytest.fixture
def start() -> Iterator[Callable[..., Terminal]]:
    started: list[Terminal] = []

    def run(*arguments: str | Path, shell: bool = False) -> Terminal:
        started.append(Terminal(*arguments, shell=shell))
        return started[-1]

    yield run
    for terminal in started:
        terminal.end()


def test_keys_pause_save_and_stop_a_run_and_the_terminal_is_as_it_was(
    start: Any, tmp_path: Path
) -> None:
    terminal = start(tmp_path, 10**6)
    terminal.wait_for("p pause")
    wait_for_event(tmp_path, Logged)
    shown = terminal.process_of_the_dashboard()
    terminal.press("p")
    wait_for_event(tmp_path, Paused)
    terminal.press("s")
    steps = sum(isinstance(event, StepEnded) for event in told(tmp_path))
    terminal.wait_for("asked the run to save")
    assert sum(isinstance(event, StepEnded) for event in told(tmp_path)) == steps
    terminal.press("p")
    wait_for_event(tmp_path, PauseEnded)
    terminal.press("x")
    assert terminal.program.wait(PATIENCE) == 0
    terminal.wait_for("the program ended: interrupted")
    after = terminal.lines_after_the_dashboard()
    assert "printed meanwhile" in after
    assert "UserWarning: warned meanwhile" in after
    assert "interrupted in epoch" in after
    (interrupted,) = (event for event in told(tmp_path) if isinstance(event, Interrupted))
    assert interrupted.reason == "asked in the dashboard"
    assert interrupted.checkpoint is not None
    assert interrupted.checkpoint.is_file()
    lines = [(event.source, event.text) for event in told(tmp_path) if isinstance(event, Logged)]
    assert ("stdout", "printed meanwhile") in lines
    assert termios.tcgetattr(terminal.slave) == terminal.attributes
    assert not shown.is_running()


def test_ctrl_c_stops_with_a_checkpoint_and_a_second_one_at_once(
    start: Any, tmp_path: Path
) -> None:
    terminal = start(tmp_path / "one", 10**6)
    terminal.wait_for("p pause")
    terminal.press("\x03")
    terminal.wait_for("the program ended: interrupted")
    assert "(Ctrl-C); saved" in terminal.lines_after_the_dashboard()
    assert terminal.program.wait(PATIENCE) == 0


def test_ctrl_c_while_the_dashboard_starts_is_for_the_run_alone(start: Any, tmp_path: Path) -> None:
    terminal = start(tmp_path, 10**6)
    # Its imports take a second or so.
    wait(lambda: any(each.cpu_times().user > 0.2 for each in terminal.dashboards()))
    terminal.press("\x03")
    terminal.wait_for("the program ended: interrupted")
    assert terminal.program.wait(PATIENCE) == 0
    assert "Traceback" not in terminal.text()
    assert termios.tcgetattr(terminal.slave) == terminal.attributes


def test_to_stop_at_once_raises_what_the_second_ctrl_c_does(start: Any, tmp_path: Path) -> None:
    terminal = start(tmp_path, 10**6)
    terminal.wait_for("p pause")
    terminal.press("X")
    terminal.wait_for("y / n")
    terminal.press("y")
    terminal.wait_for("KeyboardInterrupt")
    assert terminal.program.wait(PATIENCE) != 0
    assert not any(isinstance(event, RunEnded) for event in told(tmp_path))
    assert termios.tcgetattr(terminal.slave) == terminal.attributes


@pytest.mark.parametrize("end", ["leave", "kill -9"])
def test_a_run_outlives_its_dashboard_even_paused(start: Any, tmp_path: Path, end: str) -> None:
    terminal = start(tmp_path, 10**6)
    terminal.wait_for("p pause")
    terminal.press("p")
    wait_for_event(tmp_path, Paused)
    if end == "leave":
        terminal.press("q")
    else:
        terminal.process_of_the_dashboard().send_signal(signal.SIGKILL)
    wait(lambda: re.search(r"epoch +\d+/1000000  train: Loss", terminal.text()) is not None)
    terminal.press("\x03")
    terminal.wait_for("the program ended: interrupted")
    assert terminal.program.wait(PATIENCE) == 0
    why = "it was left" if end == "leave" else "its process ended with -9"
    after = terminal.lines_after_the_dashboard().replace("\r\n", "\n")
    assert f"log lines instead of the dashboard: {why}; the training goes on" in after
    assert termios.tcgetattr(terminal.slave) == terminal.attributes


def test_a_dashboard_that_was_stopped_draws_all_of_the_screen_again(
    start: Any, tmp_path: Path
) -> None:
    terminal = start(tmp_path, 10**6)
    terminal.wait_for("p pause")
    terminal.press("p")  # nothing changes any more: what is drawn is drawn again
    terminal.wait_for("paused after")
    shown = terminal.process_of_the_dashboard()
    threads = shown.num_threads()
    shown.send_signal(signal.SIGTSTP)  # it takes no notice, as of Ctrl-Z
    shown.send_signal(signal.SIGSTOP)
    wait(lambda: shown.status() == psutil.STATUS_STOPPED)
    terminal.written = b""
    shown.send_signal(signal.SIGCONT)
    for text in ("/1000000", "▸ Loss", "paused after", "next metric"):
        terminal.wait_for(text)
    wait(lambda: shown.num_threads() == threads)


@pytest.mark.usefixtures("_hears_hangups")
def test_a_terminal_that_is_closed_ends_the_run_with_its_checkpoint(
    start: Any, tmp_path: Path
) -> None:
    terminal = start(tmp_path, 10**6)
    terminal.wait_for("p pause")
    shown = terminal.process_of_the_dashboard()
    terminal.close()
    terminal.program.wait(PATIENCE)
    (interrupted,) = (event for event in told(tmp_path) if isinstance(event, Interrupted))
    assert interrupted.reason == "the terminal was closed"
    assert interrupted.checkpoint is not None
    assert interrupted.checkpoint.is_file()
    wait(lambda: not shown.is_running())


def test_a_run_that_is_killed_leaves_the_terminal_as_it_was(start: Any, tmp_path: Path) -> None:
    terminal = start(tmp_path, 10**6, shell=True)
    terminal.wait_for("p pause")
    (run,) = psutil.Process(terminal.program.pid).children()
    (shown,) = run.children()
    run.kill()
    terminal.wait_for("the process of the run has ended without a word")
    wait(lambda: not shown.is_running() or shown.status() == psutil.STATUS_ZOMBIE)
    flags = termios.tcgetattr(terminal.slave)[3]
    assert flags & termios.ECHO
    assert flags & termios.ICANON


# ---- without a terminal ----


def test_without_a_terminal_there_are_lines_and_a_reason(task: Any, capfd: Any) -> None:
    task.fit(task.learner(views=[Dashboard()]))
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "log lines instead of the dashboard: this is no terminal"
    assert lines[1].startswith("training on numpy")
    assert lines[-1].startswith("completed: 18 steps")


class Shown:
    """A process of a dashboard that is only said to be one."""

    def __init__(self, folder: Path, *others: object) -> None:
        self.folder = folder
        self.is_open = True
        self.reasons: list[str] = []

    def end(self, reason: str = "") -> None:
        self.reasons.append(reason)
        self.is_open = False


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard, "problem", lambda: None)
    monkeypatch.setattr(dashboard, "_Process", Shown)


@pytest.mark.usefixtures("shown")
def test_a_file_that_does_not_grow_ends_the_dashboard_and_lines_follow(tmp_path: Path) -> None:
    stream, now = io.StringIO(), [0.0]
    view = Dashboard(plain=PlainView(stream), clock=lambda: now[0])
    path = tmp_path / "events.jsonl"
    path.write_text("x")
    view.handle(RunStarted("cpu", 0, 9, 1, tmp_path))
    process: Any = view._process
    for epoch in range(1, 5):
        now[0] += 4
        if epoch < 3:  # then the disk is full
            path.write_text("x" * (epoch + 1))
        view.handle(EpochEnded("train", epoch, (), 1.0))
    assert process.reasons == ["its file of events does not grow; is the disk full?"]
    view.handle(EpochEnded("train", 5, (), 1.0))
    view.close()
    assert "train" in stream.getvalue()


@pytest.mark.usefixtures("shown")
def test_a_run_without_a_folder_has_one_as_long_as_it_is_shown() -> None:
    view = Dashboard(plain=PlainView(io.StringIO()))
    view.handle(RunStarted("cpu", 0, 9, 1, None))
    process: Any = view._process
    folder = process.folder
    view.handle(EpochEnded("train", 1, (), 1.0))
    assert [type(event) for event in told(folder)] == [RunStarted, EpochEnded]
    view.close()
    assert not folder.exists()


def test_a_process_that_cannot_be_started_is_lines_and_a_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused(*arguments: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(dashboard, "problem", lambda: None)
    monkeypatch.setattr(dashboard, "_Process", refused)
    stream = io.StringIO()
    view = Dashboard(plain=PlainView(stream))
    view.handle(RunStarted("cpu", 0, 9, 1, tmp_path))
    first, second = stream.getvalue().splitlines()
    assert first.endswith("its process cannot be started: Cannot allocate memory")
    assert second.startswith("training on cpu")
