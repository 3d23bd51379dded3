"""Scatters on whole arrays: writes are sorted by their place, and those to one place are joined.

The order of writes to one place is kept, and neighbours are joined in pairs until each place has
one left: as many passes as the greatest number of writes to one place has bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.backend.evaluation.arrays import Arrays
from pyrite.backend.evaluation.evaluator import evaluates
from pyrite.backend.evaluation.place import Call, call_of, flat_places, types_of
from pyrite.op import Attributes
from pyrite.op.rule import Collision, LastWrite, Scatter
from pyrite.types import Number, TensorType, bool_, element_count, int64


@evaluates(Scatter)
def scatter(
    arrays: Arrays, rule: Scatter, inputs: Sequence[Any], attrs: Attributes,
    out: tuple[TensorType, ...],
) -> Sequence[Any]:  # fmt: skip
    """Return the base with the updates written to it."""
    (type,), collision = out, rule.collides(attrs)
    points = rule.space(types_of(arrays, inputs), attrs)
    call = call_of(arrays, rule, inputs, attrs, points, type.shape)
    places, inside = flat_places(call)
    count, size = element_count(points), element_count(type.shape)
    base = _or_number(call, rule.base, collision.start, type)
    updates = _or_number(call, rule.updates, 1, type)
    elements = arrays.reshape(arrays.broadcast_to(base, type.shape), (size,))
    writes = arrays.reshape(arrays.broadcast_to(updates, points), (count,))
    numbers = arrays.compress(arrays.arange(count, int64, call.like), _row(arrays, inside, count))
    at = arrays.take(_row(arrays, places, count), numbers)
    order = arrays.argsort(at)
    at, writes = arrays.take(at, order), arrays.take(writes, arrays.take(numbers, order))
    at, writes = _one_for_each_place(arrays, collision, at, writes)
    joined = collision.join(arrays.algebra, arrays.take(elements, at), writes)
    return [arrays.reshape(arrays.put(elements, at, joined), type.shape)]


@evaluates(LastWrite)
def last_write(
    arrays: Arrays, rule: LastWrite, inputs: Sequence[Any], attrs: Attributes,
    out: tuple[TensorType, ...],
) -> Sequence[Any]:  # fmt: skip
    """Return whether each write is the last one to its place."""
    points = out[0].shape
    shape = rule.shape(*types_of(arrays, inputs), **attrs)
    call = call_of(arrays, rule, inputs, attrs, points, shape)
    places, inside = flat_places(call)
    count = element_count(points)
    at = _row(arrays, places, count)
    order = arrays.argsort(at)
    is_last = _differs(arrays, arrays.take(at, order), 1)
    found = arrays.put(arrays.full((count,), False, bool_, call.like), order, is_last)
    return [arrays.reshape(found, points) & inside]


def _or_number(call: Call, position: int | None, number: Number, type: TensorType) -> Any:
    """Return an input, or where there is none a number, in the dtype in which writes meet."""
    found = None if position is None else call.inputs[position]
    if found is not None:
        return found
    return call.arrays.full((), number, type.dtype.compute, call.like)


def _row(arrays: Arrays, x: Any, count: int) -> Any:
    return arrays.reshape(x, (count,))


def _one_for_each_place(
    arrays: Arrays, collision: Collision, at: Any, writes: Any
) -> tuple[Any, Any]:
    """Return sorted places, each once, and what the writes to each are together."""
    while True:
        count = arrays.type_of(at).size
        begins = _differs(arrays, at, -1)
        numbers = arrays.arange(count, int64, at)
        starts = arrays.compress(numbers, begins)
        if arrays.type_of(starts).size == count:
            return at, writes
        runs = arrays.cumulative_sum(arrays.algebra.cast(begins, int64)) - 1
        is_first = (numbers - arrays.take(starts, runs)) % 2 == 0
        has_second = is_first & ~_differs(arrays, at, 1)
        firsts = arrays.compress(numbers, has_second)
        pair = (arrays.take(writes, firsts), arrays.take(writes, firsts + 1))
        writes = arrays.put(writes, firsts, collision.join(arrays.algebra, *pair))
        kept = arrays.compress(numbers, is_first)
        at, writes = arrays.take(at, kept), arrays.take(writes, kept)


def _differs(arrays: Arrays, at: Any, step: int) -> Any:
    """Return of each sorted place whether its neighbour before (-1) or behind (1) is another."""
    edge = arrays.full((min(arrays.type_of(at).size, 1),), True, bool_, at)
    differs = at[1:] != at[:-1]
    return arrays.concat([edge, differs] if step < 0 else [differs, edge], 0)
