"""The keys of recordings: all that a lowering may depend on."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from pyrite.backend.cube.tensor import CubeTensor
from pyrite.content import NoContentError, content_of
from pyrite.op import Attributes, Op, Plan, rules_key
from pyrite.types import bool_


def key_of(op: Op, inputs: Sequence[Any], attrs: Attributes) -> Hashable | None:
    """Return all that a lowering may depend on, or None if attributes have no content.

    Numbers are there by their dtype, bools by their value: those are part of a kernel.
    """
    parts: list[Hashable] = [op, rules_key(op)]
    for i in inputs:
        if type(i) is CubeTensor:
            parts += (i.type.shape, i.type.dtype, i.strides, i.offset)
        elif i is None:
            parts.append(None)
        else:
            dtype = i.type.dtype
            parts.append(bool(i.value) if dtype is bool_ else dtype)
    try:
        for name, value in attrs.items():
            parts += (name, content_of(value))
    except NoContentError:
        return None
    return tuple(parts)


def key_of_plan(plan: Plan, inputs: Sequence[Any]) -> Hashable:
    """Return `key_of` for inputs of a plan that is kept: their types, and attributes, are its."""
    parts: list[Hashable] = [plan]
    for i in inputs:
        if i.__class__ is CubeTensor:
            parts.append(i.layout or i.layout_of())
        elif i is not None and i.type.dtype is bool_:
            parts.append(bool(i.value))
    return tuple(parts)
