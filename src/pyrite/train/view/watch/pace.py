"""Pace: how fast a run goes, how long it still takes, and where its time goes; pauses left out."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from pyrite.train.event import EpochEnded, EpochStarted, StepEnded

#: Steps that were told by which the speed is measured.
WINDOW = 30


@dataclass(frozen=True)
class Shares:
    """Where the time of a run went, as fractions of all of it; other is to save and to begin."""

    data: float
    step: float
    evaluation: float
    other: float


class Pace:
    """Takes events with the seconds of the run at which they came, pauses left out."""

    def __init__(self) -> None:
        self._recent: deque[tuple[float, int, int]] = deque(maxlen=WINDOW)
        self._epoch: EpochStarted | None = None
        self._step: StepEnded | None = None
        self._last = 0.0
        self._trained_at: float | None = None
        self._train: float | None = None  # seconds a step of training
        self._between: float | None = None  # seconds from an epoch's last step to the next epoch
        self._items: deque[int] = deque(maxlen=WINDOW)
        self._waited = self._seconds = 0.0
        self._spent = {"train": 0.0, "evaluation": 0.0, "other": 0.0}

    def begin_epoch(self, event: EpochStarted, now: float) -> None:
        """An epoch begins, which tells how long it was since the last step of the one before."""
        if self._trained_at is not None and self._step is not None:
            self._between = now - self._trained_at
        self._spend("other", now)
        self._epoch, self._step = event, None
        self._recent.clear()
        self._recent.append((now, event.step, 0))

    def end_step(self, event: StepEnded, now: float) -> None:
        """A step is done."""
        is_train = event.split == "train"
        if not is_train and (self._step is None or self._step.split != event.split):
            self._recent.clear()
        self._spend("train" if is_train else "evaluation", now)
        self._step = event
        self._recent.append((now, event.step, event.items))
        if is_train:
            self._waited += event.waited
            self._seconds += event.seconds
            self._train = self.seconds_per_step or self._train
            self._items.append(event.items)
            self._trained_at = now

    def end_epoch(self, event: EpochEnded, now: float) -> None:
        """A split of an epoch is done."""
        self._spend("train" if event.split == "train" else "evaluation", now)

    def begin_again(self) -> None:
        """The run continues in another process."""
        self._trained_at = self._step = None

    @property
    def seconds_per_step(self) -> float | None:
        """Seconds for a step of the split under way, over the last that were told."""
        if len(self._recent) < 2:
            return None
        (began, first, _), (ended, last, _) = self._recent[0], self._recent[-1]
        return (ended - began) / (last - first) if last > first else None

    @property
    def items_per_step(self) -> float:
        """Items in a step of training, the mean of the last ones told; 0 where they tell none."""
        items = [count for count in self._items if count]
        return sum(items) / len(items) if items else 0.0

    @property
    def training_seconds(self) -> float | None:
        """Seconds for a step of training, over the last that were told."""
        return self._train

    def epoch_left(self, now: float) -> float | None:
        """Return the seconds until the split under way is done, None where nobody can know."""
        if self._step is None or self.seconds_per_step is None:
            return None
        steps = self._step.steps - self._step.step
        return max(0.0, steps * self.seconds_per_step - (now - self._last))

    def run_left(self, now: float) -> float | None:
        """Return the seconds until all epochs are done, None where nobody can know."""
        if self._epoch is None or self._train is None:
            return None
        later = self._epoch.epochs - self._epoch.epoch
        between = self._between or 0.0
        seconds = self._this_epoch_left(between) + later * (
            self._epoch.steps * self._train + between
        )
        return max(0.0, seconds - (now - self._last))

    def _this_epoch_left(self, between: float) -> float:
        assert self._epoch is not None
        assert self._train is not None
        if self._step is None:
            return (self._epoch.steps - self._epoch.step) * self._train + between
        if self._step.split == "train":
            return (self._step.steps - self._step.step) * self._train + between
        if self._between is not None and self._trained_at is not None:
            return max(0.0, self._trained_at + self._between - self._last)
        return (self._step.steps - self._step.step) * (self.seconds_per_step or 0.0)

    def shares(self) -> Shares | None:
        """Return where the time went, None before anything was told."""
        whole = sum(self._spent.values())
        if not self._seconds or not whole:
            return None
        train = self._spent["train"]
        data = train * min(1.0, self._waited / self._seconds)
        parts = (data, train - data, self._spent["evaluation"], self._spent["other"])
        return Shares(*(part / whole for part in parts))

    def _spend(self, kind: str, now: float) -> None:
        self._spent[kind] += max(0.0, now - self._last)
        self._last = now
