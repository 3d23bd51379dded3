"""Movement: views are arithmetic on strides, the rest is copies to where the elements belong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.registry import Input, lowers_rule
from pyrite.backend.cube.skeleton.copy import as_tensor
from pyrite.backend.cube.skeleton.map import move, read_view
from pyrite.backend.cube.skeleton.window import add_up
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.op import Attributes, Constant, Op
from pyrite.op.rule import Adjoint, Map, View
from pyrite.types import TensorType


@lowers_rule(View)
def view(
    launcher: Launcher, op: Op, inputs: Sequence[Input], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Return the same memory where strides say the map, else a copy."""
    x = as_tensor(launcher, inputs[0]) if isinstance(inputs[0], Constant) else inputs[0]
    assert isinstance(op.rule, View)
    assert isinstance(x, CubeTensor)
    (piece,) = op.rule.of([x.shape], attrs)
    found = read_view(launcher, x, piece.index)
    if found is None:
        found = move(launcher, [piece], [x], 0, TensorType(piece.index.shape, x.dtype))
    return [found]


@lowers_rule(Map)
def map_(
    launcher: Launcher, op: Op, inputs: Sequence[Input], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Return the elements of each piece at their places, the fill elsewhere."""
    assert isinstance(op.rule, Map)
    shapes = [i.type.shape for i in inputs if i is not None]
    pieces = op.rule.of(shapes, attrs)
    (type,) = out
    found = move(
        launcher, pieces, inputs, op.rule.fill, TensorType(pieces[0].index.shape, type.dtype)
    )
    whole = found.reshaped(type.shape)
    assert whole is not None, "a dense tensor takes any shape"
    return [whole]


@lowers_rule(Adjoint)
def adjoint(
    launcher: Launcher, op: Op, inputs: Sequence[Input], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Return the sums of what was read, where it was read."""
    (g,), (type,) = inputs, out
    assert isinstance(op.rule, Adjoint)
    assert isinstance(g, CubeTensor)
    found = op.rule.fibers(g.shape, type.shape, attrs)
    return [add_up(launcher, found, g, type)]
