"""Scans: what cumulative ops compute, as folds that keep the state at each element."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from pyrite.op.rule.fold import Fold, with_axes
from pyrite.op.rule.rule import Rule


@dataclass(frozen=True, slots=True, eq=False)
class Scan(Rule):
    """A fold along one axis that gives a result at each element, of all elements up to it.

    Only neighbouring states are joined, the earlier one first, so here ``join`` need not be
    commutative; a ``position`` is counted in the order of the scan.

    The op has the attribute ``axis``, an int, and maybe ``reverse``, which goes from the end, and
    ``include_initial``, which puts the result of no elements in front.
    """

    name: ClassVar[str] = "scan"

    fold: Fold

    def canonical(self, op: str) -> Callable[..., Mapping[str, Any]]:
        """Count the axis from the first, as all readers of the rule do."""
        return partial(with_axes, op)


@dataclass(frozen=True, slots=True, eq=False)
class Recurrence(Rule):
    """A scan whose states cannot be joined: each is made of the one before, element by element.

    ``first(k, x)`` is the result at the first element along an axis, and
    ``step(k, before, x, *links)`` that at an element with the result before it.  The op's inputs
    are x and then the links, which lie between neighbours: one fewer on the axis.

    The op has the attribute ``axis``, an int, and maybe ``reverse``, which goes from the end.
    """

    name: ClassVar[str] = "scan"

    step: Callable[..., Any]
    first: Callable[..., Any] = lambda _, x: x

    def canonical(self, op: str) -> Callable[..., Mapping[str, Any]]:
        """Count the axis from the first, as all readers of the rule do."""
        return partial(with_axes, op)
