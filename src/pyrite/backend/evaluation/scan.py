"""Scans on whole arrays: by doubling where states can be joined, else element by element.

Source of the doubling: Hillis & Steele 1986, "Data parallel algorithms".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.backend.evaluation.arrays import Arrays
from pyrite.backend.evaluation.evaluator import evaluates
from pyrite.backend.evaluation.fold import empty, taken
from pyrite.op import Attributes, Recurrence, Scan
from pyrite.op.rule.fold import BoundFold, State
from pyrite.types import TensorType


@evaluates(Scan)
def scan_axis(
    arrays: Arrays, rule: Scan, inputs: Sequence[Any], attrs: Attributes,
    out: tuple[TensorType, ...],
) -> Sequence[Any]:  # fmt: skip
    """Return the results of the elements up to each along an axis."""
    (x,) = inputs
    lines = _in_order(arrays, x, attrs)
    fold = rule.fold.of(arrays.type_of(x).dtype, [t.dtype for t in out], attrs, 0)
    state = taken(arrays, fold, lines)
    if lines.shape[0] > 1:
        state = _doubled(arrays, fold, state)
    if attrs.get("include_initial"):
        shape = (1, *lines.shape[1:])
        initial = (arrays.reshape(value, shape) for value in empty(arrays, fold, lines))
        state = tuple(arrays.concat(pair, 0) for pair in zip(initial, state, strict=True))
    size = state[0].shape[0]
    results = fold.end(arrays.algebra, state)
    return [
        _in_place(arrays, arrays.broadcast_to(r, (size, *lines.shape[1:])), attrs) for r in results
    ]


def _doubled(arrays: Arrays, fold: BoundFold, state: State) -> State:
    """Return the joins of the states up to each along the first axis."""
    size, distance = state[0].shape[0], 1
    while distance < size:
        before = tuple(arrays.slice(value, 0, 0, size - distance) for value in state)
        after = tuple(arrays.slice(value, 0, distance, size) for value in state)
        done = (arrays.slice(value, 0, 0, distance) for value in state)
        found = fold.join(arrays.algebra, before, after)
        state = tuple(arrays.concat(pair, 0) for pair in zip(done, found, strict=True))
        distance *= 2
    return state


@evaluates(Recurrence)
def recur_along(
    arrays: Arrays, rule: Recurrence, inputs: Sequence[Any], attrs: Attributes,
    out: tuple[TensorType, ...],
) -> Sequence[Any]:  # fmt: skip
    """Return what follows from element to element along an axis."""
    x, *links = (_in_order(arrays, i, attrs) for i in inputs)
    size = x.shape[0]
    if size == 0:
        return [inputs[0]]

    def at(value: Any, i: int) -> Any:
        return arrays.slice(value, 0, i, i + 1)

    k = arrays.algebra
    found = [rule.first(k, at(x, 0))]
    for i in range(1, size):
        found.append(rule.step(k, found[-1], at(x, i), *(at(link, i - 1) for link in links)))
    return [_in_place(arrays, arrays.concat(found, 0), attrs)]


def _in_order(arrays: Arrays, x: Any, attrs: Attributes) -> Any:
    """Return an array with the elements of a scan along its first axis, in its order."""
    axis = attrs["axis"]
    order = (axis, *(a for a in range(len(x.shape)) if a != axis))
    moved = arrays.permute_dims(x, order)
    return arrays.flip(moved, 0) if attrs.get("reverse") else moved


def _in_place(arrays: Arrays, found: Any, attrs: Attributes) -> Any:
    """Return an array with its first axis, in the order of a scan, where it was."""
    axis = attrs["axis"]
    turned = arrays.flip(found, 0) if attrs.get("reverse") else found
    return arrays.permute_dims(turned, (*range(1, axis + 1), 0, *range(axis + 1, len(found.shape))))
