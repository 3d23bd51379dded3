"""Curves: what a chart draws, thinned to what can be seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pyrite.train.report.run import RecordedRun
from pyrite.train.view.watch.run import EXTRAS

#: Buckets of a thinned curve: more than a chart has pixels across.
BUCKETS = 1000
#: What no plotting library computes with; greater values are drawn at this one.
LARGEST = 1e150

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """One line: of a run and split, over epochs.  left_out: points that are no finite numbers."""

    run: int
    split: str
    x: Numbers
    y: Numbers
    left_out: int = 0


@dataclass(frozen=True)
class Chart:
    """The curves of one metric, in all runs that know it."""

    metric: str
    unit: str
    better: Literal["lower", "higher"] | None
    curves: Sequence[Curve]

    @property
    def left_out(self) -> int:
        """How many points of all curves are not drawn."""
        return sum(curve.left_out for curve in self.curves)


def charts(runs: Sequence[RecordedRun]) -> list[Chart]:
    """Return a chart of each metric, then of learning rate and norm of gradients."""
    names = dict.fromkeys(name for run in runs for name in run.metrics())
    names |= dict.fromkeys(n for run in runs for s in run.table.steps.values() for n in s.values)
    found = [_chart(runs, name) for name in names]
    extras = [_extra(runs, attribute, name) for attribute, name in EXTRAS.items()]
    named = [chart for chart in extras if chart.metric not in names]
    return [chart for chart in [*found, *named] if chart.curves]


def _chart(runs: Sequence[RecordedRun], name: str) -> Chart:
    curves = [curve for i, run in enumerate(runs) for curve in _curves(i, run, name)]
    known = (run.table.metrics[name] for run in runs if name in run.table.metrics)
    unit, better = next(known, ("", None))
    return Chart(name, unit, better, curves)


def _curves(number: int, run: RecordedRun, name: str) -> Iterator[Curve]:
    """Training by steps, where they were told, else by epochs; all other splits by epochs."""
    steps = run.table.steps.get("train")
    if steps is not None and name in steps.values:
        yield from _drawn(number, "train", steps.epochs, steps.values[name])
        splits = [split for split in run.history.splits() if split != "train"]
    else:
        splits = run.history.splits()
    for split in splits:
        readings = run.history.readings(name, split)
        x = np.array([epoch for epoch, _ in readings], np.float64)
        y = np.array([reading.value for _, reading in readings], np.float64)
        yield from _drawn(number, split, x, y)


def _extra(runs: Sequence[RecordedRun], attribute: str, name: str) -> Chart:
    curves = [
        curve
        for i, run in enumerate(runs)
        if (steps := run.table.steps.get("train")) is not None
        and not np.isnan(steps.fields[attribute]).all()
        for curve in _drawn(i, "train", steps.epochs, steps.fields[attribute])
    ]
    return Chart(name, "", None, curves)


def _drawn(run: int, split: str, x: Numbers, y: Numbers) -> Iterator[Curve]:
    finite = np.isfinite(y) & np.isfinite(x)
    if len(y):
        thinned = thin(x[finite], np.clip(y[finite], -LARGEST, LARGEST), BUCKETS)
        yield Curve(run, split, *thinned, left_out=int(np.count_nonzero(~finite)))


def thin(x: Numbers, y: Numbers, buckets: int) -> tuple[Numbers, Numbers]:
    """Return at most 4 points of each of so many parts of x: first, last, lowest and highest.

    So a line through them covers the pixels that a line through all of them covers.

    >>> thin(np.arange(9.0), np.float64([0, 9, 0, 0, 0, 0, -9, 0, 0]), 1)[1]
    array([ 0.,  9., -9.,  0.])
    """
    if len(x) <= 4 * buckets:
        return x, y
    edges = np.linspace(0, len(x), buckets + 1).astype(np.int64)
    starts, ends = edges[:-1], edges[1:]
    kept = [starts, ends - 1]
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        part = y[start:end]
        kept.append(np.array([start + part.argmin(), start + part.argmax()]))
    chosen = np.unique(np.concatenate(kept))
    return x[chosen], y[chosen]
