"""Drawing: charts as SVG for a page, light and dark, and as PNG for papers.  Needs matplotlib.

The colours of an SVG are variables of the page's style: it is drawn in colours that stand for them,
which are replaced in its text.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from pyrite.train.report.curve import Chart, Curve
from pyrite.train.report.palette import INK, LINES, PALETTE, colour, dash
from pyrite.train.view.legible import legible

#: Colours that stand for variables; nothing else is drawn in them.
_INK, _LINES = "#0102f0", "#0102f1"
_SERIES = tuple(f"#0102a{i}" for i in range(len(PALETTE)))

#: Inches of a chart on a page, and of one in a column of a paper.
PAGE, PAPER = (4.6, 2.9), (3.5, 2.3)

_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",   # text stays text
    "svg.hashsalt": "pyrite",  # one run gives one file
    "path.simplify": True,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.formatter.useoffset": False,
    "text.parse_math": False,  # a name with $ is a name
}  # fmt: skip


def svg(chart: Chart, runs: Sequence[str], *, key: str) -> str:
    """Return a chart as an element of a page.  `key` is the chart's own, for the ids in it."""
    with _styled():
        figure = _figure(chart, runs, PAGE, _SERIES, _INK, _LINES)
        stream = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(stream, format="svg", transparent=True, metadata=nothing)
    text = stream.getvalue()
    text = text[text.index("<svg") :]  # without the prologue of a file
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{key}-", text)
    return _with_variables(text)


def png(chart: Chart, runs: Sequence[str], *, dpi: int = 300) -> bytes:
    """Return a chart on white as a PNG file, with a legend."""
    with _styled():
        figure = _figure(chart, runs, PAPER, PALETTE, INK, LINES)
        if len(chart.curves) > 1:
            figure.axes[0].legend(frameon=False, fontsize=6)
        stream = io.BytesIO()
        figure.savefig(stream, format="png", dpi=dpi, facecolor="white")
    return stream.getvalue()


@contextmanager
def _styled() -> Iterator[None]:
    """Our style, and no warnings of letters that its fonts lack: a browser has others."""
    with warnings.catch_warnings(), matplotlib.rc_context(_STYLE):
        warnings.simplefilter("ignore")
        yield


def _figure(
    chart: Chart,
    runs: Sequence[str],
    size: tuple[float, float],
    series: Sequence[str],
    ink: str,
    lines: str,
) -> Figure:
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for curve in chart.curves:
        _draw(axes, curve, runs, series)
    _scale(axes, chart)
    title = legible(chart.metric)
    unit = "" if chart.unit in ("", "%") else f" ({legible(chart.unit)})"
    axes.set_title(f"{title[:60]}{unit[:20]}", color=ink)
    axes.set_xlabel("epochs", color=ink, fontsize=8)
    axes.grid(color=lines, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(color=lines, labelcolor=ink, labelsize=8)
    for spine in axes.spines.values():
        spine.set_color(lines)
    return figure


def _draw(axes: Axes, curve: Curve, runs: Sequence[str], series: Sequence[str]) -> None:
    is_train = curve.split == "train"
    # Few points are marked: one alone would not be seen.
    marker = "o" if len(curve.x) <= 12 and not (is_train and len(runs) > 1) else None
    name = legible(runs[curve.run])[:40] if len(runs) > 1 else ""
    axes.plot(
        curve.x, curve.y,
        color=series[colour(curve.run, curve.split, len(runs))],
        linewidth=0.9 if is_train and len(runs) > 1 else 1.4,
        linestyle="--" if is_train and len(runs) > 1 else dash(curve.run)[0],
        marker="o" if len(curve.x) == 1 else marker, markersize=3,
        label=f"{name} {legible(curve.split)[:20]}".strip(),
    )  # fmt: skip


def _scale(axes: Axes, chart: Chart) -> None:
    """Logarithmic where values of one sign differ by much; percent where the unit says so."""
    drawn = [curve.y for curve in chart.curves if len(curve.y)]
    if not drawn:
        return
    values = np.concatenate(drawn)
    least, greatest = float(values.min()), float(values.max())
    if chart.better == "lower" and least > 0 and greatest / least > 100:
        axes.set_yscale("log")
        # The usual labels are formulas, which are not drawn where a name may hold a $.
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    elif chart.unit == "%":
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")


def _with_variables(text: str) -> str:
    for number, stand_in in enumerate(_SERIES):
        text = text.replace(stand_in, f"var(--series-{number})")
    return text.replace(_INK, "var(--ink)").replace(_LINES, "var(--lines)")
