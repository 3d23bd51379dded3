"""``pyrite predict``: what a trained network sees in pictures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from pyrite.backend import Device
from pyrite.cli.digits import DigitNet, network_on
from pyrite.cli.picture import read_digit
from pyrite.cli.place import chosen
from pyrite.errors import DataError, TrainError
from pyrite.tensor.creation import tensor
from pyrite.train import RunDirectory


def predict(
    run_dir: Annotated[Path, typer.Argument(help="Directory of a finished run.")],
    images: Annotated[list[Path], typer.Argument(help="Pictures of one digit each.")],
    device: Annotated[
        str | None, typer.Option(help="Where to compute; see 'pyrite devices'.")
    ] = None,
) -> None:
    """Name the digit in each picture, with the probability of every class, the likeliest first."""
    place = chosen(device)
    model = _trained(RunDirectory(run_dir), place)
    failed = False
    for path in images:
        try:
            pixels = read_digit(path)
        except DataError as error:
            print(f"pyrite: {error}", file=sys.stderr)
            failed = True
            continue
        scores = model(tensor(pixels[None], device=place))
        print(_line(path, scores.softmax(axis=-1).numpy()[0].tolist()))
    if failed:
        raise typer.Exit(1)


def _trained(directory: RunDirectory, place: Device) -> DigitNet:
    arguments = directory.read_manifest().get("arguments")
    if not isinstance(arguments, dict) or arguments.get("task") != "digits":
        raise TrainError(
            f"predict requires a run of 'digits', got another in {str(directory.path)!r}"
        )
    if not directory.model.is_file():
        raise TrainError(
            f"predict requires a finished run, got {str(directory.path)!r} without "
            f"{directory.model.name}; finish: pyrite train digits --resume --out {directory.path}"
        )
    return network_on(place).load(directory.model)


def _line(path: Path, probabilities: list[float]) -> str:
    order = np.argsort(probabilities)[::-1].tolist()
    shares = "  ".join(f"{digit} {probabilities[digit]:.1%}" for digit in order)
    return f"{path}: {order[0]}    {shares}"
