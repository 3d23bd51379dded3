"""``pyrite watch``: a run in a terminal, while it goes on or when it is over."""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from pyrite.errors import TrainError
from pyrite.train import PlainView, RunDirectory
from pyrite.train.view.terminal import problem
from pyrite.train.view.watch.lines import follow


def watch(
    run_dir: Annotated[Path, typer.Argument(help="Directory of a run, which may begin later.")],
    compare: Annotated[
        Path | None, typer.Option(help="Directory of a run to draw beside it.")
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Log lines instead of curves.")] = False,
) -> None:
    """Show a run: its curves, metrics, speed and log.  Nothing is changed; q leaves."""
    for path in filter(None, (run_dir, compare)):
        _require_folder(path)
    if compare is not None and not RunDirectory(compare).events.is_file():
        raise TrainError(
            f"watch --compare requires the directory of a run, got {str(compare)!r}, which holds "
            "no events.jsonl"
        )
    reason = None if plain else problem()
    if reason is None and not plain:
        screen = importlib.import_module("pyrite.train.view.watch.screen")  # needs the extra tui
        raise typer.Exit(screen.show(run_dir, compared=compare))
    if reason is not None:
        print(f"pyrite: log lines instead of the dashboard: {reason}", file=sys.stderr)
    if not follow(RunDirectory(run_dir).events, PlainView(), time.sleep):
        raise typer.Exit(1)


def _require_folder(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise TrainError(
            f"watch requires the directory of a run, got {str(path)!r}, which is no directory"
        )
