"""Tensors as rows, and their layouts in kernels that read neighbours of a row together."""

from __future__ import annotations

from collections.abc import Sequence

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.operand import Layout, layout_of, word_of
from pyrite.backend.cube.skeleton.copy import contiguous
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel.machine import Machine
from pyrite.types import Shape, element_count


def as_rows(launcher: Launcher, x: CubeTensor, axes: Sequence[int]) -> CubeTensor:
    """Return a tensor as (rows, length): the given axes in order are a row, without gaps."""
    rest = tuple(a for a in range(len(x.shape)) if a not in axes)
    moved = x.permuted((*rest, *axes))
    length = element_count(tuple(x.shape[a] for a in axes))
    shape = (x.type.size // length, length)
    found = moved.reshaped(shape)
    if found is None or found.strides[1] != 1:
        found = contiguous(launcher, moved).reshaped(shape)
    assert found is not None, "what has no gaps has any shape"
    return found


def from_rows(rows: CubeTensor, shape: Shape, axes: Sequence[int]) -> CubeTensor:
    """Return what `as_rows` made rows of, as a view: the reverse of it."""
    order = (*(a for a in range(len(shape)) if a not in axes), *axes)
    moved = rows.reshaped(tuple(shape[a] for a in order))
    assert moved is not None, "what has no gaps has any shape"
    return moved.permuted(tuple(order.index(a) for a in range(len(shape))))


def row_layout(tensor: CubeTensor, width: int, machine: Machine) -> Layout:
    """Return the layout of a tensor of which neighbours of a row are read together."""
    return layout_of(tensor, word_of(width, machine))
