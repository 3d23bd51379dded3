"""Folds through maps: what pools compute of the elements under each window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from pyrite.op.index import Windows
from pyrite.op.rule.fold import Fold
from pyrite.op.rule.rule import Rule
from pyrite.types import DType, Number, float32


@dataclass(frozen=True, slots=True, eq=False)
class WindowFold(Rule):
    """A fold through a map: each element of the result folds the taps of its window.

        AVERAGE_POOL = WindowFold(AVERAGE, lambda x, *, size: windows_of(x, size), neutral=zero)

    ``windows(shape, **attrs)`` says which taps those are.  What the functions of the fold may name
    beside attributes: ``position`` (see `Windows`), and in ``end`` ``count``, which is a value of a
    float dtype where windows differ, and ``first``, the position of the window's first element.
    """

    name: ClassVar[str] = "window"

    fold: Fold
    windows: Callable[..., Windows]
    #: The same fold in fewer instructions, for elements that come in the order of their taps.
    in_order: Fold | None = None
    #: An element that changes no state, for inputs of a dtype.
    neutral: Callable[[DType], Number] | None = None


def count_dtype(dtype: DType) -> DType:
    """Return the dtype of counts, for inputs that are computed in a dtype."""
    return dtype if dtype.is_float else float32


#: The mean of what counts.
AVERAGE = Fold(
    start=lambda dtype: ((0, dtype),),
    join=lambda _, s, t: (s[0] + t[0],),
    end=lambda _, s, *, count: s[0] / count,
)


def zero(_: DType) -> Number:
    """Return what changes no sum."""
    return 0
