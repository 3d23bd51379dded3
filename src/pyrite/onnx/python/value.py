"""What a name of the graph stands for while its Python is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pyrite.onnx.python.code import Code, code, infix, listed, literal, local
from pyrite.types import Array

#: What a variable holds, as its annotation says.
Kind = str
TENSOR, UNKNOWN, TENSORS, INTEGER = "Tensor", "Any", "list[Tensor]", "int"


@dataclass(frozen=True, slots=True)
class Variable:
    """A value that is computed when the model runs."""

    code: Code
    kind: Kind = TENSOR


@dataclass(frozen=True, slots=True)
class Fixed:
    """An array of the host that the file holds, or that comes of such arrays."""

    array: Array
    #: The key of the weight that it is.
    key: str = ""


@dataclass(frozen=True, slots=True)
class Size:
    """An integer that depends on shapes; of one axis it has the name that the file gives it."""

    code: Code
    symbol: str | None = None


@dataclass(frozen=True, slots=True)
class Sizes:
    """Integers of the host of which some depend on shapes: a vector, or one number."""

    items: tuple[int | Size, ...]
    is_vector: bool

    @property
    def code(self) -> Code:
        """A list of them, or the one."""
        codes = [size_code(item) for item in self.items]
        return listed(codes, "[]") if self.is_vector else codes[0]


Value = Variable | Fixed | Sizes


def size_code(item: int | Size) -> Code:
    """Return a size as an expression."""
    return item.code if isinstance(item, Size) else literal(item)


def as_sizes(value: Value | None) -> Sizes | None:
    """Return integers of the host; None for what is no vector or number of known integers."""
    if isinstance(value, Sizes):
        return value
    if isinstance(value, Fixed) and value.array.ndim <= 1 and value.array.dtype.kind in "iu":
        return Sizes(tuple(value.array.reshape(-1).tolist()), value.array.ndim == 1)
    return None


def integers(value: Value | None) -> list[int] | None:
    """Return integers that are known; None where one is not."""
    found = as_sizes(value)
    if found is None:
        return None
    known = [item for item in found.items if isinstance(item, int)]
    return known if len(known) == len(found.items) else None


def size_of(value: str, axis: int, dimension: int | str | None) -> int | Size:
    """Return the size of an axis of a value: the number that is known, or what asks for it."""
    if isinstance(dimension, int):
        return dimension
    return Size(code(f"{{}}.shape[{axis}]", local(value)), dimension)


def simplified(items: Sequence[int | Size], is_vector: bool) -> Value:
    """Return integers as an array where all are known."""
    if all(isinstance(item, int) for item in items):
        array = np.array(items, np.int64)
        return Fixed(array if is_vector else array.reshape(()))
    return Sizes(tuple(items), is_vector)


def combined(operator: str, level: int, one: int | Size, other: int | Size) -> int | Size:
    """Return the sum, difference, product or quotient of sizes, as an expression."""
    if isinstance(one, int) and isinstance(other, int):
        if operator == "//":  # towards 0, as in ONNX
            return int(abs(one) // abs(other)) * (1 if (one < 0) == (other < 0) else -1)
        return {"+": one + other, "-": one - other, "*": one * other}[operator]
    if operator == "*" and 1 in (one, other):
        return other if one == 1 else one
    if operator in ("+", "-") and other == 0:
        return one
    if operator == "+" and one == 0:
        return other
    if operator == "//" and other == 1:
        return one
    return Size(infix(operator, size_code(one), size_code(other), level))


def indexed(items: Sequence[int | Size], at: Array) -> Iterator[int | Size]:
    """Give the items at indices."""
    for index in at.reshape(-1).tolist():
        yield items[index]
