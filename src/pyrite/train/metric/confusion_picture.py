"""A picture of a confusion matrix: a row for each right class, shaded by its shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import PIL.Image
from numpy.typing import NDArray
from PIL import ImageDraw, ImageFont

from pyrite.train.metric.metric import ratio

#: Pixels of the matrix, at most; of a cell, at most; and the least that has room for a number.
SIDE, CELL, READABLE = 400, 44, 26
#: Pixels to the left for the names of classes, and below for those of the columns.
LEFT, BELOW = 88, 24
INK, PAPER, DEEP = (32, 33, 36), (255, 255, 255), (21, 83, 158)


def confusion_picture(counts: NDArray[Any], names: Sequence[str]) -> NDArray[np.uint8]:
    """Return a picture (3, H, W) of counts (right class, predicted class).

    If the classes are too many to be read, there are shades alone.
    """
    classes = len(counts)
    cell = max(1, min(CELL, SIDE // classes))
    shares = ratio(counts, counts.sum(axis=1, keepdims=True))
    shades = np.asarray(PAPER) + shares[..., None] * (np.asarray(DEEP) - PAPER)
    matrix = np.repeat(np.repeat(shades.round().astype(np.uint8), cell, axis=0), cell, axis=1)
    if cell < READABLE:
        return np.moveaxis(matrix, -1, 0)
    side = classes * cell
    image = PIL.Image.new("RGB", (LEFT + side, side + BELOW), PAPER)
    image.paste(PIL.Image.fromarray(matrix), (LEFT, 0))
    _write(ImageDraw.Draw(image), counts, shares, names, cell)
    return np.moveaxis(np.asarray(image), -1, 0)


def _write(draw: Any, counts: NDArray[Any], shares: Any, names: Sequence[str], cell: int) -> None:
    font, half, side = ImageFont.load_default(11), cell // 2, len(counts) * cell
    draw.rectangle((LEFT, 0, LEFT + side - 1, side - 1), outline=INK)
    for i, name in enumerate(names):
        middle = i * cell + half
        draw.text((LEFT - 6, middle), _short(name, 13), INK, font, anchor="rm")
        draw.text((LEFT + middle, side + 12), _short(name, cell // 7), INK, font, anchor="mm")
        for j in range(len(names)):
            ink = PAPER if shares[i, j] > 0.5 else INK
            place = (LEFT + j * cell + half, middle)
            draw.text(place, _number(counts[i, j]), ink, font, anchor="mm")


def _short(name: str, length: int) -> str:
    shown = "".join(character if character.isprintable() else "?" for character in name)
    return shown if len(shown) <= length else f"{shown[: length - 1]}…"


def _number(count: int) -> str:
    """The count in at most four characters."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size and count >= 10_000:
            return f"{count / size:.0f}{unit}"
    return str(count)
