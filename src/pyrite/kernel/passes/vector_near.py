"""Indices of neighbours that follow each other but for a few vectors: at borders, and ends of rows.

What a stencil reads beside an element stands beside what its neighbour reads, unless one of them is
at the border; and neighbours stand in one row, unless it ends between them.  So such an index is
``first + stride * lane`` if a scalar says so, which costs a jump, and gathered otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyrite.kernel.ir import BOOL, Kernel, Node
from pyrite.kernel.passes.vector_values import Lanes, VectorValues, factor_of, is_natural


@dataclass(frozen=True, slots=True)
class Near:
    """A value that is ``first + stride * lane`` where ``exact`` holds; None is always."""

    first: Node
    stride: int
    exact: Node | None


class NearLanes(VectorValues):
    """The part of `vectorize` that knows which indices nearly follow each other."""

    def __init__(self, kernel: Kernel, width: int, varies: set[Node]) -> None:
        super().__init__(kernel, width, varies)
        #: How the elements of indices that are not in ``lanes`` nearly lie.
        self.near: dict[Node, Near] = {}
        #: What wide comparisons of indices compare.
        self.orders: dict[Node, tuple[str, Near, Near]] = {}

    def near_of(self, node: Node) -> Near | None:
        """Return how the lanes of an index lie, if that is known."""
        if node not in self.wide:
            return Near(node, 0, None)
        if (lanes := self.lanes.get(node)) is not None:
            return Near(lanes.first, lanes.stride, None)
        return self.near.get(node)

    def widened(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """The same operation in all lanes."""
        new = super().widened(node, inputs)
        if node.kind == "select":
            self.note_select(new, *inputs)
        return new

    def follow(self, new: Node, name: str, inputs: tuple[Node, ...]) -> None:
        """Note how the elements follow each other, always or nearly."""
        super().follow(new, name, inputs)
        is_index = len(inputs) == 2 and inputs[0].value_type.dtype is self.kernel.index
        if new in self.lanes or not is_index or self.kernel.index.kind != "int":
            return
        found = [self.near_of(i) for i in inputs]
        x, y = found
        if x is not None and y is not None:
            self.note_near(new, name, x, y)

    def note_near(self, new: Node, name: str, x: Near, y: Near) -> None:
        """Note how the lanes of an operation on two indices lie."""
        exact = self.holds(x.exact, y.exact)
        if name in ("add", "sub"):
            stride = x.stride + y.stride if name == "add" else x.stride - y.stride
            self.near[new] = Near(self.alu(name, x.first, y.first), stride, exact)
        elif name == "mul" and (factor := factor_of(_lanes(x), _lanes(y))) is not None:
            self.near[new] = Near(self.alu(name, x.first, y.first), factor, exact)
        elif name in ("div", "rem") and (x.stride, y.stride) == (1, 0):
            self.note_row(new, name, x, y, exact)
        elif name in _ORDERS:
            self.orders[new] = (name, x, y)
        elif name in ("min", "max"):
            self.note_chosen(new, ("le" if name == "min" else "ge", x, y), x, y)

    def note_row(self, new: Node, name: str, x: Near, y: Near, exact: Node | None) -> None:
        """Note the row or the column: neighbours stand in one row unless it ends before the last.

        Rests and quotients are C's, so that is said of indices that are not negative.
        """
        column = self.alu("rem", x.first, y.first)
        last = self.alu("add", column, self.index(self.width - 1))
        inside = self.make("alu", BOOL, (last, y.first), "lt")
        if not is_natural(x.first):
            positive = self.make("alu", BOOL, (x.first, self.index(0)), "ge")
            inside = self.alu("and", inside, positive)
        exact = self.holds(exact, inside)
        if name == "rem":
            self.near[new] = Near(column, 1, exact)
        else:
            self.near[new] = Near(self.alu("div", x.first, y.first), 0, exact)

    def note_select(self, new: Node, condition: Node, chosen: Node, other: Node) -> None:
        """Note how the lanes of a choice lie: nearly as one side, which most vectors have."""
        if chosen.value_type.dtype is self.kernel.index and (order := self.orders.get(condition)):
            self.note_chosen(new, order, self.near_of(chosen), self.near_of(other))

    def note_chosen(
        self, new: Node, order: tuple[str, Near, Near], chosen: Near | None, other: Near | None
    ) -> None:
        """Note a choice by an order: of two sides that fit the other one, else the one that does.

        `remainder` has what is inside there.
        """
        if other is not None and other.stride == 1:
            exact = self.side_of(order, others=True)
            self.near[new] = Near(other.first, 1, self.holds(exact, other.exact))
        elif chosen is not None and chosen.stride == 1:
            exact = self.side_of(order, others=False)
            self.near[new] = Near(chosen.first, 1, self.holds(exact, chosen.exact))

    def side_of(self, order: tuple[str, Near, Near], *, others: bool) -> Node:
        """Return a scalar that says whether no lane is in an order, or all are.

        Both sides are linear in the lane, so the lane that fails first is the first or the last.
        """
        name, x, y = order
        if others:
            name = _ORDERS[name]
        grows = x.stride - y.stride if name in ("lt", "le") else y.stride - x.stride
        at = self.width - 1 if grows > 0 else 0
        pair = (self.at_lane(x, at), self.at_lane(y, at))
        found = self.holds(x.exact, y.exact, self.make("alu", BOOL, pair, name))
        assert found is not None
        return found

    def at_lane(self, near: Near, lane: int) -> Node:
        """Return the value of one lane."""
        steps = near.stride * lane
        return self.alu("add", near.first, self.index(steps)) if steps else near.first

    def holds(self, *conditions: Node | None) -> Node | None:
        """Return a scalar that says whether all hold; None for always."""
        found: Node | None = None
        for condition in conditions:
            if condition is not None:
                found = condition if found is None else self.alu("and", found, condition)
        return found


def _lanes(near: Near) -> Lanes:
    return Lanes(near.first, near.stride)


#: Orders, and what holds where they do not.
_ORDERS: Final = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le"}
