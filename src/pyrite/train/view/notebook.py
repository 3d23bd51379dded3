"""NotebookView: a run in a notebook, in one place of it.  Needs IPython: import it by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatchmethod
from html import escape
from time import monotonic

from IPython.display import HTML, DisplayHandle

from pyrite.train.event import (
    CheckpointDamaged,
    EpochEnded,
    EpochStarted,
    Event,
    Failed,
    Interrupted,
    Resumed,
    RunEnded,
    RunStarted,
    StepEnded,
    StoppedEarly,
)
from pyrite.train.reading import Reading
from pyrite.train.readings_html import readings_html
from pyrite.train.view.legible import legible
from pyrite.train.view.notice import notice


class NotebookView:
    """Shows how far a run is, and its readings with their curves, under the cell that began it.

    seconds: between two frames; the last one is always shown.
    """

    def __init__(self, *, seconds: float = 0.25, clock: Callable[[], float] = monotonic) -> None:
        self.seconds = seconds
        self.clock = clock
        self._reset()

    def handle(self, event: Event) -> None:
        """Take the event in, and show the run as it is now unless that was just shown."""
        self._take(event)
        if self._place is None or self.clock() - self._shown_at >= self.seconds:
            self._draw()

    def close(self) -> None:
        """Show the last frame."""
        if self._place is not None:
            self._draw()
        self._reset()

    def frame(self) -> str:
        """Return what to show now, as HTML."""
        notices = "".join(f"<div>{escape(legible(line))}</div>" for line in self._notices)
        results = [(epoch, split, readings) for (epoch, split), readings in self._readings.items()]
        table = readings_html(results) if results else ""
        return f"<div>{notices}{self._progress()}{table}</div>"

    def _reset(self) -> None:
        self._place: DisplayHandle | None = None
        self._shown_at = 0.0
        self._notices: list[str] = []
        self._epochs = 0
        self._step: StepEnded | None = None
        self._readings: dict[tuple[int, str], tuple[Reading, ...]] = {}

    def _draw(self) -> None:
        shown = HTML(self.frame())
        if self._place is None:
            self._place = DisplayHandle()
            self._place.display(shown)
        else:
            self._place.update(shown)
        self._shown_at = self.clock()

    def _progress(self) -> str:
        step = self._step
        if step is None:
            return ""
        return (
            f'<div><progress value="{step.step}" max="{step.steps}"></progress> epoch '
            f"{step.epoch}/{self._epochs} {escape(step.split)} {step.step:,}/{step.steps:,}</div>"
        )

    @singledispatchmethod
    def _take(self, event: Event) -> None:
        """Most events are told by those that follow."""

    @_take.register(RunStarted)
    @_take.register(Resumed)
    @_take.register(CheckpointDamaged)
    @_take.register(Interrupted)
    @_take.register(StoppedEarly)
    def _(self, event: Event) -> None:
        self._notices.append(notice(event))

    @_take.register(RunEnded)
    @_take.register(Failed)
    def _(self, event: Event) -> None:
        self._step = None
        self._notices.append(notice(event))

    @_take.register
    def _(self, event: EpochStarted) -> None:
        self._epochs = event.epochs

    @_take.register
    def _(self, event: StepEnded) -> None:
        self._step = event
        self._readings[event.epoch, event.split] = event.readings

    @_take.register
    def _(self, event: EpochEnded) -> None:
        self._readings[event.epoch, event.split] = event.readings
