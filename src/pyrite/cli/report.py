"""``pyrite report``: runs as one page of curves, settings and samples, and as PNG for papers."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from pyrite.errors import TrainError
from pyrite.record import atomic_write
from pyrite.train.report.curve import Chart, charts
from pyrite.train.report.page import CHARTS, page, run_names
from pyrite.train.report.run import RecordedRun, find_runs, read_run
from pyrite.train.view.legible import legible


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Runs, or folders in which they lie.")
    ],
    out: Annotated[Path, typer.Option(help="The page.")] = Path("report.html"),
    png: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also each chart as PNG, 300 dots an inch.")
    ] = None,
) -> None:
    """Make one HTML file of runs, to look at or to send: several runs are laid over each other."""
    drawing = _drawing()
    found = [read_run(path) for place in runs for path in _folders(place)]
    drawn, names = charts(found), run_names(found)
    text = page(found, drawn, lambda chart, key: drawing.svg(chart, names, key=key))
    _write(out, text.encode())
    for file, chart in _files(drawn[:CHARTS]):
        if png is not None:
            _write(png / file, drawing.png(chart, names))
    _tell(found, out)


def _drawing() -> Any:
    try:
        return importlib.import_module("pyrite.train.report.drawing")
    except ImportError as error:
        raise TrainError(
            f"report requires matplotlib, got: {error}; pip install 'pyrite[report]'"
        ) from error


def _folders(place: Path) -> list[Path]:
    found = list(find_runs(place))
    if not found:
        raise TrainError(
            f"report requires runs, got {str(place)!r}, which is none and has none; name folders "
            "that 'pyrite runs' lists"
        )
    return found


def _files(drawn: Sequence[Chart]) -> list[tuple[str, Chart]]:
    """A file name for each chart, of its metric's name and its number."""
    plain = [re.sub(r"[^a-z0-9]+", "-", chart.metric.lower()).strip("-")[:40] for chart in drawn]
    return [(f"{i + 1:02}-{name or 'metric'}.png", drawn[i]) for i, name in enumerate(plain)]


def _write(file: Path, content: bytes) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(file) as opened:
            opened.write(content)
    except OSError as error:
        raise TrainError(
            f"report requires a file that can be written, got {str(file)!r}: {error.strerror}; "
            "name another with --out"
        ) from error


def _tell(found: Sequence[RecordedRun], out: Path) -> None:
    for run in found:
        for note in run.notes:
            typer.echo(f"{legible(str(run.path))}: {legible(note)}", err=True)
    count = "1 run" if len(found) == 1 else f"{len(found)} runs"
    print(f"{count}: {legible(str(out))}")
