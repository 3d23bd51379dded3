"""Summary: per split and metric, the best value and its epoch, and the last one."""

from __future__ import annotations

from dataclasses import dataclass

from pyrite.train.history import Goal, History
from pyrite.train.reading import Reading


@dataclass(frozen=True)
class SummaryRow:
    """One metric on one split.  `best` and `epoch` are None where no direction is better."""

    split: str
    metric: str
    best: Reading | None
    epoch: int | None
    last: Reading

    @property
    def cells(self) -> tuple[str, str, str, str, str]:
        """The row as text: split, metric, best, epoch, last."""
        best = "" if self.best is None else self.best.text
        epoch = "" if self.epoch is None else str(self.epoch)
        return self.split, self.metric, best, epoch, self.last.text


HEADINGS = ("split", "metric", "best", "epoch", "last")


def summary(history: History) -> list[SummaryRow]:
    """Return a row for each metric on each split, in the order in which they appeared."""
    rows = []
    for split in history.splits():
        results = [result for result in history if result.split == split]
        names = dict.fromkeys(reading.name for result in results for reading in result.readings)
        rows += [_row(history, split, name) for name in names]
    return rows


def summary_text(history: History) -> str:
    """Return the summary as a table of plain text.

    >>> from pyrite.train.history import SplitResult
    >>> loss = Reading("Loss", 0.5, "", "lower")
    >>> print(summary_text(History((SplitResult(1, "train", (loss,), 1.0),))))
    split  metric    best  epoch    last
    train  Loss    0.5000      1  0.5000
    """
    table = [HEADINGS, *(row.cells for row in summary(history))]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join(_line(cells, widths) for cells in table)


def _row(history: History, split: str, metric: str) -> SummaryRow:
    readings = history.readings(metric, split)
    last = readings[-1][1]
    best = Goal(metric, split).best(history) if last.better else None
    return SummaryRow(split, metric, best and best[1], best and best[0], last)


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    words = (
        cell.ljust(width) if i < 2 else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join(words).rstrip()
