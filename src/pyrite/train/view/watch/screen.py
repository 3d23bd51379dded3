"""The dashboard: Textual draws it and hands it keys; what it shows is text made elsewhere."""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import ClassVar

from rich.console import Console
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Grid
from textual.events import Resize
from textual.widgets import RichLog, Static

from pyrite.train.view.control import Remote
from pyrite.train.view.legible import legible
from pyrite.train.view.watch.dialog import Help, Question, RunChoice
from pyrite.train.view.watch.follower import Follower
from pyrite.train.view.watch.layout import ScreenLayout
from pyrite.train.view.watch.machine import MachineWatch, Usage
from pyrite.train.view.watch.neighbours import neighbours
from pyrite.train.view.watch.plot import SMOOTHING, Aspect, plot
from pyrite.train.view.watch.run import RunState
from pyrite.train.view.watch.text import (
    around_selected,
    bars,
    duration,
    facts,
    heading,
    log_line,
    table,
    tail,
)

#: Seconds between two looks at the file, and so between two frames.
INTERVAL = 0.5
#: Seconds of a look that are spent on reading, so that keys are answered meanwhile.
READING = 0.1
#: The most of one processor that all this may take: where frames are dear, they are fewer, but one
#: in so many seconds is drawn in any case.
SHARE, SLOWEST = 0.01, 3.0
#: Seconds without a word after which a run is said to be silent, and for which a message stays.
SILENCE, MESSAGE = 60.0, 6.0

Send = Callable[[str], None]
Ended = Callable[[], bool]


class Dashboard(App[None]):
    """Shows a run while it goes on, or when it is over.

    send: how commands reach the run, None where it is only watched.
    ended: waits until that run closes the pipe; says whether it did so in good order.
    """

    CSS = """
    Screen { layout: vertical; background: ansi_default; }
    Static, RichLog, Grid { background: ansi_default; height: 1; }
    RichLog { scrollbar-size: 1 1; overflow-x: hidden; }
    Grid { grid-gutter: 0 1; }
    Grid Static { height: 100%; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p,space", "pause", "pause"),
        Binding("s", "save", "save"),
        Binding("x", "stop", "stop and save"),
        Binding("X", "abort", "stop now"),
        Binding("n,right", "metric(1)", "next metric"),
        Binding("N,left", "metric(-1)", "metric before"),
        Binding("w", "recent", "recent or whole"),
        Binding("m", "smooth", "smoothing"),
        Binding("c", "compare", "compare"),
        Binding("l", "log", "log"),
        Binding("question_mark,h", "help", "help"),
        Binding("q", "leave", "leave"),
        Binding("ctrl+c", "interrupt", show=False, priority=True),
        Binding("ctrl+z", "suspend", show=False, priority=True),
    ]

    def __init__(
        self,
        path: Path,
        *,
        send: Send | None = None,
        ended: Ended | None = None,
        compared: Path | None = None,
    ) -> None:
        super().__init__(ansi_color=True)  # the colours of the terminal, be it dark or light
        self.theme = "ansi-dark"
        self.path = path
        self.name_of_run = str(path)
        self.send = send
        self.ended = ended
        self.follower = Follower(path / "events.jsonl")
        self.other = None if compared is None else Follower(compared / "events.jsonl")
        self.metric = ""
        self.aspect = Aspect()
        self.is_orphan = False
        self._pauses: bool | None = None  # what was asked last, until the run does it
        self.wide_log = False
        self.machine: MachineWatch | None = None
        self.use: Usage | None = None
        self._watched: object = None
        self._is_behind = True
        self._message, self._message_until = "", 0.0
        self._frame_at, self._used = -SLOWEST, 0.0
        self._logged = 0
        self._log_of: RunState | None = None

    @property
    def state(self) -> RunState:
        """What the run says so far."""
        return self.follower.state

    def compose(self) -> ComposeResult:
        """Return the parts from top to bottom."""
        yield Static(id="head")
        yield Static(id="bars")
        yield Grid(id="plots")
        yield Static(id="table")
        yield Static(id="facts")
        yield Static(id="tail")
        yield RichLog(id="log", max_lines=1000, wrap=True, auto_scroll=True, min_width=1)
        yield Static(id="keys")

    def on_mount(self) -> None:
        """Begin to look at the file."""
        self.set_interval(INTERVAL, self.look)
        if not self.is_headless and hasattr(signal, "SIGCONT"):
            self._handle_stops()
        if self.ended is not None:  # not before this: what does not run yet cannot be left
            threading.Thread(target=self._leave_with, args=[self.ended], daemon=True).start()
        self.look()

    def _leave_with(self, ended: Ended) -> None:
        is_orphan = not ended()
        with suppress(RuntimeError):  # it has been left just now
            self.call_from_thread(self.leave, is_orphan=is_orphan)

    def _handle_stops(self) -> None:
        """Do not stop; where something stopped this process all the same, draw all anew after it.

        Textual's own handler begins anew with the terminal at each SIGCONT, with threads of its own
        beside those that are there.
        """
        signal.signal(signal.SIGTSTP, signal.SIG_IGN)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCONT, self.call_later, self._draw_all)

    def _draw_all(self) -> None:
        for widget in (self.screen, *self.screen.query("*")):
            widget.refresh()

    def on_resize(self, event: Resize) -> None:
        """Draw all anew in the new size."""
        self.call_after_refresh(self.draw)

    # ---- looking and drawing ----

    def look(self) -> None:
        """Read what is new in the file, and draw it where a frame is due."""
        if not self.is_running:
            return
        is_all = self.follower.read(READING)
        if self.other is not None:
            is_all = self.other.read(READING) and is_all
        is_read = self._is_behind and is_all
        self._is_behind = not is_all
        if is_read or self._is_frame_due():
            self._frame_at, self._used = time.monotonic(), time.process_time()
            self._look_at_machine()
            self.draw()
        if self._is_behind:
            self.set_timer(0.01, self.look)

    def _is_frame_due(self) -> bool:
        """Whether the last frame, and all that was done since, is so long ago that it was cheap."""
        cost = time.process_time() - self._used
        pause = min(SLOWEST, max(INTERVAL * 0.9, cost / SHARE))
        return time.monotonic() - self._frame_at >= pause

    def draw(self) -> None:
        """Draw a frame."""
        if not self.is_mounted:
            return
        self._choose_metric()
        width, height = self.size
        names = self.state.metrics()
        told = facts(self.state, self.use, width)
        layout = ScreenLayout.of(width, height, max(1, len(names)), len(told), self.wide_log)
        now = self.state.seconds(self.state.heard if self._is_dead() else time.time())
        self._show("head", [heading(self.name_of_run, self.state, self.status(), now, width)], 1)
        self._show("bars", bars(self.state, now, width), layout.bars)
        self._show_plots(names, layout, width)
        other = None if self.other is None else self.other.state
        rows = table(self.state, self.metric, other, width)
        self._show("table", around_selected(rows, layout.table), layout.table)
        self._show("facts", told, layout.facts)
        self._show_tail(0 if self.wide_log else layout.log, width)
        self._show_log(layout.log if self.wide_log else 0)
        self._show("keys", [self._keys(width)], layout.keys)

    def status(self) -> str:
        """Return how the run is, in a word or some."""
        state = self.state
        if self.follower.problem is not None:
            return f"waiting for events.jsonl: {self.follower.problem}"
        if self._is_behind:
            return "reading"
        if state.is_over or state.started is None:
            return state.status
        if self._is_dead():
            return "its process has ended without a word"
        silent = time.time() - state.heard
        if state.status != "paused" and silent > SILENCE:
            return f"{state.status}, silent for {duration(silent)}"
        return state.status

    def _is_dead(self) -> bool:
        """Whether the run's process has ended, be it with a last word or without."""
        return self.machine is not None and self.machine.is_alive is False

    def _show(self, name: str, lines: list[Text], rows: int) -> None:
        widget = self.query_one(f"#{name}", Static)
        widget.display = rows > 0
        if rows:
            widget.styles.height = rows
            _update(widget, Text("\n").join(lines[:rows]))

    def _show_plots(self, names: list[str], layout: ScreenLayout, width: int) -> None:
        grid = self.query_one("#plots", Grid)
        grid.display = layout.plots > 0
        if not layout.plots:
            return
        grid.styles.height = layout.plots
        grid.styles.grid_size_columns = layout.columns
        shown = _from(names, self.metric)[: layout.columns * layout.rows] or [""]
        plots = list(grid.query(Static))
        for _ in range(len(shown) - len(plots)):
            grid.mount(Static())
        for plot_of, name in zip(plots, shown, strict=False):
            plot_of.display = True
            columns = (width - layout.columns + 1) // layout.columns
            rows = layout.plots // layout.rows
            other = None if self.other is None else self.other.state
            _update(plot_of, plot(name, self.state, other, self.aspect, columns, rows))
        for plot_of in plots[len(shown) :]:
            plot_of.display = False
        if len(plots) < len(shown):
            self.call_after_refresh(self.draw)

    def _show_tail(self, rows: int, width: int) -> None:
        """Show the last lines of the log.  A widget that scrolls lays all out anew at each line."""
        self._show("tail", tail(self.state.log, rows, width, self.console), rows)

    def _show_log(self, rows: int) -> None:
        log = self.query_one(RichLog)
        log.display = rows > 0
        if not rows:
            return
        log.styles.height = rows
        if self._log_of is not self.state:
            log.clear()
            self._log_of, self._logged = self.state, 0
        new = min(self.state.logged - self._logged, len(self.state.log))
        self._logged = self.state.logged
        for line in list(self.state.log)[len(self.state.log) - new :]:
            log.write(log_line(line))

    def _keys(self, width: int) -> Text:
        if time.monotonic() < self._message_until:
            line = Text(legible(self._message), style="bold")
        else:
            pause = "p go on" if self._is_paused() else "p pause"
            keys = "" if self.send is None else f"{pause}  s save  x stop  "
            line = Text(
                f"{keys}n next metric  w whole  m smooth  c compare  ? help  q leave", "dim"
            )
        line.truncate(width, overflow="ellipsis")
        return line

    def _choose_metric(self) -> None:
        names = self.state.metrics()
        if self.metric not in names:
            self.metric = names[0] if names else ""

    def _look_at_machine(self) -> None:
        if self._watched is not self.state.started:
            self._watched = self.state.started
            self.machine = MachineWatch(self.state.started, self.state.began)
        if self.machine is not None:
            self.use = self.machine.use()

    # ---- keys ----

    def say(self, message: str) -> None:
        """Show a message in the place of the keys, for some seconds."""
        self._message, self._message_until = message, time.monotonic() + MESSAGE
        self.draw()

    def action_pause(self) -> None:
        """Pause the run, or let it go on."""
        is_paused = self._is_paused()
        if self._ask("resume" if is_paused else "pause", "go on" if is_paused else "pause"):
            self._pauses = not is_paused

    def _is_paused(self) -> bool:
        """Whether the run is paused, or was asked to be and has not answered yet."""
        is_paused = self.state.status == "paused"
        if self._pauses == is_paused:
            self._pauses = None
        return is_paused if self._pauses is None else self._pauses

    def action_save(self) -> None:
        """Save a checkpoint."""
        self._ask("save", "save a checkpoint")

    def action_stop(self) -> None:
        """Stop the run after the step under way, with a checkpoint."""
        self._ask("stop", "stop, and save a checkpoint")

    def action_abort(self) -> None:
        """Stop the run at once, if that is meant."""
        if self._may_ask():
            question = "Stop at once? What came after the last checkpoint is lost.  y / n"
            self.push_screen(Question(question), lambda yes: self._abort() if yes else None)

    def _abort(self) -> None:
        self._ask("abort", "stop at once")

    def _ask(self, command: str, words: str) -> bool:
        """Send a command; return whether it was sent."""
        if not self._may_ask() or self.send is None:
            return False
        try:
            self.send(command)
        except OSError as error:
            self.say(f"the run does not listen any more: {error.strerror}")
            return False
        self.say(f"asked the run to {words}")
        return True

    def _may_ask(self) -> bool:
        if self.send is None:
            self.say("this window only watches; pause and stop where the run was started")
        elif self.state.is_over:
            self.say("the run has ended")
        return self.send is not None and not self.state.is_over

    def action_metric(self, by: int) -> None:
        """Show another metric."""
        names = self.state.metrics()
        if names:
            self.metric = names[(names.index(self.metric) + by) % len(names)]
        self.draw()

    def action_recent(self) -> None:
        """Show what is recent, or the whole."""
        self.aspect = Aspect(not self.aspect.recent, self.aspect.smoothing)
        self.draw()

    def action_smooth(self) -> None:
        """Smooth more, or not at all after the most."""
        self.aspect = Aspect(self.aspect.recent, (self.aspect.smoothing + 1) % len(SMOOTHING))
        self.draw()

    def action_log(self) -> None:
        """Give the log all the room, or take it back."""
        self.wide_log = not self.wide_log
        if self.wide_log:
            self.query_one(RichLog).focus()
        self.draw()

    def action_compare(self) -> None:
        """Ask which run to compare with; end it where one is compared with."""
        if self.other is not None:
            self.other = None
            self.say("no run is compared with any more")
            return
        found = neighbours(self.path)
        if not found:
            self.say(f"there is no other run in {self.path.resolve().parent}")
            return
        self.push_screen(RunChoice("Compare with", found), self._compare)

    def _compare(self, path: Path | None) -> None:
        if path is not None:
            self.other, self._is_behind = Follower(path / "events.jsonl"), True
            self.say(f"compared with {path.name}: its marks have no colour")
            self.look()

    def action_help(self) -> None:
        """Explain the keys."""
        self.push_screen(Help(is_only_watched=self.send is None))

    def action_suspend(self) -> None:
        """Say what Ctrl-Z does not do."""
        self.say("Ctrl-Z does nothing here: p pauses the run, q leaves the dashboard")

    def leave(self, *, is_orphan: bool) -> None:
        """Close because the run has closed the pipe; an orphan's process has ended."""
        self.is_orphan = is_orphan
        if is_orphan and hasattr(signal, "SIGTTOU"):
            # The shell has the terminal again: to set it as it was would stop this process.
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        self.exit()

    def action_leave(self) -> None:
        """Close the dashboard; the run goes on."""
        self.exit()

    def action_interrupt(self) -> None:
        """Ctrl-C: leave where the run is only watched, ask it to stop where it listens."""
        if self.send is None:
            self.exit(return_code=130)
        else:
            self._ask("interrupt", "stop")


def _update(widget: Static, text: Text) -> None:
    """Show a text where it is new.  The size is given by styles: to lay all out anew is dear."""
    if getattr(widget, "shown", None) != text:
        widget.shown = text
        widget.update(text, layout=False)


def _from(names: list[str], first: str) -> list[str]:
    """Return the names in their order, from one of them on and round."""
    at = names.index(first) if first in names else 0
    return names[at:] + names[:at]


def show(path: Path, *, remote: Remote | None = None, compared: Path | None = None) -> int:
    """Show a run until the user leaves, or the run that commands come from ends."""
    send, ended = (remote.send, remote.wait) if remote else (None, None)
    dashboard = Dashboard(path, send=send, ended=ended, compared=compared)
    dashboard.error_console = errors = Console(file=StringIO(), markup=False, highlight=False)
    dashboard.run(mouse=False)
    if dashboard.return_code == 1:
        _report(errors)
    elif dashboard.is_orphan:
        print("pyrite: the process of the run has ended without a word", file=sys.stderr)
    return dashboard.return_code or 0


def _report(errors: Console) -> None:
    """Write what broke in a line, and where in a file: its frames are longer than a screen."""
    assert isinstance(errors.file, StringIO)
    text = errors.file.getvalue()
    with tempfile.NamedTemporaryFile("w", prefix="pyrite-dashboard-", delete=False) as file:
        file.write(text)
    last = next((line for line in reversed(text.splitlines()) if line.strip()), "no reason")
    print(f"pyrite: the dashboard broke: {legible(last)}; see {file.name}", file=sys.stderr)
