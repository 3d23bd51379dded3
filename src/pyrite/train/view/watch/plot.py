"""Curves as a plot of text: what is drawn of a metric, where axes begin and end, their labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.text import Text

from pyrite.train.view.legible import legible
from pyrite.train.view.watch.canvas import DOTS_X, Canvas, framed, label_width
from pyrite.train.view.watch.run import RunState
from pyrite.train.view.watch.series import Numbers, drawable, smoothed, thinned
from pyrite.train.view.watch.text import colour

#: The least size of a plot with axes.
LEAST_WIDTH, LEAST_HEIGHT = 24, 5
#: A cell of text by the mark of a split: they can be told apart without colours.
MARKS = {"train": "braille", "valid": "●", "test": "◆"}
COMPARED_MARKS = {"train": "·", "valid": "○", "test": "◇"}
SIGNS = {"braille": "⠒⠒"}
#: Smoothing: the mean of the last readings, as a part of those that are shown.
SMOOTHING = (0.0, 0.03, 0.1)


@dataclass(frozen=True)
class Aspect:
    """How curves are looked at: a part of them or the whole, and how much smoothed."""

    recent: bool = False
    smoothing: int = 0


@dataclass(frozen=True)
class Curve:
    """What to draw of one split: as a line where the mark is braille, else as marks."""

    label: str
    points: Numbers
    mark: str
    colour: str


def plot(
    name: str, state: RunState, other: RunState | None, aspect: Aspect, width: int, height: int
) -> Text:
    """Return the plot of a metric: a line that says what is shown, and below it the curves."""
    begin, end = _extent(name, state, other, aspect)
    found = curves(name, state, other, aspect, begin, end)
    head = _head(name, found, aspect, width)
    if height < LEAST_HEIGHT or width < LEAST_WIDTH:
        return head
    if not any(curve.points.shape[1] for curve in found):
        return Text.assemble(head, "\n", (f"  {_why_empty(name, state)}", "dim"))
    scale = _scale_of_x(state)
    picture = _picture(found, (begin, end), scale, _is_share(name, state), width, height - 1)
    return Text.assemble(head, "\n", picture)


def _why_empty(name: str, state: RunState) -> str:
    is_read = any(len(series) for (_, metric), series in state.curves.items() if metric == name)
    return "all readings so far are NaN or infinite" if is_read else "no reading yet"


def curves(
    name: str, state: RunState, other: RunState | None, aspect: Aspect, begin: float, end: float
) -> list[Curve]:
    """Return the curves of a metric, those of the run to compare with last."""
    found = _curves_of(name, state, MARKS, aspect, begin, end, "")
    if other is not None:
        found += _curves_of(name, other, COMPARED_MARKS, aspect, begin, end, "compared ")
    return found


def _curves_of(
    name: str,
    state: RunState,
    marks: dict[str, str],
    aspect: Aspect,
    begin: float,
    end: float,
    prefix: str,
) -> list[Curve]:
    found = []
    for (split, metric), series in state.curves.items():
        if metric != name:
            continue
        points = drawable(series.between(begin, end))
        window = int(SMOOTHING[aspect.smoothing] * points.shape[1])
        tint = "default" if prefix else colour(split)
        found.append(
            Curve(f"{prefix}{split}", smoothed(points, window), marks.get(split, "x"), tint)
        )
    return found


def _extent(
    name: str, state: RunState, other: RunState | None, aspect: Aspect
) -> tuple[float, float]:
    """Where the plot begins and ends; recent: the last two epochs, or half of what is shorter."""
    runs = [state] if other is None else [state, other]
    series = [s for run in runs for (_, metric), s in run.curves.items() if metric == name]
    own = [s for (_, metric), s in state.curves.items() if metric == name]
    first = min((float(s.points[0, 0]) for s in series if len(s)), default=0.0)
    last = max((float(s.points[0, -1]) for s in own if len(s)), default=0.0)
    if aspect.recent:
        return last - min(2.0, (last - first) / 2), last
    return first, max([last, *(float(s.points[0, -1]) for s in series if len(s))])


def _head(name: str, found: Sequence[Curve], aspect: Aspect, width: int) -> Text:
    line = Text(legible(name), style="bold")
    for curve in found:
        line.append("  ")
        line.append(f"{SIGNS.get(curve.mark, curve.mark)} {legible(curve.label)}", curve.colour)
    looks = ["recent"] if aspect.recent else []
    if aspect.smoothing:
        looks.append(f"mean of {SMOOTHING[aspect.smoothing]:.0%}")
    if looks:
        line.append("  " + ", ".join(looks), "dim")
    line.truncate(width, overflow="ellipsis")
    return line


def _is_share(name: str, state: RunState) -> bool:
    return any(r.unit == "%" for (_, metric), r in state.latest.items() if metric == name)


def _scale_of_x(state: RunState) -> float:
    """Epochs are the unit of x, steps where there is one epoch only."""
    if state.started is not None and state.started.epochs == 1 and state.epoch is not None:
        return float(state.epoch.steps)
    return 1.0


def _picture(
    found: Sequence[Curve],
    extent: tuple[float, float],
    scale: float,
    is_share: bool,
    width: int,
    height: int,
) -> Text:
    drawn = [
        (curve, thinned(curve.points, DOTS_X * width)) for curve in found if curve.points.shape[1]
    ]
    low, high = _range(np.concatenate([points[1] for _, points in drawn]))
    begin, end = extent
    if not end > begin:
        end = begin + max(1.0, abs(begin) / 10)
    y = [(at, _label(at, is_share)) for at in ticks(low, high, max(3, height // 3))]
    room = width - label_width(y) - 2
    canvas = Canvas(room, height - 3, (begin * scale, end * scale), (low, high))
    for curve, points in sorted(drawn, key=_depth):
        scaled = np.stack([points[0] * scale, points[1]])
        if curve.mark == "braille" and points.shape[1] > 1:
            canvas.line(scaled, curve.colour)
        else:
            canvas.marks(scaled, "•" if curve.mark == "braille" else curve.mark, curve.colour)
    x = [(at, f"{at:g}") for at in ticks(begin * scale, end * scale, width // 14)]
    return framed(canvas, x, y)


def _depth(drawn: tuple[Curve, Numbers]) -> int:
    """Return how late a curve is drawn: marks over lines, and both over those of another run."""
    mark = drawn[0].mark
    return 0 if mark in COMPARED_MARKS.values() else 1 if mark == MARKS["train"] else 2


def _range(y: Numbers) -> tuple[float, float]:
    low, high = float(y.min()), float(y.max())
    if high / 2 > low / 2:  # the distance itself may be larger than any number
        return low, high
    pad = abs(low) / 10 or 1.0
    return low - pad, high + pad


def _label(place: float, is_share: bool) -> str:
    return f"{100 * place:.4g} %" if is_share else f"{place:.4g}"


def ticks(low: float, high: float, count: int) -> list[float]:
    """Return at most so many round numbers between two others, at least one.

    >>> ticks(0, 5, 4), ticks(0.13, 0.92, 5)
    ([0.0, 2.0, 4.0], [0.2, 0.4, 0.6, 0.8])
    """
    rough = (high - low) / max(1, count)
    if not (rough > 0 and math.isfinite(rough)):
        return [low]
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)] or [low]
