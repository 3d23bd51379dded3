"""Views: the same memory with other strides, where there are such strides."""

from __future__ import annotations

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.skeleton.copy import contiguous
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.op.index import IndexMap
from pyrite.types import TensorType, element_count


def strided(x: CubeTensor, index: IndexMap) -> CubeTensor | None:
    """Return what a map reads of a tensor as a view of its memory, None where strides cannot."""
    found = index.strides(x.strides)
    if found is None:
        return None
    strides, offset = found
    type = TensorType(index.shape, x.dtype)
    return CubeTensor(x.buffer, type, strides, x.offset + offset, x.doubt)


def read_view(launcher: Launcher, x: CubeTensor, index: IndexMap) -> CubeTensor | None:
    """Return the same, of a copy in row-major order if that helps and copies no more than is read.

    None where strides cannot say the map even then.
    """
    view = strided(x, index)
    if view is None and element_count(index.shape) == x.type.size and not x.is_contiguous:
        view = strided(contiguous(launcher, x), index)
    return view
