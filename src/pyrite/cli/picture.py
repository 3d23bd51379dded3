"""A picture of a digit, as the network has seen digits: 8 × 8, white on black, filling the height.

People hand over scans, drawings and screenshots of any size, colour and margin, dark on light or
light on dark, with alpha or without.  The training images were made from 32 × 32 bitmaps of the
digit's bounding box by counting ink in 4 × 4 blocks; so is this.
Source: E. Alpaydin & C. Kaynak 1998, UCI repository, doi:10.24432/C50P49.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from pyrite.data.source.image_folder import read_image
from pyrite.errors import DataError

SIZE = 8
#: The least contrast between ink and paper, of 1: below it there is nothing to see.
LEAST_CONTRAST = 0.1
#: Fraction of the darkest ink from which a pixel belongs to the digit: above noise, below blur.
INK = 0.1

Pixels = NDArray[np.float32]


def read_digit(path: Path) -> Pixels:
    """Return the digit in an image file: float32 (1, 8, 8), ink 1, paper 0.

    Raises DataError when the file is not an image, or shows nothing.
    """
    ink = _ink(_grey(read_image(path, channels=4)))
    if ink is None:
        raise DataError(
            f"predict requires a picture of a digit, got {path}, which is of one colour"
        )
    return _fitted(_cropped(ink))[None]


def _grey(rgba: Pixels) -> Pixels:
    """Luminance (H, W), on paper of the colour that contrasts with what is drawn."""
    red, green, blue, alpha = rgba
    luminance: Pixels = 0.299 * red + 0.587 * green + 0.114 * blue
    if alpha.min() == 1:
        return luminance
    drawn = float((luminance * alpha).sum() / max(alpha.sum(), 1e-6))
    paper = 0.0 if drawn > 0.5 else 1.0
    composed: Pixels = luminance * alpha + paper * (1 - alpha)
    return composed


def _ink(grey: Pixels) -> Pixels | None:
    """How far each pixel is from the paper, scaled to 0 to 1; None without contrast.

    The paper is what most of the edge of the picture shows.
    """
    edge = np.concatenate([grey[0], grey[-1], grey[:, 0], grey[:, -1]])
    ink = np.abs(grey - np.median(edge))
    darkest = float(ink.max())
    return ink / darkest if darkest >= LEAST_CONTRAST else None


def _cropped(ink: Pixels) -> Pixels:
    """The bounding box of the digit."""
    rows = np.flatnonzero((ink >= INK).any(axis=1))
    columns = np.flatnonzero((ink >= INK).any(axis=0))
    return ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def _fitted(ink: Pixels) -> Pixels:
    """The digit, its longer side filling the square and centred in it, averaged to 8 × 8."""
    height, width = ink.shape
    side = max(height, width)
    square = np.zeros((side, side), np.float32)
    top, left = (side - height) // 2, (side - width) // 2
    square[top : top + height, left : left + width] = ink
    image = PIL.Image.fromarray(square)
    small = image.resize((SIZE, SIZE), PIL.Image.Resampling.BOX)
    return np.clip(np.asarray(small, np.float32), 0, 1)
