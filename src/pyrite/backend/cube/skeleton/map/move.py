"""Moves of a device: how each of a rule's pieces comes into the result."""

from __future__ import annotations

from collections.abc import Sequence

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.registry import Input
from pyrite.backend.cube.skeleton.copy import as_tensor, copy, dense
from pyrite.backend.cube.skeleton.map.boxes import Box, box_of, cover
from pyrite.backend.cube.skeleton.map.masked import move_masked
from pyrite.backend.cube.skeleton.map.view import strided
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.op import Constant
from pyrite.op.rule import Piece
from pyrite.types import Number, TensorType

#: What is copied: a part of an input, or a number, and to where.
Copy = tuple[CubeTensor | Constant, Box]


def move(
    launcher: Launcher, pieces: Sequence[Piece], inputs: Sequence[Input], fill: Number,
    type: TensorType,
) -> CubeTensor:  # fmt: skip
    """Return the elements of the first piece that holds, the fill where none does, dense."""
    found = [_copy(piece, inputs) for piece in pieces]
    copies = [c for c in found if c is not None]
    if len(copies) == len(found):
        return _by_copies(launcher, copies, fill, type)
    target = launcher.empty(type)
    sources = [_tensor(launcher, inputs[piece.input]) for piece in pieces]
    maps = tuple(piece.index.simplified for piece in pieces)
    move_masked(launcher, maps, sources, fill, target)
    return target


def _tensor(launcher: Launcher, x: Input) -> CubeTensor:
    assert x is not None, "a piece is of an input that is given"
    return as_tensor(launcher, x)


def _copy(piece: Piece, inputs: Sequence[Input]) -> Copy | None:
    """Return the copy that a piece is, None where it is none."""
    x, box = inputs[piece.input], box_of(piece.index)
    if box is None:
        return None
    if isinstance(x, CubeTensor):
        part = strided(x, box.read(piece.index))
        return None if part is None else (part, box)
    assert x is not None, "a piece is of an input that is given"
    return x, box


def _by_copies(
    launcher: Launcher, copies: Sequence[Copy], fill: Number, type: TensorType
) -> CubeTensor:
    """Return what copies make, the last of them first, so that the first stays."""
    needed: list[Copy] = []
    for part, box in copies:
        needed.append((part, box))
        if box.fills(type.shape):
            break
    target = _background(launcher, needed, fill, type)
    for part, box in reversed(needed):
        if 0 not in box.size:
            copy(launcher, as_tensor(launcher, part), target.sliced(box.start, box.size, box.step))
    return target


def _background(
    launcher: Launcher, needed: list[Copy], fill: Number, type: TensorType
) -> CubeTensor:
    """Return the tensor that copies are written to, and take from them what it holds already."""
    last, box = needed[-1]
    if box.fills(type.shape) and (len(needed) > 1 or isinstance(last, Constant)):
        needed.pop()
        return dense(launcher, last, type)
    if cover([box for _, box in needed], type.shape):
        return launcher.empty(type)
    return dense(launcher, Constant(fill, TensorType((), type.dtype)), type)
