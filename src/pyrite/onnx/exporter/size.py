"""Sizes that vary: an integer of a model at each of the sizes at which it was traced.

A `Varying` holds one integer for each trace, and is computed with as an integer is, at each
trace apart.  Only where the graph needs its value is it asked which formula of sizes it is.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pyrite.types import DType


@dataclass(frozen=True, slots=True)
class Varying:
    """An integer that differs between traces."""

    values: tuple[int, ...]

    def _with(self, other: Size, function: Callable[[int, int], int]) -> Size:
        others = other.values if isinstance(other, Varying) else (other,) * len(self.values)
        return size_of([function(x, y) for x, y in zip(self.values, others, strict=True)])

    def __add__(self, other: Size) -> Size:
        return self._with(other, operator.add)

    def __radd__(self, other: int) -> Size:
        return self._with(other, operator.add)

    def __sub__(self, other: Size) -> Size:
        return self._with(other, operator.sub)

    def __rsub__(self, other: int) -> Size:
        return self._with(other, lambda x, y: y - x)

    def __mul__(self, other: Size) -> Size:
        return self._with(other, operator.mul)

    def __rmul__(self, other: int) -> Size:
        return self._with(other, operator.mul)

    def __str__(self) -> str:
        return " or ".join(map(str, dict.fromkeys(self.values)))


#: An integer of a model.
Size = int | Varying


def size_of(values: Sequence[int]) -> Size:
    """Return the integer that a model has at each trace: an int where it is always the same."""
    return values[0] if len(set(values)) == 1 else Varying(tuple(values))


def is_static(sizes: Iterable[Size]) -> bool:
    """Whether none of the integers varies."""
    return all(isinstance(size, int) for size in sizes)


def values_of(size: Size, count: int) -> tuple[int, ...]:
    """Return an integer at each of ``count`` traces."""
    return size.values if isinstance(size, Varying) else (size,) * count


@dataclass(frozen=True, slots=True)
class ValueType:
    """The shape, whose sizes may vary, and dtype of a value in a graph."""

    shape: tuple[Size, ...]
    dtype: DType

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]"
