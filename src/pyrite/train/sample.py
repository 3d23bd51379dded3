"""Samples: images, texts and tables that show what a model does, beside the numbers of metrics.

    Sample
    ├── ImageSample     a PNG file in the run's folder ``samples``, which an event names
    ├── TextSample      a text, in the event itself
    └── TableSample     columns and rows, in the event itself

Invariant: a sample is small, whoever made it: what is too long is cut, and says so.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from pyrite.errors import ShapeError
from pyrite.tensor.tensor import Tensor

#: The longest side of an image, in pixels; larger ones are reduced.
IMAGE_SIDE = 512
#: Characters of a text, of a name or caption, and of a cell.
TEXT_LENGTH, NAME_LENGTH, CELL_LENGTH = 4000, 200, 60
#: The most rows and columns of a table.
ROWS, COLUMNS = 50, 16

Cell = str | int | float | None
"""What a table holds; None is an empty cell."""

_FILE = re.compile(r"[0-9a-f]{24}\.png")


@dataclass(frozen=True)
class TextSample:
    """A text: what a model said, or was told."""

    name: str
    text: str

    def __post_init__(self) -> None:
        _set(self, name=_cut(self.name, NAME_LENGTH), text=_cut(self.text, TEXT_LENGTH))


@dataclass(frozen=True)
class TableSample:
    """Rows of cells under the names of columns: a row that is too short ends in empty cells.

    >>> TableSample("worst", ["word", "said"], [["cat", "hat"]]).rows
    (('cat', 'hat'),)
    """

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def __post_init__(self) -> None:
        columns = tuple(_cut(str(column), CELL_LENGTH) for column in self.columns[:COLUMNS])
        empty = (None,) * len(columns)
        rows = tuple(tuple(map(_cell, (*row, *empty)[: len(columns)])) for row in self.rows[:ROWS])
        left_out = len(self.rows) - len(rows)
        name = self.name if not left_out else f"{self.name} ({left_out} more rows)"
        _set(self, name=_cut(name, NAME_LENGTH), columns=columns, rows=rows)


@dataclass(frozen=True)
class ImageSample:
    """An image.  Make it by `of`; read from a file of events it has no bytes, but names their file.

    file: in the folder ``samples`` of the run, named by what it holds.
    """

    name: str
    file: str
    width: int
    height: int
    caption: str = ""
    png: bytes = field(default=b"", repr=False, compare=False)

    def __post_init__(self) -> None:
        if not is_image_file(self.file):
            raise ValueError(f"no name of an image sample's file: {self.file!r}")
        if not all(type(n) is int and 0 < n <= IMAGE_SIDE for n in (self.width, self.height)):
            raise ValueError(f"no size of an image sample: {self.width!r} x {self.height!r}")
        name, caption = _cut(self.name, NAME_LENGTH), _cut(self.caption, NAME_LENGTH)
        _set(self, name=name, caption=caption)

    @classmethod
    def of(cls, name: str, pixels: Tensor | NDArray[Any], caption: str = "") -> ImageSample:
        """Return the image of pixels (H, W) or (C, H, W), C = 1, 3 or 4.

        Floats are from 0, black, to 1; integers from 0 to 255; beyond they are cut off, and what is
        no number is black.  Of a tensor this waits for the device.
        """
        image = PIL.Image.fromarray(_bytes(name, _read(pixels)))
        image.thumbnail((IMAGE_SIDE, IMAGE_SIDE), PIL.Image.Resampling.BOX)
        stream = io.BytesIO()
        image.save(stream, "PNG")
        png = stream.getvalue()
        file = f"{hashlib.sha256(png).hexdigest()[:24]}.png"
        return cls(name, file, image.width, image.height, caption, png)


def is_image_file(name: str) -> bool:
    """Whether a file may be one of ours: no path, and no name that people give."""
    return _FILE.fullmatch(name) is not None


Sample = ImageSample | TextSample | TableSample


# ---- as JSON, and back ----


def sample_to_json(sample: Sample) -> dict[str, Any]:
    """Return a sample as JSON values, an image without its bytes."""
    match sample:
        case TextSample(name, text):
            return {"kind": "text", "name": name, "text": text}
        case TableSample(name, columns, rows):
            cells = [[_spelled(cell) for cell in row] for row in rows]
            return {"kind": "table", "name": name, "columns": list(columns), "rows": cells}
        case ImageSample(name, file, width, height, caption):
            return {
                "kind": "image", "name": name, "file": file, "width": width, "height": height,
                "caption": caption,
            }  # fmt: skip


def sample_from_json(told: Mapping[str, Any]) -> Sample:
    """Return the sample that ``sample_to_json`` told.  Raises TypeError, ValueError or KeyError."""
    if told["kind"] == "text":
        return TextSample(_text(told["name"]), _text(told["text"]))
    if told["kind"] == "table":
        columns, rows = [_text(name) for name in told["columns"]], told["rows"]
        return TableSample(_text(told["name"]), columns, [list(_row(row)) for row in rows])
    if told["kind"] == "image":
        size = told["width"], told["height"]
        return ImageSample(_text(told["name"]), _text(told["file"]), *size, _text(told["caption"]))
    raise ValueError(told["kind"])


def _text(told: Any) -> str:
    if not isinstance(told, str):
        raise TypeError(told)
    return told


def _row(told: Any) -> Iterable[Cell]:
    if not isinstance(told, list):
        raise TypeError(told)
    for cell in told:
        if not isinstance(cell, str | int | float | None):
            raise TypeError(cell)
        yield cell


def _spelled(cell: Cell) -> Cell:
    """The cell, as a string where JSON has no number for it."""
    return str(cell) if isinstance(cell, float) and not math.isfinite(cell) else cell


# ---- within bounds ----


def _set(sample: Any, **fields: Any) -> None:
    for name, value in fields.items():
        object.__setattr__(sample, name, value)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _cell(cell: Any) -> Cell:
    if isinstance(cell, np.generic):
        cell = cell.item()
    if cell is None or isinstance(cell, float):
        return cell
    if isinstance(cell, int):
        return cell if abs(cell) < 2**63 else float(cell)
    return _cut(str(cell), CELL_LENGTH)


def _read(pixels: Tensor | NDArray[Any]) -> NDArray[Any]:
    return pixels.numpy() if isinstance(pixels, Tensor) else np.asarray(pixels)


def _bytes(name: str, pixels: NDArray[Any]) -> NDArray[np.uint8]:
    """Pixels as Pillow takes them: (H, W) or (H, W, C)."""
    if pixels.ndim == 3 and pixels.shape[0] in (1, 3, 4):
        pixels = pixels[0] if pixels.shape[0] == 1 else np.moveaxis(pixels, 0, -1)
    elif pixels.ndim != 2:
        raise ShapeError(
            f"ImageSample requires pixels (H, W) or (C, H, W) with C = 1, 3 or 4, got "
            f"{pixels.shape} for {name!r}"
        )
    if 0 in pixels.shape:
        raise ShapeError(f"ImageSample requires at least one pixel, got {pixels.shape}")
    if pixels.dtype == np.bool_:
        pixels = pixels * 255
    elif pixels.dtype.kind not in "iu":
        scaled = np.nan_to_num(pixels.astype(np.float32), posinf=1, neginf=0) * 255
        pixels = np.rint(np.clip(scaled, 0, 255))
    return np.ascontiguousarray(np.clip(pixels, 0, 255).astype(np.uint8))
