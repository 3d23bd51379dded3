"""Calls that launch nothing: the elements of an input as they lie, seen as another tensor.

A loop over rows (``x[i]``) makes a new one at each turn, so all that its first call needs is here:
where strides say what a rule's map reads, that is arithmetic on them, and nothing is recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.backend.cube.fault import AnyDoubt
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.layout import Strides, layout_key
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.op import Op, Plan
from pyrite.op.rule import View
from pyrite.types import TensorType

_new = object.__new__


class Relayout:
    """What a call of a plan does with an input that lies like this: its result is a view of it."""

    __slots__ = ("layout", "offset", "strides", "type")

    def __init__(self, type: TensorType, strides: Strides, offset: int) -> None:
        self.type, self.strides, self.offset = type, strides, offset
        self.layout = layout_key(strides, offset)

    def run(
        self,
        launcher: Launcher,
        inputs: Sequence[Any],
        operands: list[Any],
        doubt: AnyDoubt | None,
    ) -> Sequence[CubeTensor]:
        """Return the view of the input's buffer."""
        # As by ``CubeTensor(...)``, in half the time.
        made = _new(CubeTensor)
        (made.buffer,) = operands
        made.type, made.strides, made.offset = self.type, self.strides, self.offset
        made.layout, made.doubt = self.layout, doubt
        return (made,)


def relayout_of(op: Op, inputs: Sequence[Any], plan: Plan) -> Relayout | None:
    """Return how a tensor lies as an op with a `View` rule sees it, None where that takes a copy.

    None too for what is no tensor.
    """
    (x,) = inputs
    rule, out = op.rule, plan.out
    if x.__class__ is not CubeTensor or not isinstance(rule, View) or out is None:
        return None
    index = rule.index(x.type.shape, **plan.attrs)
    found = index.strides(x.strides)
    (type,) = out
    if found is None or type.shape != index.shape or type.dtype is not x.type.dtype:
        return None
    strides, offset = found
    return Relayout(type, strides, x.offset + offset)
