"""Contractions term by term: an invocation for each element of the result, which adds up its terms.

It is the form of those that are no product of matrices, and what mends a product's sums that are
NaN: an operand that has no place for a term is read as 0 there, and 0 times what is not finite is
NaN, though there is no such term.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.operand import truth, unravel
from pyrite.backend.cube.skeleton.each import Each, for_each
from pyrite.backend.cube.skeleton.map.reader import all_of
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Value
from pyrite.kernel.polyfill.floats import isnan
from pyrite.kernel.template.operand import accumulator_of
from pyrite.op.rule import Terms
from pyrite.types import bool_, element_count

#: Rounds after which Mesa's llvmpipe silently ends all loops of an invocation.
_MOST_ROUNDS: Final = (1 << 16) - 1

At = list[Value | int]


def add_terms(
    launcher: Launcher, terms: Terms, left: CubeTensor, right: CubeTensor,
    biases: Sequence[CubeTensor], target: CubeTensor,
) -> None:  # fmt: skip
    """Write its biases and the sum of its terms to each element of a result.

    Biases and the result have the terms' axes.
    """

    def body(each: Each) -> None:
        each.operands[-1][each.at] = _stored(each, _biased(each, total(each, terms)))

    for_each(launcher, "contract", terms, target.shape, [left, right, *biases], target, body)


def mend(
    launcher: Launcher, terms: Terms, left: CubeTensor, right: CubeTensor,
    biases: Sequence[CubeTensor], target: CubeTensor,
) -> None:  # fmt: skip
    """Add up again what is NaN in a result of which some terms do not exist."""
    if not terms.bounds or not target.dtype.is_float:
        return

    def body(each: Each) -> None:
        out = each.operands[-1]
        with each.b.if_(isnan(each.b, out[each.at]), is_rare=True):
            out[each.at] = _stored(each, _biased(each, total(each, terms)))

    for_each(
        launcher, "contract_border", terms, target.shape, [left, right, *biases], target, body,
        access="read_write",
    )  # fmt: skip


def total(each: Each, terms: Terms) -> Value:
    """Return the sum of the terms of one element."""
    b, count = each.b, element_count(terms.summed)
    together = -(-count // _MOST_ROUNDS)
    zero = b.const(0, accumulator_of(each.operands[0].layout.dtype))
    with b.for_(0, -(-count // together), carried=[zero]) as loop:
        (found,) = loop.carried
        for i in range(together):
            number = loop.index if together == 1 else loop.index * together + i
            within = None if count % together == 0 else number < count
            found = _with_term(each, terms, unravel(b, number, terms.summed), within, found)
        loop.yield_(found)
    return loop.results[0]


def _biased(each: Each, found: Value) -> Value:
    """Return a sum with the biases of its element."""
    for bias in each.operands[2:-1]:
        found = found + each.b.cast(bias[each.at], found.dtype)
    return found


def _with_term(
    each: Each, terms: Terms, summed: Sequence[Value | int], within: Value | None, found: Value
) -> Value:
    """Return a sum with one more term, if there is one."""
    b, at = each.b, [*each.at, *summed]
    exists = all_of(b, [bound.holds(at) for bound in terms.bounds])
    if within is not None:
        exists = within if exists is None else exists & within
    x, y = (
        b.cast(source.load(source.at(index.at(at)), mask=exists), found.dtype)
        for source, index in zip(each.operands, (terms.left, terms.right), strict=False)
    )
    added = b.fma(x, y, found) if found.dtype.is_float else found + x * y
    return added if exists is None else b.select(exists, added, found)


def _stored(each: Each, found: Value) -> Value:
    dtype = each.operands[-1].layout.dtype
    return truth(each.b, found) if dtype is bool_ else each.b.cast(found, dtype.compute)
