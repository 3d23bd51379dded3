"""Convolutions by windows of one element: all positions of an image as one axis.

Such a layer is a product at each position, wherever that is.  Rows of images are no multiples of
vectors, while all positions together mostly are; and images of all shapes share a kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Final

from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel.template.implicit_gemm import Windows

#: Images of fewer positions stay as they are: of 7 x 7 a product by rows takes 0.96 of the time.
_LEAST_POSITIONS: Final = 64


def with_one_axis(
    w: Windows, tensors: Sequence[CubeTensor]
) -> tuple[Windows, Sequence[CubeTensor]]:
    """Return a convolution and its tensors with one axis of positions, or as they are.

    They are returned as they are where windows have several elements, images are small, or strides
    do not allow it.
    """
    is_of_elements = prod(w.kernel_size) == 1 and not any(w.padding) and w.sizes == w.counts
    if len(w.sizes) == 1 or prod(w.sizes) < _LEAST_POSITIONS or not is_of_elements:
        return w, tensors
    views = [flat(t) for t in tensors]
    found = [t for t in views if t is not None]
    return (_flat_windows(w), found) if len(found) == len(tensors) else (w, tensors)


def _flat_windows(w: Windows) -> Windows:
    n = prod(w.sizes)
    return replace(
        w, sizes=(n,), counts=(n,), kernel_size=(1,), stride=(1,), padding=(0,), dilation=(1,)
    )


def flat(tensor: CubeTensor) -> CubeTensor | None:
    """Return (N, C, *S) as (N, C, S), or None where strides do not allow it."""
    return tensor.reshaped((*tensor.shape[:2], prod(tensor.shape[2:])))
