"""Page: recorded runs as one HTML file that needs nothing else.

Charts are SVG in it, images are data; nothing is fetched, which a content security policy enforces,
and nothing runs.  Invariant: every text of a run's files passes `escaped`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from pyrite._version import __version__
from pyrite.train.report.curve import Chart
from pyrite.train.report.html import Html, element, escaped, table
from pyrite.train.report.palette import colour, dash
from pyrite.train.report.run import RecordedRun, differing
from pyrite.train.report.samples import samples
from pyrite.train.report.stylesheet import stylesheet
from pyrite.train.view.watch.text import duration

#: Lines of a run's log, the last ones; charts, the first ones: one takes a tenth of a second.
LINES, CHARTS = 100, 100

Draw = Callable[[Chart, str], str]
"""From a chart, and a key of its own, to an element of the page."""


def page(runs: Sequence[RecordedRun], charts: Sequence[Chart], draw: Draw) -> str:
    """Return the page of runs, whose charts are drawn by a function."""
    names = run_names(runs)
    title = f"Report: {names[0]}" if len(runs) == 1 else f"Report of {len(runs)} runs"
    body = "\n".join(
        [
            element("h1", escaped(title)),
            *(_note(run, name) for run, name in zip(runs, names, strict=True) if run.notes),
            _runs(runs, names),
            _settings(runs, names),
            _curves(charts, names, draw),
            _results(runs, names),
            *(samples(run, name) for run, name in zip(runs, names, strict=True)),
            *(_log(run, name) for run, name in zip(runs, names, strict=True)),
            element("footer", escaped(f"pyrite {__version__}, {datetime.now():%Y-%m-%d %H:%M}")),
        ]
    )
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escaped(title)}</title>\n<style>{stylesheet()}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def run_names(runs: Sequence[RecordedRun]) -> list[str]:
    """Return the shortest ends of the runs' paths that tell them apart."""
    paths = [run.path.absolute().parts for run in runs]
    longest = max(map(len, paths), default=1)
    for length in range(1, longest + 1):
        names = ["/".join(parts[-length:]) for parts in paths]
        if len(set(names)) == len(names):
            break
    return names


def _note(run: RecordedRun, name: str) -> Html:
    notes = "".join(element("li", escaped(note)) for note in run.notes)
    return f'<div class="note"><strong>{escaped(name)}</strong><ul>{notes}</ul></div>'


def _runs(runs: Sequence[RecordedRun], names: Sequence[str]) -> Html:
    rows = [
        [_of_run(i, len(runs)) + escaped(name), *map(escaped, _facts(run))]
        for i, (run, name) in enumerate(zip(runs, names, strict=True))
    ]
    headings = ("run", "state", "epochs", "started", "time", "device", "parameters", "seed")
    return table(headings, rows)


def _of_run(number: int, runs: int) -> Html:
    return _swatch(colour(number, "", runs)) if runs > 1 else ""


def _facts(run: RecordedRun) -> list[str]:
    started = run.state.started
    if started is None:
        return [run.status, *[""] * 6]
    return [
        run.status,
        f"{run.epochs_done} of {started.epochs}",
        _date(run.began),
        duration(run.seconds),
        started.device,
        f"{started.parameters:,}",
        str(started.seed),
    ]


def _date(time: float) -> str:
    try:
        return datetime.fromtimestamp(time).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return ""


def _settings(runs: Sequence[RecordedRun], names: Sequence[str]) -> Html:
    """A row for each setting: those in which the runs differ first, and marked."""
    known = dict.fromkeys(name for run in runs for name in run.settings)
    if not known:
        return ""
    varied = differing(list(runs))
    ordered = [*varied, *(name for name in known if name not in varied)]
    rows = [
        [escaped(name), *(escaped(str(run.settings.get(name, ""))) for run in runs)]
        for name in ordered
    ]
    marks = ["differs" if name in varied else "" for name in ordered]
    headings = ["setting", *(names if len(runs) > 1 else ["value"])]
    return _section("Settings", table(headings, rows, marks=marks))


def _curves(charts: Sequence[Chart], names: Sequence[str], draw: Draw) -> Html:
    if not charts:
        return _section("Curves", element("p", "No metric was read yet."))
    figures = "\n".join(
        element("figure", draw(chart, f"c{i}") + _left_out(chart))
        for i, chart in enumerate(charts[:CHARTS])
    )
    if len(charts) > CHARTS:
        figures += element("p", f"{len(charts) - CHARTS:,} more metrics have no chart here.")
    return _section("Curves", f'{_legend(charts, names)}<div class="charts">{figures}</div>')


def _legend(charts: Sequence[Chart], names: Sequence[str]) -> Html:
    splits = dict.fromkeys(curve.split for chart in charts for curve in chart.curves)
    if len(names) == 1:
        entries = [_swatch(colour(0, split, 1)) + escaped(split) for split in splits]
    else:
        entries = [
            _swatch(colour(i, "", len(names))) + escaped(name + dash(i)[1])
            for i, name in enumerate(names)
        ]
        entries.append("dashed: train" if len(splits) > 1 else escaped("".join(splits)))
    return '<p class="legend">' + "".join(element("span", entry) for entry in entries) + "</p>"


def _swatch(number: int) -> Html:
    return f'<i class="swatch s{number}"></i>'


def _left_out(chart: Chart) -> Html:
    if not chart.left_out:
        return ""
    points = "1 value" if chart.left_out == 1 else f"{chart.left_out:,} values"
    return element("figcaption", f"{points} not drawn: NaN or infinite")


def _results(runs: Sequence[RecordedRun], names: Sequence[str]) -> Html:
    """The best of each metric on each split, with its epoch, a column for each run."""
    keys = dict.fromkeys(
        (result.split, reading.name)
        for run in runs
        for result in run.history
        for reading in result.readings
    )
    if not keys:
        return ""
    rows = [[escaped(split), escaped(name), *_cells(runs, split, name)] for split, name in keys]
    explained = "The best value of all epochs @ its epoch; where none is better, the last one."
    content = element("p", explained) + table(["split", "metric", *names], rows)
    return _section("Best values", content)


def _cells(runs: Sequence[RecordedRun], split: str, name: str) -> list[Html]:
    found = [run.best(name, split) for run in runs]
    readings = [best[1] for best in found if best is not None]
    cells = []
    for best in found:
        if best is None:
            cells.append("")
            continue
        epoch, reading = best
        text = escaped(f"{reading.text} @ {epoch}" if reading.better else reading.text)
        leads = (
            len(readings) > 1
            and reading.better
            and not any(other.improves_on(reading.value) for other in readings)
        )
        cells.append(element("b", text) if leads else text)
    return cells


def _log(run: RecordedRun, name: str) -> Html:
    lines = list(run.state.log)[-LINES:]
    if not lines:
        return ""
    shown = "\n".join(f"{_date(line.time)}  {line.text}" for line in lines)
    summary = element("summary", escaped(f"Log of {name}"))
    return f"<details>{summary}{element('pre', escaped(shown))}</details>"


def _section(heading: str, content: Html) -> Html:
    return f"<section>{element('h2', escaped(heading))}{content}</section>"
