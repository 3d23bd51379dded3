"""The program: its commands, and how its errors are shown.

Invariant: what goes wrong on purpose is one line on standard error and exit status 1, never a
traceback, unless one is asked for; wrong usage is status 2; Ctrl-C is 130, as shells expect.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from pyrite._version import __version__
from pyrite.cli import cache, devices, doctor, new, onnx, predict, report, runs, train, watch
from pyrite.config import config
from pyrite.errors import PyriteError

app = typer.Typer(
    name="pyrite",
    help="Deep learning on any machine after one small install.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(train.app, name="train")
app.add_typer(onnx.app, name="onnx")
app.command("new")(new.new)
app.command("watch")(watch.watch)
app.command("runs")(runs.runs)
app.command("report")(report.report)
app.command("predict")(predict.predict)
app.command("cache")(cache.cache)
app.command("devices")(devices.devices)
app.command("doctor")(doctor.doctor)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"pyrite {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show where in Pyrite an error arose.")
    ] = False,
) -> None:
    if traceback:
        config.full_traceback = True


def main() -> None:
    """Run the command that the arguments name, and exit."""
    try:
        app()
    except PyriteError as error:
        if config.full_traceback:
            raise
        print(f"pyrite: {_on_one_line(error)}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("pyrite: aborted", file=sys.stderr)
        sys.exit(train.INTERRUPTED)


def _on_one_line(error: PyriteError) -> str:
    notes = getattr(error, "__notes__", [])
    return "; ".join(" ".join(str(part).split()) for part in (error, *notes))
