"""RunState: what the events of a run say so far, for whoever shows it."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import singledispatchmethod

from pyrite.train.event import (
    CheckpointDamaged,
    Checkpointed,
    EpochEnded,
    EpochStarted,
    Event,
    Failed,
    Interrupted,
    Logged,
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
from pyrite.train.event_file import Entry
from pyrite.train.reading import Reading
from pyrite.train.sample import ImageSample, Sample, TextSample
from pyrite.train.view.notice import notice
from pyrite.train.view.watch.pace import Pace
from pyrite.train.view.watch.series import Series

#: Lines of the log that are kept.
LINES = 1000
#: Characters of a text sample that the log shows.
TEXT = 200
#: What steps tell beside metrics, by the field of the event.
EXTRAS = {"learning_rate": "Learning rate", "gradient_norm": "Gradient norm"}

Key = tuple[str, str]
"""A split, and the name of a metric."""


@dataclass(frozen=True)
class LogLine:
    """A line of the log: when, how grave, from where."""

    time: float
    level: str
    source: str
    text: str


@dataclass(frozen=True)
class Best:
    """The best value of a metric, after which epoch."""

    reading: Reading
    epoch: int


@dataclass
class RunState:
    """Takes entries of a file of events, and keeps what a dashboard shows.

    Curves are over epochs: step 30 of 60 in epoch 2 is at 1.5, and the end of epoch 2 at 2.
    ``status``: "waiting", "running", "paused", "stopping", or how the run ended.
    """

    started: RunStarted | None = None
    status: str = "waiting"
    epoch: EpochStarted | None = None
    step: StepEnded | None = None
    train_step: StepEnded | None = None
    checkpoint: Checkpointed | None = None
    latest: dict[Key, Reading] = field(default_factory=dict)
    curves: dict[Key, Series] = field(default_factory=dict)
    ended: list[EpochEnded] = field(default_factory=list)
    log: deque[LogLine] = field(default_factory=lambda: deque(maxlen=LINES))
    #: How many lines the log ever had: who shows it sees what is new.
    logged: int = 0
    pace: Pace = field(default_factory=Pace)
    #: When the run last said something, and when it began.
    heard: float = 0.0
    began: float = 0.0
    _since: float = 0.0  # when the process began, later by all pauses
    _before: float = 0.0  # seconds that the run went on in processes before
    _ended_at: float = 0.0
    _best: dict[Key, Best] = field(default_factory=dict)
    _paused_at: float | None = None
    _sampled: set[Key] = field(default_factory=set)

    def take(self, entry: Entry) -> None:
        """Take one entry in; one that makes no sense, as of an epoch of no steps, is left out."""
        with suppress(ArithmeticError):
            if isinstance(
                entry.event, StepEnded
            ):  # of most lines: a dispatch would double its time
                self._end_step(entry.event, entry.time)
            else:
                self._take(entry.event, entry.time)
        self.heard = entry.time

    def seconds(self, now: float) -> float:
        """How long the run has gone on at a time, pauses and what lay between processes left out.

        A run that has ended goes on no longer, whenever now is.
        """
        if self.started is None:
            return 0.0
        if self._paused_at is not None:
            now = self._paused_at
        elif self.is_over:
            now = self._ended_at
        return max(0.0, self._before + now - self._since)

    @property
    def is_over(self) -> bool:
        """Whether the run says that it has ended."""
        return self.status not in ("waiting", "running", "paused", "stopping")

    def metrics(self) -> list[str]:
        """Return the names of all that has a curve, those of metrics first."""
        names = dict.fromkeys(name for _, name in self.curves if name not in EXTRAS.values())
        extras = [name for name in EXTRAS.values() if ("train", name) in self.curves]
        return [*names, *extras]

    def splits(self) -> list[str]:
        """Return the splits that were told of, "train" first."""
        found = dict.fromkeys(split for split, _ in self.latest)
        first = [split for split in ("train", "valid") if split in found]
        return [*first, *(split for split in found if split not in first)]

    def best(self, split: str, name: str) -> Best | None:
        """Return the best value at the end of an epoch, None for a metric without a good end."""
        return self._best.get((split, name))

    # ---- one kind of event each ----

    @singledispatchmethod
    def _take(self, event: Event, time: float) -> None:
        """Most other events are not shown."""

    @_take.register
    def _(self, event: RunStarted, time: float) -> None:
        self._before = self.seconds(self.heard)
        self._since, self._paused_at, self.began = time, None, time
        self.started, self.status = event, "running"
        self.pace.begin_again()
        self._say(time, "info", "", notice(event))

    @_take.register
    def _(self, event: Resumed, time: float) -> None:
        steps = self.epoch.steps if self.epoch else 1
        done = event.epoch + event.step / steps
        for (split, _), curve in self.curves.items():
            curve.cut(done + 1e-9 if split == "train" else event.epoch)
        kept = [ended for ended in self.ended if ended.epoch <= event.epoch]
        self.ended, self._best = [], {}
        for ended in kept:
            self._end(ended)
        self._say(time, "info", "", notice(event))

    @_take.register(CheckpointDamaged)
    @_take.register(StoppedEarly)
    def _(self, event: Event, time: float) -> None:
        self._say(time, "warning", "", notice(event))

    @_take.register
    def _(self, event: EpochStarted, time: float) -> None:
        self.epoch, self.step = event, None
        self.pace.begin_epoch(event, self.seconds(time))

    def _end_step(self, event: StepEnded, time: float) -> None:
        self.step = event
        self.pace.end_step(event, self.seconds(time))
        for reading in event.readings:
            self.latest[event.split, reading.name] = reading
        if event.split == "train":
            self.train_step = event
            self._draw(event)

    @_take.register
    def _(self, event: EpochEnded, time: float) -> None:
        self._end(event)
        if self.step is not None and self.step.split == event.split:
            self.step = replace(self.step, step=self.step.steps)  # the last one may not be told
        self.pace.end_epoch(event, self.seconds(time))
        for reading in event.readings:
            self.latest[event.split, reading.name] = reading
            if event.split != "train":
                self._curve(event.split, reading.name).append(event.epoch, reading.value)
        if event.split == "test":
            values = ", ".join(map(str, event.readings))
            self._say(time, "info", "", f"test after {event.epoch} epochs: {values}")

    @_take.register
    def _(self, event: Sampled, time: float) -> None:
        name = (event.split, event.sample.name)
        # A line says only where pictures and tables are: told in each epoch, such lines
        # would leave no room for others.
        if isinstance(event.sample, TextSample) or name not in self._sampled:
            self._say(time, "info", "", f"sample of {event.split}: {_in_words(event.sample)}")
        self._sampled.add(name)

    @_take.register
    def _(self, event: Checkpointed, time: float) -> None:
        self.checkpoint = event

    @_take.register
    def _(self, event: Paused, time: float) -> None:
        self.status, self._paused_at = "paused", time
        self._say(time, "info", "", notice(event))

    @_take.register
    def _(self, event: PauseEnded, time: float) -> None:
        if self._paused_at is not None:
            self._since += time - self._paused_at
        self.status, self._paused_at = "running", None
        self._say(time, "info", "", notice(event))

    @_take.register
    def _(self, event: Logged, time: float) -> None:
        self._say(time, event.level, event.source, event.text)

    @_take.register
    def _(self, event: StopRequested, time: float) -> None:
        self.status = "stopping"
        self._say(time, "info", "", f"stopping: {event.reason}")

    @_take.register
    def _(self, event: Interrupted, time: float) -> None:
        self._say(time, "warning", "", notice(event))

    @_take.register
    def _(self, event: RunEnded, time: float) -> None:
        self.status, self._ended_at = event.outcome, time
        self._say(time, "info", "", notice(event))

    @_take.register
    def _(self, event: Failed, time: float) -> None:
        self.status, self._ended_at = "failed", time
        self._say(time, "error", "", notice(event))

    # ---- parts ----

    def _draw(self, event: StepEnded) -> None:
        x = event.epoch - 1 + event.step / event.steps
        for reading in event.readings:
            self._curve("train", reading.name).append(x, reading.value)
        told = {reading.name for reading in event.readings}
        for attribute, name in EXTRAS.items():
            value = getattr(event, attribute)
            if value is not None and name not in told:
                self._curve("train", name).append(x, value)

    def _curve(self, split: str, name: str) -> Series:
        curve = self.curves.get((split, name))
        if curve is None:
            curve = self.curves[split, name] = Series()
        return curve

    def _end(self, event: EpochEnded) -> None:
        self.ended.append(event)
        for reading in event.readings:
            key = (event.split, reading.name)
            best = self._best.get(key)
            if reading.better and (best is None or reading.improves_on(best.reading.value)):
                self._best[key] = Best(reading, event.epoch)

    def _say(self, time: float, level: str, source: str, text: str) -> None:
        self.log.append(LogLine(time, level, source, text))
        self.logged += 1


def _in_words(sample: Sample) -> str:
    """A sample on a line: a text itself, of an image its file, of a table how large it is."""
    if isinstance(sample, TextSample):
        return f"{sample.name}: {sample.text[:TEXT]}"
    if isinstance(sample, ImageSample):
        return f"{sample.name}: samples/{sample.file} {sample.caption}".rstrip()
    return f"{sample.name}: a table of {len(sample.rows)} rows, see pyrite report"
