"""Maps on arrays: views where strides say them, else elements gathered at places."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyrite.backend.evaluation.arrays import Arrays
from pyrite.backend.evaluation.evaluator import evaluates
from pyrite.op import Attributes
from pyrite.op.index import Bound, IndexMap, Windows
from pyrite.op.rule import Adjoint, Map, Piece, View
from pyrite.op.rule.map_adjoint import Fiber
from pyrite.types import Array, TensorType, element_count


@evaluates(View)
def evaluate_view(
    arrays: Arrays,
    rule: View,
    inputs: Sequence[Any],
    attrs: Attributes,
    out: tuple[TensorType, ...],
) -> Sequence[Any]:
    """Return the elements of the input at their new places."""
    (x,) = inputs
    (piece,) = rule.of([tuple(x.shape)], attrs)
    view = arrays.strided(x, piece.index)
    found = gathered(arrays, piece, [x]) if view is None else view
    return [arrays.reshape(found, out[0].shape)]


@evaluates(Map)
def evaluate_map(
    arrays: Arrays,
    rule: Map,
    inputs: Sequence[Any],
    attrs: Attributes,
    out: tuple[TensorType, ...],
) -> Sequence[Any]:
    """Return the first piece that holds, from the last to the first."""
    pieces = rule.of([tuple(x.shape) for x in inputs], attrs)
    found: Any = bool(rule.fill) if out[0].dtype.is_bool else rule.fill
    for piece in reversed(pieces):
        if element_count(piece.index.source):
            taken = gathered(arrays, piece, inputs)
            found = arrays.algebra.where(holds(arrays, piece.index, taken), taken, found)
    if isinstance(found, bool | int | float):
        found = arrays.full(pieces[0].index.shape, found, out[0].dtype, inputs[0])
    return [arrays.reshape(found, out[0].shape)]


@evaluates(Adjoint)
def evaluate_adjoint(
    arrays: Arrays,
    rule: Adjoint,
    inputs: Sequence[Any],
    attrs: Attributes,
    out: tuple[TensorType, ...],
) -> Sequence[Any]:
    """Return the sum over candidates, one after the other, of those that are right."""
    (g,) = inputs
    shape = out[0].shape
    total = arrays.zeros_like(g, shape)
    for fiber in rule.fibers(tuple(g.shape), shape, attrs):
        if element_count(fiber.index.source):
            if fiber.shares is not None:
                g = arrays.reshape(g, fiber.shares.shape) / share_count(arrays, fiber.shares, g)
            total = summed(arrays, fiber, arrays.reshape(g, (-1,)), total)
    return [total]


def share_count(arrays: Arrays, windows: Windows, g: Any) -> Any:
    """Return how many taps count in each window, in the dtype of an array."""
    return arrays.asarray(windows.counts.astype(arrays.type_of(g).dtype.numpy), g)


def summed(arrays: Arrays, fiber: Fiber, g: Any, total: Any) -> Any:
    """Return a total and what a fiber adds to it."""
    index = fiber.index
    shape = index.shape[: len(index.shape) - fiber.taps]
    own = np.indices(shape, np.int64, sparse=True)
    numbers = index.numbered()
    for taps in np.ndindex(index.shape[len(shape) :]):
        at = [*own, *taps]
        holds = np.broadcast_to(np.asarray(index.valid(at)), shape)
        for bounds in fiber.unless:
            holds = holds & ~all_hold(bounds, at)
        places = np.where(holds, numbers.at(at), 0)
        taken = arrays.take(g, arrays.asarray(places, g))
        mask = arrays.asarray(holds, g)
        total = arrays.algebra.where(mask, total + taken, total)
    return total


def all_hold(bounds: Sequence[Bound], at: Sequence[Any]) -> Any:
    """Return whether all bounds hold at coordinates."""
    return functools.reduce(operator.and_, (np.asarray(b.holds(at)) for b in bounds), np.True_)


def gathered(arrays: Arrays, piece: Piece, inputs: Sequence[Any]) -> Any:
    """Return the elements at the places of a piece, any element where it has none."""
    x, index = inputs[piece.input], piece.index.simplified
    return arrays.take(arrays.reshape(x, (-1,)), arrays.asarray(places(index), x))


def places(index: IndexMap) -> Array:
    """Return the numbers of the elements that a map reads, 0 where it reads none."""
    numbers = np.broadcast_to(index.numbered().at(grid(index)), index.shape)
    return np.where(index.valid(grid(index)), numbers, 0)


def holds(arrays: Arrays, index: IndexMap, like: Any) -> Any:
    """Return where a map reads an element."""
    found = index.simplified.valid(grid(index))
    return arrays.asarray(np.broadcast_to(np.asarray(found), index.shape), like)


def grid(index: IndexMap) -> list[Array]:
    """Return the coordinates along each axis, such that they broadcast."""
    return list(np.indices(index.shape, np.int64, sparse=True))
