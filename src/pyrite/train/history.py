"""History: the readings of every epoch so far, and the questions asked of them.

Early stopping and the choice of the best checkpoint are functions of the history alone, so a
resumed run decides as one that was never interrupted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyrite.errors import ArgumentError
from pyrite.train.event import EpochEnded
from pyrite.train.reading import Better, Reading
from pyrite.train.readings_html import readings_html


@dataclass(frozen=True)
class SplitResult:
    """What the metrics said of one split of one epoch."""

    epoch: int
    split: str
    readings: tuple[Reading, ...]
    seconds: float

    @classmethod
    def of(cls, ended: EpochEnded) -> SplitResult:
        """Return what the end of a split says."""
        return cls(ended.epoch, ended.split, ended.readings, ended.seconds)

    def reading(self, name: str) -> Reading | None:
        """Return the reading of that name."""
        return next((reading for reading in self.readings if reading.name == name), None)

    def to_json(self) -> dict[str, Any]:
        """Return the fields."""
        return {
            "epoch": self.epoch,
            "split": self.split,
            "seconds": self.seconds,
            "readings": [reading.to_json() for reading in self.readings],
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> SplitResult:
        """Return the result that ``to_json`` gave."""
        readings = tuple(Reading.from_json(reading) for reading in fields["readings"])
        return cls(int(fields["epoch"]), fields["split"], readings, float(fields["seconds"]))


@dataclass(frozen=True, repr=False)
class History:
    """The results of all finished epochs, in order."""

    results: tuple[SplitResult, ...] = ()

    def __repr__(self) -> str:
        """How far it goes, and its latest readings: a run has hundreds of them."""
        latest = [r for r in self.results if r.epoch == self.results[-1].epoch]
        shown = ", ".join(f"{r.split} {reading}" for r in latest for reading in r.readings)
        return f"History({len({r.epoch for r in self.results})} epochs; {shown or 'no readings'})"

    def _repr_html_(self) -> str:
        return readings_html([(r.epoch, r.split, r.readings) for r in self.results])

    def with_results(self, results: Sequence[SplitResult]) -> History:
        """Return the history with one epoch more."""
        return History((*self.results, *results))

    def splits(self) -> list[str]:
        """Return the names of the splits, in order of appearance."""
        return list(dict.fromkeys(result.split for result in self.results))

    def readings(self, metric: str, split: str) -> list[tuple[int, Reading]]:
        """Return (epoch, reading) pairs of one metric on one split."""
        found = ((r.epoch, r.reading(metric)) for r in self.results if r.split == split)
        return [(epoch, reading) for epoch, reading in found if reading is not None]

    def __iter__(self) -> Iterator[SplitResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)


@dataclass(frozen=True)
class Goal:
    """What counts as better: a metric on a split.

    split: None means "valid" where there is one, else "train".
    better: None means the direction that the metric itself declares.
    """

    metric: str = "Loss"
    split: str | None = None
    better: Better | None = None

    def best(self, history: History) -> tuple[int, Reading] | None:
        """Return the first epoch with the best reading, and the reading; None before there is any.

        >>> falling = [SplitResult(e, "valid", (Reading("Loss", v, "", "lower"),), 0.0)
        ...            for e, v in enumerate((3.0, 1.0, 2.0), start=1)]
        >>> Goal().best(History(tuple(falling)))[0]
        2
        """
        best: tuple[int, Reading] | None = None
        for epoch, reading in history.readings(self.metric, self._split(history)):
            if best is None or reading.improves_on(best[1].value, better=self.better):
                best = epoch, reading
        return best

    def latest(self, history: History) -> Reading:
        """Return the reading of the last epoch.  Raises IndexError before there is one."""
        return history.readings(self.metric, self._split(history))[-1][1]

    def _split(self, history: History) -> str:
        if self.split is not None:
            return self.split
        return "valid" if "valid" in history.splits() else "train"

    def __str__(self) -> str:
        return f"{self.split} {self.metric}" if self.split else self.metric


@dataclass(frozen=True)
class EarlyStopping:
    """Stop when a metric has not improved for `patience` epochs, counted from `warm_up` on."""

    goal: Goal = Goal()
    patience: int = 5
    warm_up: int = 0

    def __post_init__(self) -> None:
        if self.patience < 1 or self.warm_up < 0:
            raise ArgumentError(
                "EarlyStopping requires patience >= 1 and warm_up >= 0, got "
                f"patience={self.patience}, warm_up={self.warm_up}"
            )

    def reason(self, history: History) -> str | None:
        """Return why to stop now, or None to go on."""
        best = self.goal.best(history)
        if best is None:
            return None
        last = history.results[-1].epoch
        since = max(best[0], self.warm_up)
        if last - since < self.patience:
            return None
        return (
            f"{self.goal} has not improved since epoch {best[0]} ({best[1].text}), "
            f"{self.patience} epochs of patience"
        )
