"""Dashboard: a process of its own that shows the run in the terminal, and commands it.

The process is ``pyrite watch`` (`pyrite.train.view.watch`): it reads the file of events, so that no
step waits for a frame.  It has the terminal; what the training writes meanwhile is told in events,
and shown there.  When it ends, whoever ended it, the terminal is as before and log lines follow.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from pyrite.train.event import (
    CheckpointDamaged,
    EpochStarted,
    Event,
    Interrupted,
    Logged,
    Resumed,
    RunEnded,
    RunStarted,
    StepEnded,
    StoppedEarly,
)
from pyrite.train.event_file import EventWriter
from pyrite.train.interruption import Interrupter
from pyrite.train.view.capture import Capture
from pyrite.train.view.control import Commands, obey
from pyrite.train.view.plain import PlainView
from pyrite.train.view.terminal import TerminalState, problem

#: Seconds between two looks at what the training has written.
_INTERVAL = 0.2
#: Seconds that a process has to end by itself, and then again when it is told to.
_PATIENCE = 2.0

#: Seconds without growth after which the file of events is given up.
_STUCK = 5.0

#: Events of which lines are written when the dashboard has ended.
_LAST_WORDS = (Resumed, CheckpointDamaged, Interrupted, StoppedEarly, RunEnded)


class Dashboard:
    """Shows a run in the terminal, with keys to pause, to save and to stop it.

        Learner(model, optimizer, step, views=[Dashboard()], directory="runs/mine")

    Where it cannot be shown, as in a pipe or without the extra ``tui``, and when it is left, it
    writes log lines; in the first case it says why.
    """

    def __init__(
        self, *, plain: PlainView | None = None, clock: Callable[[], float] = monotonic
    ) -> None:
        self.plain = plain or PlainView()
        self.clock = clock
        self._interrupter = Interrupter()
        self._emit: Callable[[Event], None] = lambda event: None
        self._process: _Process | None = None
        self._own: _OwnFile | None = None
        self._size, self._grew_at = -1, 0.0
        self._readings: object = None
        self._last_words: list[Event] = []

    def attach(self, interrupter: Interrupter, emit: Callable[[Event], None]) -> None:
        """Take hold of a run."""
        self._interrupter, self._emit = interrupter, emit

    def handle(self, event: Event) -> None:
        """Show the event: the dashboard reads it in the file, all others are told in lines."""
        if self._own is not None:
            self._own.writer.append(event)
        if isinstance(event, RunStarted):
            self._begin(event)
        elif self._process is not None and self._process.is_open:
            self._follow(event)
        else:
            self._show_last_words()
            self.plain.handle(event)

    def close(self) -> None:
        """End the dashboard, and put the terminal back as it was."""
        if self._process is not None:
            self._process.end()
            self._process = None
        self._show_last_words()
        self.plain.close()
        if self._own is not None:
            self._own.remove()
            self._own = None

    def _begin(self, event: RunStarted) -> None:
        reason = problem()
        if reason is None:
            folder = event.directory or self._own_folder(event)
            self._size, self._grew_at, self._last_words = -1, self.clock(), []
            try:
                self._process = _Process(folder, self._interrupter, self._emit, self.plain)
                return
            except OSError as error:
                reason = f"its process cannot be started: {error.strerror}"
        self.plain.write(f"log lines instead of the dashboard: {reason}")
        self.plain.handle(event)

    def _own_folder(self, event: RunStarted) -> Path:
        self._own = _OwnFile()
        self._own.writer.append(event)
        return self._own.folder

    def _follow(self, event: Event) -> None:
        assert self._process is not None
        if isinstance(event, EpochStarted):
            self.plain.handle(event)  # it says nothing yet: how many epochs there are
        if isinstance(event, _LAST_WORDS):
            self._last_words.append(event)
        if self._is_written(event) and self._is_stuck():
            self._process.end("its file of events does not grow; is the disk full?")

    def _is_written(self, event: Event) -> bool:
        if not isinstance(event, StepEnded):
            return not isinstance(event, Logged)
        is_new = bool(event.readings) and event.readings is not self._readings
        self._readings = event.readings
        return is_new

    def _is_stuck(self) -> bool:
        """Whether the file has not grown for some time, though events should stand in it."""
        assert self._process is not None
        before, self._size = self._size, _size(self._process.folder / "events.jsonl")
        if self._size > before:
            self._grew_at = self.clock()
        return self.clock() - self._grew_at > _STUCK

    def _show_last_words(self) -> None:
        words, self._last_words = self._last_words, []
        for event in words:
            self.plain.handle(event)


class _OwnFile:
    """The file of events of a run that keeps none."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pyrite-run-"))
        self.writer = EventWriter(self.folder / "events.jsonl")

    def remove(self) -> None:
        with self.writer:
            shutil.rmtree(self.folder, ignore_errors=True)


class _Process:
    """The process that has the terminal, and the thread that listens to it."""

    def __init__(
        self,
        folder: Path,
        interrupter: Interrupter,
        emit: Callable[[Event], None],
        plain: PlainView,
    ) -> None:
        self.folder = folder
        self.is_open = True
        self._interrupter, self._emit, self._plain = interrupter, emit, plain
        self._terminal = TerminalState(0)
        self._capture = Capture()
        self._reason: str | None = None
        self._is_ending = threading.Event()
        own, other = socket.socketpair()
        self._commands = Commands(own)
        with other:
            self._process = self._start(other.fileno())
        self._thread = threading.Thread(target=self._run, name="pyrite-dashboard", daemon=True)
        self._thread.start()

    def end(self, reason: str = "") -> None:
        """End the process, and put the terminal back; a reason is told."""
        self._reason = reason
        self._is_ending.set()
        self._thread.join()

    def _start(self, pipe: int) -> subprocess.Popen[bytes]:
        out = os.dup(1)
        try:
            self._terminal.ignore_ctrl_z()
            self._capture.begin()
            with _ctrl_c_blocked():
                return subprocess.Popen(
                    [sys.executable, "-P", "-m", "pyrite.train.view.watch", self.folder, str(pipe)],
                    stdin=0, stdout=out, stderr=out, pass_fds=[pipe], env=_environment(),
                )  # fmt: skip
        except BaseException:
            self._terminal.restore(was_killed=False)
            self._capture.release()
            self._capture.close()
            raise
        finally:
            os.close(out)

    def _run(self) -> None:
        """Listen, until either side ends it; then put the terminal back."""
        while self._commands.is_open and not self._is_ending.is_set():
            for command in self._commands.new(_INTERVAL):
                obey(command, self._interrupter)
            self._tell()
        self._commands.close()
        status = self._wait()
        self._terminal.restore(was_killed=status < 0)
        self._capture.release()
        self._tell(also_begun=True)
        self._capture.close()
        self._interrupter.resume()  # a pause that nobody could end any more
        self._say_why(status)
        self.is_open = False

    def _tell(self, *, also_begun: bool = False) -> None:
        for source, text in self._capture.lines(also_begun=also_begun):
            self._emit(Logged("info", source, text))

    def _wait(self) -> int:
        for stop in (self._process.terminate, self._process.kill):
            try:
                return self._process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                stop()
        return self._process.wait()

    def _say_why(self, status: int) -> None:
        if self._reason == "":  # the run is over
            return
        how = self._reason or ("it was left" if status == 0 else f"its process ended with {status}")
        try:
            self._plain.write(f"log lines instead of the dashboard: {how}; the training goes on")
        except OSError:  # the terminal is gone
            return


@contextmanager
def _ctrl_c_blocked() -> Iterator[None]:
    """Let a process that is started here be born deaf to Ctrl-C, which is for the run.

    Until its program ignores it, a second or so, it would end with a traceback.  Only this thread
    is deaf meanwhile, and hears afterwards what came.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _environment() -> dict[str, str]:
    """Ctrl-C and Ctrl-Z are the terminal's, so that they reach the training whatever happens."""
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    package = str(Path(__file__).parents[3])
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join([package, *filter(None, [kept.get("PYTHONPATH")])]),
        "TEXTUAL_ALLOW_SIGNALS": "1",
        "TEXTUAL_DISABLE_KITTY_KEY": "1",
        "OMP_NUM_THREADS": "1",
    }


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1
