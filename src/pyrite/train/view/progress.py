"""ProgressView: bars and a table of readings that stay in place.  Needs rich: import it by name.

Events only change what is to be drawn.  rich draws a few times a second on a thread of its own, so
frames are dropped and never waited for.  What cannot be drawn is raised to the caller of `handle`,
once, and the terminal is restored.
"""

from __future__ import annotations

from functools import singledispatchmethod

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from pyrite.train.event import (
    CheckpointDamaged,
    EpochEnded,
    EpochStarted,
    Event,
    Failed,
    Interrupted,
    Paused,
    PauseEnded,
    Resumed,
    RunEnded,
    RunStarted,
    StepEnded,
    StoppedEarly,
    StopRequested,
)
from pyrite.train.reading import Reading
from pyrite.train.view.legible import legible
from pyrite.train.view.notice import notice

FRAMES_PER_SECOND = 8.0
COLOURS = {"train": "red", "valid": "blue", "test": "green"}


class ProgressView:
    """Draws the run in a terminal: a bar for epochs, one for steps, and the readings so far.

    At the end the last frame stays on the screen, or is wiped off it with transient=True.
    """

    def __init__(self, console: Console | None = None, *, transient: bool = False) -> None:
        self.console = console or Console()
        self.transient = transient
        self._live: Live | None = None
        self._error: Exception | None = None
        self._reset()

    def handle(self, event: Event) -> None:
        """Take the event in.  Raises what went wrong in drawing, if anything did."""
        if self._error is not None:
            raise self._error
        self._open()
        self._show(event)

    def close(self) -> None:
        """Draw the last frame, and put the terminal back."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()
        self._reset()

    def frame(self) -> RenderableType:
        """Return what to draw now."""
        parts: list[RenderableType] = [self._bars]
        if self._readings:
            parts.append(self._table())
        return Group(*parts)

    def _reset(self) -> None:
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=36),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("eta"),
            TimeRemainingColumn(),
            console=self.console,
        )
        self._epochs: TaskID | None = None
        self._steps: TaskID | None = None
        self._split = ""
        self._readings: dict[str, tuple[Reading, ...]] = {}
        self._best: dict[tuple[str, str], tuple[Reading, int]] = {}

    def _open(self) -> None:
        if self._live is None:
            self._live = Live(
                console=self.console,
                get_renderable=self._frame_or_nothing,
                refresh_per_second=FRAMES_PER_SECOND,
                transient=self.transient,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()

    def _frame_or_nothing(self) -> RenderableType:
        """Return what to draw; an error is kept for `handle`, for this runs on rich's thread."""
        try:
            return self.frame()
        except Exception as error:
            self._error = error
            return Text("")

    @singledispatchmethod
    def _show(self, event: Event) -> None:
        """Most events are told by those that follow."""

    @_show.register(RunStarted)
    @_show.register(Resumed)
    @_show.register(CheckpointDamaged)
    @_show.register(Paused)
    @_show.register(PauseEnded)
    @_show.register(StopRequested)
    @_show.register(Interrupted)
    @_show.register(StoppedEarly)
    @_show.register(RunEnded)
    @_show.register(Failed)
    def _(self, event: Event) -> None:
        self.console.print(Text(legible(notice(event)), style="dim"), soft_wrap=True)

    @_show.register
    def _(self, event: EpochStarted) -> None:
        if self._epochs is None:
            self._epochs = self._bars.add_task(_label("epochs"), total=event.epochs)
        self._bars.update(self._epochs, completed=event.epoch - 1 + event.step / event.steps)
        self._begin_split("train", event.steps)

    @_show.register
    def _(self, event: StepEnded) -> None:
        if event.split != self._split:
            self._begin_split(event.split, event.steps)
        if self._steps is not None:
            self._bars.update(self._steps, completed=event.step)
        if event.split == "train" and self._epochs is not None:
            self._bars.update(self._epochs, completed=event.epoch - 1 + event.step / event.steps)
        if event.readings:
            self._readings[event.split] = event.readings

    @_show.register
    def _(self, event: EpochEnded) -> None:
        self._readings[event.split] = event.readings
        for reading in event.readings:
            key = (event.split, reading.name)
            if reading.better and (
                key not in self._best or reading.improves_on(self._best[key][0].value)
            ):
                self._best[key] = reading, event.epoch

    def _begin_split(self, split: str, steps: int) -> None:
        if self._steps is not None:
            self._bars.remove_task(self._steps)
        self._split = split
        name = escape(_label(legible(split)))
        self._steps = self._bars.add_task(f"[{_colour(split)}]{name}[/]", total=steps)

    def _table(self) -> Table:
        """A row per metric; per split, the value now and the best so far with its epoch."""
        table = Table(box=None, padding=(0, 2), pad_edge=False)
        table.add_column("")
        for split in self._readings:
            table.add_column(
                Text(legible(split)), justify="right", style=_colour(split), min_width=10
            )
            table.add_column("best", justify="right", style="dim", min_width=14)
        names = (reading.name for readings in self._readings.values() for reading in readings)
        for name in dict.fromkeys(names):
            table.add_row(Text(legible(name)), *self._cells(name))
        return table

    def _cells(self, name: str) -> list[Text]:
        cells = []
        for split, readings in self._readings.items():
            now = next((reading for reading in readings if reading.name == name), None)
            best = self._best.get((split, name))
            cells += [
                Text(legible(now.text if now else "")),
                Text(legible(f"{best[0].text} @ {best[1]}" if best and best[1] else "")),
            ]
        return cells


def _label(text: str) -> str:
    return text.ljust(8)


def _colour(split: str) -> str:
    return COLOURS.get(split, "white")
