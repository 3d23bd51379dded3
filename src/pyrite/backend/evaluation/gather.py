"""Gathers on whole arrays: the places of all elements, and one read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.backend.evaluation.arrays import Arrays
from pyrite.backend.evaluation.evaluator import evaluates
from pyrite.backend.evaluation.place import call_of, flat_places
from pyrite.op import Attributes
from pyrite.op.rule import Gather
from pyrite.types import TensorType, element_count


@evaluates(Gather)
def gather(
    arrays: Arrays, rule: Gather, inputs: Sequence[Any], attrs: Attributes,
    out: tuple[TensorType, ...],
) -> Sequence[Any]:  # fmt: skip
    """Return the elements of the source at the places of the rule, 0 where there is none."""
    source = inputs[rule.source]
    shape = arrays.type_of(source).shape
    places, inside = flat_places(call_of(arrays, rule, inputs, attrs, out[0].shape, shape))
    if 0 in shape:
        # There is nothing to read, so all that were asked for are outside.
        return [arrays.broadcast_to(arrays.zeros_like(source, ()), out[0].shape)]
    found = arrays.take(arrays.reshape(source, (element_count(shape),)), places)
    if rule.drops:
        found = arrays.algebra.where(inside, found, arrays.zeros_like(found, ()))
    return [found]
