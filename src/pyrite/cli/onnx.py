"""``pyrite onnx``: what a model of ONNX holds, whether it loads, its outputs, and its Python."""

from __future__ import annotations

import re
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from PIL import Image, UnidentifiedImageError
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pyrite.errors import DataError, ModelImportError
from pyrite.record import atomic_write
from pyrite.train.view.legible import legible
from pyrite.types import Array

app = typer.Typer(name="onnx", help="Look at models of ONNX, and run them.", no_args_is_help=True)

Model = Annotated[Path, typer.Argument(help="The model, a .onnx file.")]
DeviceName = Annotated[str | None, typer.Option(help="Where to compute; see 'pyrite devices'.")]


def _package() -> Any:
    """Return `pyrite.onnx`.  Raises ModelImportError where its extra is missing."""
    try:
        return import_module("pyrite.onnx")
    except ImportError as error:
        raise ModelImportError(
            f"onnx requires its extra, got: {error}; pip install 'pyrite[onnx]'"
        ) from error


@app.command("check")
def check(model: Model) -> None:
    """Say whether a model can be loaded; if not, name all that is not supported."""
    try:
        found = _package().load(model, device="numpy")
    except ModelImportError as error:
        if not error.problems:
            raise
        for problem in error.problems:
            print(legible(problem))
        raise typer.Exit(1) from None
    print(f"{legible(str(model))}: {found.num_params():,} parameters, {_ops_of(found)}")


@app.command("show")
def show(model: Model) -> None:
    """Show a model as a tree, with its inputs, outputs, ops and shapes."""
    found = _package().load(model, device="numpy")
    console = Console(highlight=False)
    console.print(Text(legible_lines(repr(found))), soft_wrap=True)
    console.print(_values("input", found.inputs))
    console.print(_values("output", found.outputs))
    table = Table("op", "nodes", box=None)
    for op, count in _counted(found).most_common():
        table.add_row(Text(legible(op)), str(count))
    console.print(table)


@app.command("run")
def run(
    model: Model,
    inputs: Annotated[
        list[str],
        typer.Option(
            "--input", help="A .npy file or a picture; NAME=FILE where there are several."
        ),
    ],
    device: DeviceName = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write each output as .npy.")
    ] = None,
) -> None:
    """Run a model on arrays or pictures, and show or write its outputs."""
    found = _package().load(model, device=device)
    made = found(**_arguments(found, inputs))
    values = [made] if len(found.outputs) == 1 else list(made)
    for name, value in zip(found.outputs, values, strict=True):
        array = value.numpy()
        print(f"{legible(name)}: {array.dtype}{list(array.shape)}")
        if out is None:
            print(np.array2string(array, threshold=20, precision=5))
        else:
            _write(out / f"{_file_name(name)}.npy", array)


@app.command("to-python")
def to_python(
    model: Model,
    out_dir: Annotated[Path, typer.Argument(help="Where model.py and its weights are written.")],
    force: Annotated[
        bool, typer.Option("--force", help="Replace these files in a folder that is not empty.")
    ] = False,
) -> None:
    """Write a model as Python: model.py, which a reader can change, and model.safetensors."""
    try:
        path = _package().to_python(model, out_dir, force=force)
    except ModelImportError as error:
        if not error.problems:
            raise
        for problem in error.problems:
            print(legible(problem))
        raise typer.Exit(1) from None
    lines = len(path.read_text().splitlines())
    print(f"wrote {legible(str(path))}: {lines} lines, and model.safetensors")


def legible_lines(text: str) -> str:
    """Return text of a file without what would steer a terminal, line by line."""
    return "\n".join(legible(line) for line in text.split("\n"))


def _counted(model: Any) -> Counter[str]:
    return Counter(node.op for _, node in model.graph.walk())


def _ops_of(model: Any) -> str:
    counts = _counted(model)
    return f"{counts.total()} nodes of {len(counts)} ops"


def _values(kind: str, values: Any) -> Table:
    table = Table(kind, "type", box=None)
    for name, of in values.items():
        table.add_row(Text(legible(name)), Text(legible(str(of))))
    return table


def _arguments(model: Any, inputs: list[str]) -> dict[str, Array]:
    """Return arrays by the names of inputs: those named, and the others in order."""
    names = list(model.inputs)
    given: dict[str, Array] = {}
    for text in inputs:
        name, equals, path = text.partition("=")
        if not equals or name not in names:
            name, path = next((n for n in names if n not in given), names[-1]), text
        given[name] = _read(Path(path), model.inputs[name])
    return given


def _read(path: Path, of: Any) -> Array:
    """Return an array of a file, or a picture in the shape that an input has."""
    try:
        if path.suffix == ".npy":
            return np.asarray(np.load(path, allow_pickle=False))
        with Image.open(path) as picture:
            return _pixels(picture, of)
    # NumPy raises EOFError for an empty .npy file, and MemoryError for one that claims to be huge.
    except (OSError, ValueError, EOFError, MemoryError, UnidentifiedImageError) as error:
        raise DataError(
            f"run requires a .npy file or a picture, got {str(path)!r}: {error}"
        ) from None


def _pixels(picture: Any, of: Any) -> Array:
    """Return a picture as (1, channels, height, width), from 0 to 1."""
    channels, *sizes = [s if isinstance(s, int) else None for s in (of.shape or ())[1:]] or [3]
    grey = picture.convert("L" if channels == 1 else "RGB")
    if len(sizes) == 2 and all(sizes):
        grey = grey.resize((sizes[1], sizes[0]))
    array = np.asarray(grey, np.float32) / 255
    array = array[None] if array.ndim == 2 else array.transpose(2, 0, 1)
    found: Array = array[None].astype(of.element.carrier.numpy)
    return found


def _file_name(name: str) -> str:
    return re.sub(r"[^0-9A-Za-z_.-]+", "_", name).strip("._") or "output"


def _write(path: Path, array: Array) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            np.save(file, array)
    except OSError as error:
        raise DataError(f"run requires a folder that can be written, got {error}") from None
    print(f"wrote {legible(str(path))}", file=sys.stderr)
