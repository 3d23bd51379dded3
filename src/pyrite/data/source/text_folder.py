"""Texts in folders, one folder per class: root/sport/1.txt has label 0, root/weather/1.txt 1."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import NamedTuple

from pyrite.data.dataset import Dataset, checked_index
from pyrite.errors import DataError
from pyrite.opening import open_file, reader


class Text(NamedTuple):
    """text: the whole file; label: the number of its class, from 0."""

    text: str
    label: int


class TextFolderDataset(Dataset[Text]):
    """The .txt files below root, labelled by the first folder below root in the order of names.

    Files are listed now, and read (UTF-8) each time that an item is.

    Raises DataError if root is no folder, has none in it, or a class has no text.
    """

    def __init__(self, root: str | PathLike[str], *, extension: str = ".txt") -> None:
        self.root = Path(root)
        try:
            folders = sorted(path for path in self.root.iterdir() if path.is_dir())
        except OSError as error:
            raise DataError(
                f"text folder requires a folder, got {root}: {error.strerror}"
            ) from error
        if not folders:
            raise DataError(f"text folder requires one folder per class, got none in {root}")
        self.classes = tuple(folder.name for folder in folders)
        self.files = tuple(
            (path, label)
            for label, folder in enumerate(folders)
            for path in _texts(folder, extension)
        )

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int, /) -> Text:
        path, label = self.files[checked_index(index, len(self))]
        return Text(read_text(path), label)


@reader("text", DataError)
def read_text(path: str | PathLike[str]) -> str:
    """Return a UTF-8 file's text.  Raises DataError if it cannot be read or is no UTF-8."""
    try:
        with open_file(path) as file:
            return file.read().decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"text requires a readable file, got {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"text requires UTF-8, got {error.reason} in {path}") from error


def _texts(folder: Path, extension: str) -> list[Path]:
    found = (path for path in folder.rglob("*") if path.suffix.lower() == extension)
    texts = sorted(path for path in found if path.is_file())
    if not texts:
        raise DataError(f"text folder requires {extension} files of every class: {folder}")
    return texts
