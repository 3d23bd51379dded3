"""Folds on whole arrays: halves of what is left are joined until one state is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pyrite.backend.evaluation.arrays import Arrays
from pyrite.backend.evaluation.evaluator import evaluates
from pyrite.op import Attributes, Fold
from pyrite.op.rule.fold import BoundFold, State, axes_of
from pyrite.types import Shape, TensorType, int32


@evaluates(Fold)
def fold_axes(
    arrays: Arrays, rule: Fold, inputs: Sequence[Any], attrs: Attributes,
    out: tuple[TensorType, ...],
) -> Sequence[Any]:  # fmt: skip
    """Return the results of a fold over axes."""
    (x,) = inputs
    axes = axes_of(attrs.get("axis"), len(x.shape))
    rest = [a for a in range(len(x.shape)) if a not in axes]
    count = math.prod(x.shape[a] for a in axes)
    rows = arrays.reshape(
        arrays.permute_dims(x, (*axes, *rest)), (count, *(x.shape[a] for a in rest))
    )
    fold = rule.of(arrays.type_of(x).dtype, [t.dtype for t in out], attrs, count)
    state = joined(arrays, fold, taken(arrays, fold, rows)) if count else empty(arrays, fold, rows)
    results = fold.end(arrays.algebra, state)
    return [
        arrays.reshape(arrays.broadcast_to(r, rows.shape[1:]), t.shape)
        for r, t in zip(results, out, strict=True)
    ]


def taken(arrays: Arrays, fold: BoundFold, rows: Any) -> State:
    """Return the states of all elements, whose position is that on the first axis."""
    positions = arrays.arange(rows.shape[0], int32, rows)
    positions = arrays.reshape(positions, (-1, *(1 for _ in rows.shape[1:])))
    state = fold.take(arrays.algebra, rows, positions)
    return tuple(arrays.broadcast_to(value, rows.shape) for value in state)


def empty(arrays: Arrays, fold: BoundFold, rows: Any) -> State:
    """Return the states of no elements, one for each result."""
    shape: Shape = tuple(rows.shape[1:])
    return tuple(arrays.full(shape, number, dtype, rows) for number, dtype in fold.start)


def joined(arrays: Arrays, fold: BoundFold, state: State) -> State:
    """Return the states along the first axis joined to one."""
    while (size := state[0].shape[0]) > 1:
        half = size // 2
        first, second, odd = (
            tuple(arrays.slice(value, 0, begin, end) for value in state)
            for begin, end in ((0, half), (half, 2 * half), (2 * half, size))
        )
        found = fold.join(arrays.algebra, first, second)
        state = tuple(
            arrays.concat([value, last], 0) if size % 2 else value
            for value, last in zip(found, odd, strict=True)
        )
    return tuple(arrays.reshape(value, value.shape[1:]) for value in state)
