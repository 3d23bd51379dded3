"""PlainView: log lines, one per epoch and at most one every few seconds in between.

For files, pipes and terminals that cannot draw.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import singledispatchmethod
from time import monotonic
from typing import TextIO

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
    Sampled,
    StepEnded,
    StoppedEarly,
    StopRequested,
)
from pyrite.train.reading import Reading
from pyrite.train.view.legible import legible
from pyrite.train.view.notice import notice


class PlainView:
    """Writes lines to a stream: standard output, as it is when the line is written, by default."""

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        seconds: float = 5.0,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.stream = stream
        self.seconds = seconds
        self.clock = clock
        self._epochs = 0
        self._ended: list[EpochEnded] = []
        self._spoke_at = clock()

    def handle(self, event: Event) -> None:
        """Write the event, if it has something to say."""
        if not isinstance(event, EpochEnded | StepEnded | Sampled):
            self._write_epoch()
        self._show(event)

    def close(self) -> None:
        """Write what is left of an epoch."""
        self._write_epoch()

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
        self.write(notice(event))

    @_show.register
    def _(self, event: EpochStarted) -> None:
        self._epochs = event.epochs

    @_show.register
    def _(self, event: StepEnded) -> None:
        if self.clock() - self._spoke_at >= self.seconds:
            where = f"{self._epoch(event.epoch)}  {event.split} {event.step}/{event.steps}"
            self.write(f"{where}  {_joined(event.readings)}".rstrip())

    @_show.register
    def _(self, event: EpochEnded) -> None:
        self._ended.append(event)

    def _write_epoch(self) -> None:
        if not self._ended:
            return
        splits = (f"{ended.split}: {_joined(ended.readings)}" for ended in self._ended)
        seconds = sum(ended.seconds for ended in self._ended)
        epoch = self._epoch(self._ended[0].epoch)
        self._ended = []
        self.write("  ".join(part for part in (epoch, *splits, f"{seconds:.1f} s") if part))

    def _epoch(self, number: int) -> str:
        if not number:  # an evaluation outside of a run
            return ""
        return f"epoch {number:{len(str(self._epochs))}}/{self._epochs}"

    def write(self, line: str) -> None:
        """Write a line, of which nothing can command the terminal."""
        print(legible(line), file=self.stream or sys.stdout, flush=True)
        self._spoke_at = self.clock()


def _joined(readings: tuple[Reading, ...]) -> str:
    return ", ".join(map(str, readings))
