"""Readings of a run in a notebook: a row for each epoch, and over each column its curve."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from pyrite.train.reading import Reading

#: The last epochs are shown as numbers, all of them as curves.
ROWS: Final = 12
WIDTH: Final = 110
HEIGHT: Final = 28

#: Numbers end under each other, and columns do not move when their curves appear.
_CELL: Final = f'style="text-align:right;padding:.1em .6em;min-width:{WIDTH}px"'

Column = tuple[str, str]
"""A split and a metric."""


def readings_html(results: Iterable[tuple[int, str, Sequence[Reading]]]) -> str:
    """Return HTML of (epoch, split, readings), which needs no script and no style of the page."""
    columns: dict[Column, dict[int, Reading]] = {}
    for epoch, split, readings in results:
        for reading in readings:
            columns.setdefault((split, reading.name), {})[epoch] = reading
    if not columns:
        return "<div>no readings</div>"
    epochs = sorted({epoch for column in columns.values() for epoch in column})
    heads = "".join(
        f"<th {_CELL}>{escape(split)}<br/>{escape(name)}</th>" for split, name in columns
    )
    curves = "".join(f"<td {_CELL}>{_curve(column)}</td>" for column in columns.values())
    rows = "".join(_row(epoch, columns.values()) for epoch in epochs[-ROWS:])
    left_out = f"<div>{len(epochs) - ROWS:,} epochs before</div>" if len(epochs) > ROWS else ""
    return (
        f"{left_out}<table><thead><tr><th>epoch</th>{heads}</tr></thead>"
        f"<tbody><tr><td></td>{curves}</tr>{rows}</tbody></table>"
    )


def _row(epoch: int, columns: Iterable[dict[int, Reading]]) -> str:
    texts = (column[epoch].text if epoch in column else "" for column in columns)
    cells = "".join(f"<td {_CELL}>{escape(text)}</td>" for text in texts)
    return f"<tr><td>{epoch}</td>{cells}</tr>"


def _curve(column: dict[int, Reading]) -> str:
    known = {epoch: r.value for epoch, r in column.items() if math.isfinite(r.value)}
    if len(known) < 2:
        return ""
    first, last = min(known), max(known)
    low, high = min(known.values()), max(known.values())
    # Halves: the distance of two floats may be no float.
    height = (high / 2 - low / 2) or 1.0
    points = " ".join(
        f"{2 + (epoch - first) / (last - first) * (WIDTH - 4):.1f},"
        f"{HEIGHT - 2 - (value / 2 - low / 2) / height * (HEIGHT - 4):.1f}"
        for epoch, value in sorted(known.items())
    )
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}" role="img"><polyline points="{points}" '
        f'fill="none" stroke="#4878a8" stroke-width="1.5"/></svg>'
    )
