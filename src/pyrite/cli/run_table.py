"""The table of ``pyrite runs``: as many columns as the terminal has room for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pyrite.train.reading import Reading
from pyrite.train.report.run import RecordedRun, differing
from pyrite.train.view.legible import legible
from pyrite.train.view.watch.text import duration

#: Columns of metrics where none are named.
METRICS = 4
#: Characters of a cell.
CELL = 40
#: Characters between two columns.
GAP = 2
#: Columns of a file, which has room for everything.
FILE = 1000


@dataclass(frozen=True)
class Column:
    """A heading, and a cell for each run.  rank: those of the highest are left out first."""

    heading: str
    cells: Sequence[str]
    rank: int
    is_left: bool = False
    style: str = ""

    @property
    def width(self) -> int:
        """How many characters it takes."""
        return max(map(cell_len, (self.heading, *self.cells)))


def print_runs(runs: list[RecordedRun], metrics: list[str] | None, *, settings: bool) -> None:
    """Print a row for each run; on standard error what had no room, and notes of damage."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else FILE)
    columns = _columns(runs, metrics, differing(runs) if settings else [])
    kept = fitting(columns, console.width)
    console.print(_table(kept))
    if len(kept) < len(columns):
        left_out = ", ".join(column.heading for column in columns if column not in kept)
        print(f"no room for: {left_out}", file=sys.stderr)
    for run in runs:
        for note in run.notes:
            print(f"{legible(str(run.path))}: {legible(note)}", file=sys.stderr)


def fitting(columns: Sequence[Column], width: int) -> list[Column]:
    """Return the columns that fit beside each other; the first, of names, is always there."""
    kept = list(columns)
    while len(kept) > 1 and sum(column.width + GAP for column in kept) - GAP > width:
        kept.remove(max(kept[1:], key=lambda column: column.rank))
    return kept


def reading_of(run: RecordedRun, name: str) -> Reading | None:
    """Return the best reading that a name means: of a metric, or "train Loss" of a split."""
    split, _, metric = name.partition(" ")
    if metric and split in run.history.splits():
        found = run.best(metric, split)
        if found is not None:
            return found[1]
    found = run.best(name)
    return None if found is None else found[1]


def _columns(
    runs: list[RecordedRun], metrics: list[str] | None, varied: Sequence[str]
) -> list[Column]:
    """The names, then what was asked for, is kept longest; when it started is left out first."""
    facts = [
        _column("run", [str(run.path) for run in runs], 0, is_left=True),
        _column("state", [run.status for run in runs], 1, is_left=True),
        _column("epochs", [_epochs(run) for run in runs], 900),
        _column("started", [_date(run.began) for run in runs], 1000),
        _column("time", [duration(run.seconds) for run in runs], 950),
    ]
    readings = [
        _column(name, [_reading(run, name) for run in runs], 100 + i)
        for i, name in enumerate(metrics or _common_metrics(runs))
    ]
    settings = [
        _column(name, [str(run.settings.get(name, "")) for run in runs], 50 + i, style="dim")
        for i, name in enumerate(varied)
    ]
    return [*facts, *readings, *settings]


def _column(
    heading: str, cells: Sequence[str], rank: int, *, is_left: bool = False, style: str = ""
) -> Column:
    return Column(_shown(heading), [_shown(cell) for cell in cells], rank, is_left, style)


def _table(columns: Sequence[Column]) -> Table:
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(
            Text(column.heading),
            justify="left" if column.is_left else "right",
            style=column.style,
            overflow="fold",
        )
    for cells in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*map(Text, cells))  # texts, not markup
    return table


def _common_metrics(runs: list[RecordedRun]) -> list[str]:
    """The first metrics that know which end is better."""
    found = dict.fromkeys(
        reading.name
        for run in runs
        for result in run.history
        for reading in result.readings
        if reading.better
    )
    return list(found)[:METRICS]


def _epochs(run: RecordedRun) -> str:
    started = run.state.started
    return f"{run.epochs_done}/{started.epochs}" if started else ""


def _reading(run: RecordedRun, name: str) -> str:
    reading = reading_of(run, name)
    return "" if reading is None else reading.text


def _shown(text: str) -> str:
    """Returns a text on one line, without what a terminal obeys; of a long path the end."""
    line = legible(text)
    return line if len(line) <= CELL else f"…{line[1 - CELL :]}"


def _date(time: float) -> str:
    try:
        return datetime.fromtimestamp(time).strftime("%Y-%m-%d %H:%M") if time else ""
    except (ValueError, OverflowError, OSError):
        return ""
