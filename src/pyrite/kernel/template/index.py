"""Arithmetic on indices that may be known: ints stay ints, so that what is constant costs nothing.

An `Index` is a Python int, or a value of the kernel, scalar or vector.  A number that the kernel
gets at its launch (`pyrite.symbol`) passes for an int of which nothing is asked here.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyrite.kernel.builder import KernelBuilder, Value
from pyrite.kernel.ir import vector
from pyrite.symbol import is_symbol

Index = int | Value


def plus(x: Index, y: Index) -> Index:
    """Return x + y."""
    if isinstance(x, int):
        if isinstance(y, int):
            return x + y
        x, y = y, x
    # Mostly a value: `isinstance` asks its abstract class whether it is a number.
    if y.__class__ is not Value and isinstance(y, int) and y == 0:
        return x
    return x + y


def minus(x: Index, y: Index) -> Index:
    """Return x - y."""
    return x if isinstance(y, int) and y == 0 else x - y


def total(terms: Iterable[Index]) -> Index:
    """Return the sum of the terms; the known ones are added last, as one."""
    known, result = 0, 0
    found: Index = result
    for term in terms:
        if isinstance(term, int):
            known += term
        else:
            found = plus(found, term)
    return plus(found, known)


def times(x: Index, factor: Index) -> Index:
    """Return x * factor."""
    if factor.__class__ is not int and isinstance(factor, Value):
        x, factor = factor, x
    if isinstance(x, int):
        return x * factor
    if isinstance(factor, int) and factor in (0, 1):
        return x if factor else 0
    return x * factor


def divided(x: Index, divisor: Index) -> Index:
    """Return x // divisor, of x >= 0."""
    return x if is_one(divisor) else x // divisor


def remainder(x: Index, divisor: Index) -> Index:
    """Return x % divisor, of x >= 0."""
    return 0 if is_one(divisor) else x % divisor


def is_one(x: Index) -> bool:
    """Whether a number is known to be 1."""
    return isinstance(x, int) and x == 1


def pieces(size: int, unit: int) -> int:
    """Return how many pieces of a unit hold a size: the last may be shorter."""
    return (size + unit - 1) // unit


def limit_of(size: int, unit: int) -> int | None:
    """Return a size as the end of pieces of a unit, or None where the last is known to be whole."""
    return None if isinstance(size, int) and size % unit == 0 else size


def least(b: KernelBuilder | None, x: Index, y: Index) -> Index:
    """Return the lesser of two; without a builder of ints."""
    if isinstance(x, int) and isinstance(y, int):
        return min(x, y)
    assert b is not None
    return b.min(b.index(x), y)


def written(b: KernelBuilder, x: int) -> Index:
    """Return a number, or of a symbol its value in the kernel.

    What is made of that is computed there, and not another argument.
    """
    return b.index(x) if is_symbol(x) else x


def rounded_up(x: int, unit: int) -> int:
    """Return the least multiple of the unit that is not less than x."""
    return -(-x // unit) * unit


def both(x: Value | None, y: Value | None) -> Value | None:
    """Return whether both hold; None is a condition that always does.  Repeats a scalar."""
    if x is None or y is None:
        return y if x is None else x
    return x & y


def iota(b: KernelBuilder, width: int) -> Value:
    """Return the indices 0, 1, ... as a vector."""
    return b.const(range(width), vector(b.index_type.dtype, width))
