"""Contractions on whole arrays: windows gathered, multiplied and summed by one `einsum`.

Where an operand has no place a zero stands.  Zero times what is not finite is NaN, which is no term
of the sum, so results that are NaN are added up again, over the terms that there are.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

from pyrite.backend.evaluation.arrays import Arrays
from pyrite.backend.evaluation.evaluator import evaluates
from pyrite.backend.evaluation.map import gathered, holds
from pyrite.op import Attributes
from pyrite.op.index import Form, IndexMap, coordinate
from pyrite.op.rule import Contract, Piece, Terms
from pyrite.types import Shape, TensorType, element_count, int64


@evaluates(Contract)
def contract(
    arrays: Arrays, rule: Contract, inputs: Sequence[Any], attrs: Attributes,
    out: tuple[TensorType, ...],
) -> Sequence[Any]:  # fmt: skip
    """Return the sums of products of two operands, and the bias that a call has."""
    (type,) = out
    sums = _sums(arrays, rule, inputs[:2], attrs, type.shape)
    bias = inputs[2] if rule.bias is not None else None
    return [sums if bias is None else sums + arrays.reshape(bias, rule.bias_shape(type.shape))]


def _sums(
    arrays: Arrays, rule: Contract, operands: Sequence[Any], attrs: Attributes, shape: Shape
) -> Any:
    """Return the sums of products of two operands, of a result's shape."""
    terms = rule.of([tuple(i.shape) for i in operands], attrs)
    if 0 in shape or any(0 in i.shape for i in operands) or 0 in terms.summed:
        return arrays.broadcast_to(arrays.zeros_like(operands[0], ()), shape)
    found = _summed(arrays, terms, *operands)
    if terms.bounds and arrays.type_of(found).dtype.is_float:
        found = _mended(arrays, terms, operands, found)
    return arrays.reshape(found, shape)


def _summed(arrays: Arrays, terms: Terms, x: Any, y: Any) -> Any:
    """Return the sums, with zeros where an operand has no place."""
    right = _axes(terms.right)
    # An axis on which neither depends has as many equal terms.
    left = sorted({*range(len(terms.left.shape))} - {*right} | {*_axes(terms.left)})
    values = [
        _windows(arrays, index, axes, operand)
        for index, axes, operand in ((terms.left, left, x), (terms.right, right, y))
    ]
    names = ["".join(string.ascii_letters[a] for a in axes) for axes in (left, right)]
    kept = string.ascii_letters[: terms.kept]
    return arrays.einsum(f"{names[0]},{names[1]}->{kept}", *values)


def _axes(index: IndexMap) -> list[int]:
    """Return the axes on which a map depends."""
    forms = [*index.places, *(bound.form for bound in index.bounds)]
    return sorted(frozenset[int]().union(*(form.axes for form in forms)))


def _windows(arrays: Arrays, index: IndexMap, axes: Sequence[int], x: Any) -> Any:
    """Return what a map reads, by the coordinates of some axes, on which alone it depends."""
    own = [Form()] * len(index.shape)
    for number, axis in enumerate(axes):
        own[axis] = coordinate(number)
    shape = tuple(index.shape[axis] for axis in axes)
    whole = IndexMap(shape, index.shape, tuple(own)).compose(index)
    view = arrays.strided(x, whole)
    if view is not None:
        return view
    found = arrays.reshape(gathered(arrays, Piece(whole), [x]), shape)
    if whole.is_total:
        return found
    exists = holds(arrays, whole, found)
    return arrays.algebra.where(exists, found, arrays.zeros_like(found, ()))


def _mended(arrays: Arrays, terms: Terms, inputs: Sequence[Any], found: Any) -> Any:
    """Return the sums, of which those that are NaN are added up over the terms that there are."""
    flat = arrays.reshape(found, (-1,))
    is_nan = arrays.algebra.isnan(flat)
    if not arrays.is_any(is_nan):
        return found
    numbers = arrays.compress(arrays.arange(flat.shape[0], int64, flat), is_nan)
    at = _unraveled(arrays.reshape(numbers, (-1, 1)), terms.shape)
    count = element_count(terms.summed)
    at += _unraveled(arrays.reshape(arrays.arange(count, int64, flat), (1, -1)), terms.summed)
    exact = arrays.einsum("ab->a", _products(arrays, terms, inputs, at))
    return arrays.reshape(arrays.put(flat, numbers, exact), found.shape)


def _products(arrays: Arrays, terms: Terms, inputs: Sequence[Any], at: Sequence[Any]) -> Any:
    """Return the terms at coordinates, 0 where there is none."""
    factors = []
    everywhere = at[0] * 0 + at[-1] * 0
    exists = everywhere == 0
    for bound in terms.bounds:
        exists = exists & bound.holds(at)
    for index, operand in zip((terms.left, terms.right), inputs, strict=True):
        number = index.numbered().at(at) + everywhere
        place = arrays.algebra.where(exists, number, everywhere)
        factors.append(arrays.take(arrays.reshape(operand, (-1,)), place))
    product = factors[0] * factors[1]
    return arrays.algebra.where(exists, product, arrays.zeros_like(product, ()))


def _unraveled(number: Any, shape: Shape) -> list[Any]:
    """Return the coordinates of elements by their number in row-major order."""
    found = []
    for size in reversed(shape):
        found.append(number % size)
        number = number // size
    return found[::-1]
