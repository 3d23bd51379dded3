"""Scatters: updates meet the elements of a base, at places of which some coordinates are read.

Updates come in row-major order, on every device: of several that are assigned to one place the
last stays, and a sum of floats is that of the updates in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from pyrite.op.index import Windows
from pyrite.op.rule.coordinate import Place, PlaceRule, places
from pyrite.op.rule.gather import Asked
from pyrite.op.rule.rule import Rule
from pyrite.types import Number, Shape, TensorType


@dataclass(frozen=True, slots=True, eq=False)
class Collision:
    """What becomes of an element when an update comes to it, against the algebra."""

    join: Callable[[Any, Any, Any], Any]
    #: What is there where there is no base.
    start: Number = 0


ASSIGN = Collision(lambda k, old, new: new)
ADD = Collision(lambda k, old, new: old + new)
MULTIPLY = Collision(lambda k, old, new: old * new, 1)
MINIMUM = Collision(lambda k, old, new: k.minimum(old, new))
MAXIMUM = Collision(lambda k, old, new: k.maximum(old, new))

#: The collisions by the names that users give.
COLLISIONS: Mapping[str, Collision] = {
    "assign": ASSIGN,
    "add": ADD,
    "mul": MULTIPLY,
    "min": MINIMUM,
    "max": MAXIMUM,
}


class Writes(Rule):
    """Writes to places: what the rules of scatters share."""

    __slots__ = ()

    name: ClassVar[str] = "scatter"

    place: PlaceRule
    counts_from_end: bool
    drops: bool
    asked: Asked

    def declared(self, op: str) -> Self:
        """Return it as the rule of an op: errors name the op, unless they name another."""
        return self if self.asked is not None else replace(self, asked=op)  # type: ignore[type-var]

    def holds_indices(self, position: int) -> bool:
        """Whether the input at a position is an index tensor."""
        return True

    def places(
        self, points: Shape, shape: Shape, types: Sequence[TensorType | None],
        attrs: Mapping[str, Any],
    ) -> Place:  # fmt: skip
        """Return the coordinates in the result, of a shape, for all points that are written."""
        return places(self.place, points, shape, types, attrs)


@dataclass(frozen=True, slots=True, eq=False)
class Scatter(Writes):
    """Writes by index tensors, from a base on.

    ``place`` gives the coordinates in the result of every update:

        Scatter(lambda at, index, x, indices, y: (index(at[0]), at[1]), ADD, base=0, updates=2)

    is out[indices[i], j] += y[i, j].  ``points`` is the shape of the updates, to which those that
    are given broadcast; without it, it is theirs.  The result begins as the base, stretched to its
    shape, or as the start of the collision; without updates each is one.  Indices are as in
    `Gather`; what is written outside is dropped where ``drops``.
    """

    place: PlaceRule
    #: What becomes of an element that is written to, or a function of the attributes that says so.
    collision: Collision | Callable[..., Collision]
    base: int | None = None
    updates: int | None = None
    points: Callable[..., Shape] | None = None
    counts_from_end: bool = True
    drops: bool = False
    asked: Asked = None
    #: For updates that are added up, what promises that each goes to a tap of its own window, whose
    #: position its index is; None, also as a result, promises nothing.
    windows: Callable[..., Windows | None] | None = None

    def holds_indices(self, position: int) -> bool:
        """Whether the input at a position is an index tensor."""
        return position not in (self.base, self.updates)

    def collides(self, attrs: Mapping[str, Any]) -> Collision:
        """Return what becomes of an element that is written to."""
        found = self.collision
        return found if isinstance(found, Collision) else found(**attrs)

    def stays_in(
        self, types: Sequence[TensorType | None], attrs: Mapping[str, Any]
    ) -> Windows | None:
        """Return the windows in which the updates are promised to stay, None without a promise."""
        return None if self.windows is None else self.windows(*types, **attrs)

    def space(self, types: Sequence[TensorType | None], attrs: Mapping[str, Any]) -> Shape:
        """Return the shape of the updates."""
        if self.points is not None:
            return self.points(*types, **attrs)
        given = None if self.updates is None else types[self.updates]
        assert given is not None, "a scatter without updates says how many points it has"
        return given.shape


@dataclass(frozen=True, slots=True, eq=False)
class LastWrite(Writes):
    """Whether no later write goes to the same place: what a scatter that assigns is made of.

    The result has an element for each write; ``shape`` is that of what would be written to.
    """

    place: PlaceRule
    shape: Callable[..., Shape]
    counts_from_end: bool = True
    drops: bool = False
    asked: Asked = None
