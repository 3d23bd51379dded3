"""``pyrite new``: begin a project, which trains as it is."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Final

import typer

from pyrite.errors import TrainError

#: The files of a project, in the order in which they are read, with what they hold.
FILES: Final = {
    "data.py": "the examples",
    "model.py": "the network",
    "train.py": "one training",
    "test_project.py": "what must hold before a long training",
    "README.md": "what to run, and what to change",
    ".gitignore": "runs",
}


def new(
    name: Annotated[Path, typer.Argument(metavar="NAME", help="The folder, which must not exist.")],
) -> None:
    """Begin a project: data, model, training and tests, which run as they are."""
    _make(name)
    for file, text in _texts(name.resolve().name):
        (name / file).write_text(text, encoding="utf-8")
    print(_told(name))


def _make(folder: Path) -> None:
    try:
        folder.mkdir()
    except FileExistsError:
        raise TrainError(
            f"new requires a folder that does not exist, got {str(folder)!r}; name another"
        ) from None
    except OSError as error:
        raise TrainError(
            f"new requires a folder that can be made, got {str(folder)!r}: {error.strerror}"
        ) from error


def _texts(name: str) -> Iterator[tuple[str, str]]:
    # Texts, not modules: what is in a project is neither Pyrite's nor imported by it.
    folder = files("pyrite.cli") / "project"
    for file in FILES:
        text = (folder / f"{file.removeprefix('.')}.txt").read_text(encoding="utf-8")
        yield file, text.replace("{name}", name)


def _told(folder: Path) -> str:
    width = max(map(len, FILES))
    made = "\n".join(f"  {file:{width}}  {holds}" for file, holds in FILES.items())
    place = f'"{folder}"' if " " in str(folder) else str(folder)
    return f"{folder}\n{made}\n\ncd {place}\npython train.py"
