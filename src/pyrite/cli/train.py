"""``pyrite train``: train one of the examples, and keep the run in a directory."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from pyrite.cli.digits import Digits, Settings
from pyrite.cli.place import chosen
from pyrite.errors import TrainError
from pyrite.train import (
    Dashboard,
    History,
    PlainView,
    Reading,
    Result,
    RunDirectory,
    SplitResult,
    View,
    summary_text,
)
from pyrite.train.view.progress import ProgressView
from pyrite.train.view.terminal import is_dumb
from pyrite.train.view.terminal import problem as terminal_problem

INTERRUPTED = 130
"""The exit status after Ctrl-C: 128 and the number of the signal, as of shells."""

app = typer.Typer(help="Train an example.", no_args_is_help=True)


@app.callback()
def _examples() -> None:
    """Make ``digits`` a command of its own, though it is the only one."""


@app.command("digits")
def train_digits(
    epochs: Annotated[
        int | None, typer.Option(min=1, help=f"Passes over the data.  [{Settings.epochs}]")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help=f"Images per step.  [{Settings.batch_size}]")
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(
            "--lr", min=0, help=f"The first rate; it falls to 0.  [{Settings.learning_rate}]"
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=2**64 - 1, help=f"One seed gives the same run.  [{Settings.seed}]"),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Where to compute; see 'pyrite devices'.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Directory of the run.")] = Path("runs/digits"),
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Delete the run that --out holds.")
    ] = False,
    plain: Annotated[
        bool, typer.Option("--plain", help="Log lines instead of the dashboard.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Only one line of JSON on standard output.")
    ] = False,
) -> None:
    """Train a small convolutional network on real handwritten digits."""
    given = {
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "seed": seed,
    }
    if resume and overwrite:
        raise typer.BadParameter("--resume and --overwrite exclude each other")
    place = chosen(device)
    directory = RunDirectory(out)
    settings = _resumed(directory, given) if resume else _new(directory, given, overwrite)
    run = Digits.of(settings, place, out, [_view(plain, as_json)])
    result = run.learner.fit(run.train, run.valid, epochs=settings.epochs, resume=resume)
    if result.outcome == "interrupted":
        print(f"continue it with: {_resume_command(out)}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED)
    tested = run.learner.evaluate(run.test)
    history = result.history.with_results([SplitResult(settings.epochs, "test", tested, 0.0)])
    if as_json:
        print(json.dumps(_report(place.name, settings, result, history)))
    else:
        print(f"\n{summary_text(history)}\n\n{_how_to_use(out)}")


def _new(directory: RunDirectory, given: dict[str, Any], overwrite: bool) -> Settings:
    if directory.holds_run() and not overwrite:
        raise TrainError(
            f"train requires a directory without a run, got {str(directory.path)!r}; continue it "
            "with --resume, delete it with --overwrite, or name another with --out"
        )
    directory.clear()
    return Settings(**{name: value for name, value in given.items() if value is not None})


def _resumed(directory: RunDirectory, given: dict[str, Any]) -> Settings:
    """The settings with which the run began: with others it would not be the same run."""
    recorded = directory.read_manifest().get("arguments")
    if not isinstance(recorded, dict) or recorded.get("task") != "digits":
        raise TrainError(
            f"train digits --resume requires a run of 'digits', got another in "
            f"{str(directory.path)!r}; name its directory with --out"
        )
    for name, value in given.items():
        if value is not None and value != recorded.get(name):
            raise TrainError(
                f"--resume requires the settings with which the run began, got {name}={value} "
                f"instead of {recorded.get(name)}; leave it out, or begin another run"
            )
    try:
        return Settings(**{field.name: recorded[field.name] for field in fields(Settings)})
    except KeyError as error:
        raise TrainError(
            f"--resume requires all settings in run.json, got none for {error}; begin another run"
        ) from error


def _view(plain: bool, as_json: bool) -> View:
    if as_json:
        return PlainView(sys.stderr)
    if plain or not sys.stdout.isatty() or is_dumb():
        return PlainView()
    if terminal_problem() is None:
        return Dashboard()
    return ProgressView(transient=True)  # the summary says the same, better


def _report(device: str, settings: Settings, result: Result[Any], history: History) -> Any:
    return {
        "device": device,
        "seed": settings.seed,
        "epochs": result.history.results[-1].epoch,
        "outcome": result.outcome,
        "parameters": result.model.num_params(),
        "metrics": {
            split: _numbers([r for r in history if r.split == split][-1].readings)
            for split in history.splits()
        },
        "seconds": round(result.seconds, 3),
        "steps_per_second": round(result.steps / result.seconds, 3),
    }


def _numbers(readings: tuple[Reading, ...]) -> dict[str, float | None]:
    """Values by name; null for what JSON has no number for."""
    return {r.name.lower(): r.value if math.isfinite(r.value) else None for r in readings}


def _resume_command(out: Path) -> str:
    return f"pyrite train digits --out {out} --resume"


def _how_to_use(out: Path) -> str:
    return (
        f"weights       {out / 'model.safetensors'}\n"
        f"curves        pyrite watch {out}\n"
        f"name a digit  pyrite predict {out} IMAGE.png\n"
        f"from Python   DigitNet().load({str(out / 'model.safetensors')!r}), from pyrite.cli.digits"
    )
