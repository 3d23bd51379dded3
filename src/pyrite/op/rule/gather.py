"""Gathers: each element of the result is one of the source, some of whose coordinates are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from pyrite.op.rule.coordinate import Place, PlaceRule, places
from pyrite.op.rule.rule import Rule
from pyrite.types import Shape, TensorType

#: Whom errors name, or a function of the attributes that gives it; None for the op itself.
Asked = str | Callable[..., str] | None


@dataclass(frozen=True, slots=True, eq=False)
class Gather(Rule):
    """Reads by index tensors.

    ``place`` gives the coordinates in the source of every element of the result:

        Gather(lambda at, index, x, indices: (index(at[0]), at[1]))   # out[i, j] = x[indices[i], j]

    A coordinate of the point itself is one that the source has too, or the source's axis has size
    1.  An index is one of its axis, of which negative ones count from the end if
    ``counts_from_end``; one outside raises IndexRangeError, in the name of ``asked`` or the op.
    """

    name: ClassVar[str] = "gather"

    place: PlaceRule
    #: Which input is the source.
    source: int = 0
    counts_from_end: bool = True
    #: Whether what an index outside selects is 0, instead of an error.
    drops: bool = False
    asked: Asked = None

    def declared(self, op: str) -> Self:
        """Return it as the rule of an op: errors name the op, unless they name another."""
        return self if self.asked is not None else replace(self, asked=op)

    def holds_indices(self, position: int) -> bool:
        """Whether the input at a position is an index tensor."""
        return position != self.source

    def places(
        self, points: Shape, shape: Shape, types: Sequence[TensorType | None],
        attrs: Mapping[str, Any],
    ) -> Place:  # fmt: skip
        """Return the coordinates in the source, of a shape, for all points of the result."""
        return places(self.place, points, shape, types, attrs)


def named(asked: Asked, attrs: Mapping[str, Any]) -> str:
    """Return which op errors name."""
    assert asked is not None, "the declaration of an op says whom its errors name"
    return asked if isinstance(asked, str) else asked(**attrs)
