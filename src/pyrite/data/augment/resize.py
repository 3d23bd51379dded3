"""Images at another size: by the triangle filter of Pillow, and masks by their nearest element."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray


def resize(pixels: NDArray[Any], size: tuple[int, int]) -> NDArray[Any]:
    """Return pixels at another size: (C, H, W) -> (C, H', W'), in the dtype of pixels.

    Bilinear where it grows; where it shrinks each element is a mean with a triangle over all that
    it covers, as Pillow's BILINEAR and torchvision's antialias=True.
    """
    work = pixels if pixels.dtype.kind == "f" else pixels.astype(np.float32)
    kept = work.dtype if work.dtype.itemsize >= 4 else np.dtype(np.float32)
    rows, columns = (
        triangle_weights(old, new).astype(kept)
        for old, new in zip(pixels.shape[-2:], size, strict=True)
    )
    result = np.matmul(np.matmul(rows, work.astype(kept, copy=False)), columns.T)
    if pixels.dtype.kind != "f":
        result = np.clip(np.rint(result), 0, np.iinfo(pixels.dtype).max)
    return result.astype(pixels.dtype, copy=False)


def nearest(mask: NDArray[Any], size: tuple[int, int]) -> NDArray[Any]:
    """Return the elements of mask whose centres are nearest: (H, W) -> (H', W')."""
    rows, columns = (
        (np.arange(new) * 2 + 1) * old // (2 * new)
        for old, new in zip(mask.shape, size, strict=True)
    )
    return mask[rows[:, None], columns]


@lru_cache(64)
def triangle_weights(old: int, new: int) -> NDArray[np.float64]:
    """Return the share of each old element in each new one: float64 (new, old), rows sum to 1."""
    scale = old / new
    reach = max(scale, 1.0)
    centres = (np.arange(new) + 0.5) * scale - 0.5
    weights = np.maximum(0, 1 - np.abs(np.arange(old) - centres[:, None]) / reach)
    shares: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
    shares.setflags(write=False)
    return shares
