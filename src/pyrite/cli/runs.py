"""``pyrite runs``: the runs of a folder in a table, to sort, choose and compare."""

from __future__ import annotations

import json
import math
import operator
import re
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from pyrite.cli.run_table import print_runs, reading_of
from pyrite.errors import TrainError
from pyrite.train.report.run import RecordedRun, find_runs, read_run
from pyrite.train.view.legible import legible

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le, ">=": operator.ge, "!=": operator.ne, "=": operator.eq, "<": operator.lt,
    ">": operator.gt,
}  # fmt: skip
_FIELDS: dict[str, Callable[[RecordedRun], Any]] = {
    "run": lambda run: str(run.path),
    "state": lambda run: run.status,
    "epochs": lambda run: run.epochs_done,
    "started": lambda run: run.began,
    "time": lambda run: run.seconds,
    "device": lambda run: run.state.started.device if run.state.started else None,
}


def runs(
    places: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[DIR]...", help="Runs, or folders in which they lie.  [runs]"),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(
            help="A metric (the best first), a setting, or "
            f"{', '.join(_FIELDS)}; otherwise the latest first."
        ),
    ] = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="The other way round.")] = False,
    where: Annotated[
        list[str] | None,
        typer.Option(help="Only these: 'Accuracy>90%', 'learning_rate<=0.01', 'state=completed'."),
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="A column: 'Loss', or 'train Loss' of that split.")
    ] = None,
    settings: Annotated[
        bool, typer.Option("--settings", help="Columns of the settings in which runs differ.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON.")] = False,
) -> None:
    """List runs: how far they are, how they ended, and the best value of each metric."""
    found = [read_run(path, steps=False) for path in _folders(places or [Path("runs")])]
    kept = [run for run in found if all(_holds(run, condition) for condition in where or [])]
    kept = _sorted(kept, sort, reverse=reverse)
    if as_json:
        print(json.dumps([_as_json(run) for run in kept], allow_nan=False))
        return
    print_runs(kept, metric, settings=settings)
    if len(kept) < len(found):
        print(f"{len(found) - len(kept)} of {len(found)} left out by --where", file=sys.stderr)
    for name in dict.fromkeys(_parts(condition)[0] for condition in where or []):
        if all(_value(run, name) is None for run in found):
            print(f"no run knows {name!r}; they know {_known(found)}", file=sys.stderr)


def _folders(places: Sequence[Path]) -> list[Path]:
    folders: dict[Path, None] = {}
    for place in places:
        if not place.is_dir():
            raise TrainError(f"runs requires folders, got {str(place)!r}; name where runs lie")
        below = list(find_runs(place))
        if not below:
            raise TrainError(
                f"runs requires folders with runs, got {str(place)!r}, which has none; "
                "Learner(directory=...) and 'pyrite train' write them"
            )
        folders.update(dict.fromkeys(below))
    return list(folders)


# ---- values by name, for columns, order and conditions ----


def _value(run: RecordedRun, name: str) -> Any:
    """A number or a text; None where the run knows nothing of it."""
    reading = reading_of(run, name)
    if reading is not None:
        return reading.value
    if name in run.settings:
        return run.settings[name]
    return _FIELDS[name](run) if name in _FIELDS else None


def _holds(run: RecordedRun, condition: str) -> bool:
    name, sign, wanted = _parts(condition)
    value = _value(run, name)
    if value is None:
        return sign == "!="
    number = _number(wanted)
    if isinstance(value, str) or number is None:
        return _OPERATORS[sign](str(value), wanted)
    return _OPERATORS[sign](value, number)


def _parts(condition: str) -> tuple[str, str, str]:
    """The name, the sign and what it is compared with."""
    parts = re.fullmatch(r"\s*(.+?)\s*(<=|>=|!=|=|<|>)\s*(.+?)\s*", condition)
    if parts is None:
        raise typer.BadParameter(f"--where requires NAME<VALUE or the like, got {condition!r}")
    name, sign, wanted = parts.groups()
    return name, sign, wanted


def _known(runs: Sequence[RecordedRun]) -> str:
    """Return the names to choose and to sort by, for an error about one that is none."""
    names = (name for run in runs for name in (*run.metrics(), *run.settings, *_FIELDS))
    return ", ".join(dict.fromkeys(map(legible, names)))


def _number(text: str) -> float | None:
    try:
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        return None


def _sorted(runs: list[RecordedRun], key: str | None, *, reverse: bool) -> list[RecordedRun]:
    """The best or the latest first; those that know nothing of the key come last."""
    name = key or "started"
    missing = [_is_missing(_value(run, name)) for run in runs]
    known = [run for run, lacks in zip(runs, missing, strict=True) if not lacks]
    if key is not None and runs and not known:
        raise typer.BadParameter(f"--sort requires one of {_known(runs)}, got {key!r}")
    readings = [reading for run in known if (reading := reading_of(run, name)) is not None]
    falls = bool(readings and readings[0].better == "higher") or name == "started"
    texts = any(isinstance(_value(run, name), str) for run in known)
    known.sort(
        key=lambda run: str(_value(run, name)) if texts else _value(run, name),
        reverse=falls != reverse,
    )
    return known + [run for run, lacks in zip(runs, missing, strict=True) if lacks]


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


# ---- as JSON ----


def _as_json(run: RecordedRun) -> dict[str, Any]:
    started = run.state.started
    return {
        "run": str(run.path),
        "state": run.status,
        "started": _iso(run.began),
        "seconds": _finite(run.seconds),
        "device": started.device if started else None,
        "epochs": started.epochs if started else None,
        "epochs_done": run.epochs_done,
        "settings": {name: _finite(value) for name, value in run.settings.items()},
        "metrics": {
            split: {name: _metric(run, split, name) for name in run.metrics()
                    if run.history.readings(name, split)}
            for split in run.history.splits()
        },
        "notes": list(run.notes),
    }  # fmt: skip


def _metric(run: RecordedRun, split: str, name: str) -> dict[str, Any]:
    _, last = run.history.readings(name, split)[-1]
    best = run.best(name, split)
    return {
        "best": _finite(best[1].value) if best and last.better else None,
        "epoch": best[0] if best and last.better else None,
        "last": _finite(last.value),
        "unit": last.unit,
    }


def _iso(time: float) -> str | None:
    try:
        return datetime.fromtimestamp(time, UTC).isoformat(timespec="seconds") if time else None
    except (ValueError, OverflowError, OSError):
        return None


def _finite(value: Any) -> Any:
    """None for what JSON has no number for."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
