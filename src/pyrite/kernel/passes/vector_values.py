"""Values in lanes: what becomes a vector when neighbours are joined, and what stays a scalar."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Final

from pyrite.kernel.ir import BOOL, Kernel, Node, scalar
from pyrite.kernel.passes.rewrite import Rewriter


@dataclass(frozen=True, slots=True)
class Lanes:
    """A value that is ``first + stride * lane``, with the scalar ``first``."""

    first: Node
    stride: int


class VectorValues(Rewriter):
    """The part of `vectorize` that widens values, and knows how their elements lie."""

    def __init__(self, kernel: Kernel, width: int, varies: set[Node]) -> None:
        super().__init__(kernel)
        self.width = width
        self.varies = varies
        self.index_type = scalar(kernel.index)
        self.wide: set[Node] = set()
        #: How the elements of wide values follow each other, where that is known.
        self.lanes: dict[Node, Lanes] = {}
        #: A scalar that says whether any lane of a mask is active, where that is simple.
        self.any_active: dict[Node, Node] = {}
        #: Which lanes are active; None for all.  At least one is, wherever memory is touched.
        self.mask: Node | None = None
        self.results: dict[Node, tuple[Node, ...]] = {}
        #: What anything asks for.
        self.used = used(kernel)
        self.placed: set[Node] = set()

    def emit(self, node: Node) -> Node:
        """Put a node at the present place: a copy of it, if a loop's body is written twice."""
        if node in self.placed:
            node = Node(node.kind, node.type, node.inputs, node.attr, node.regions)
        self.placed.add(node)
        return super().emit(node)

    def made_wide(self, node: Node) -> Node:
        self.wide.add(node)
        return node

    def widen(self, node: Node) -> Node:
        """Return the value in all lanes."""
        if node in self.wide:
            return node
        type = node.value_type.with_width(self.width)
        if node.kind == "const":
            return self.made_wide(self.const(node.attr, type))
        return self.made_wide(self.make("splat", type, (node,)))

    def from_lanes(self, first: Node, stride: int) -> Node:
        """Return the vector first + stride * lane."""
        steps = tuple(stride * lane for lane in range(self.width))
        offsets = self.make("const", self.index_type.with_width(self.width), (), steps)
        node = self.made_wide(self.alu("add", self.widen(first), offsets))
        self.lanes[node] = Lanes(first, stride)
        return node

    def element(self, node: Node, lane: int) -> Node:
        if node not in self.wide:
            return node
        return self.make("extract", node.value_type.element, (node,), lane)

    def widened(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """The same operation in all lanes."""
        if (column := self.column(node, inputs)) is not None:
            return column
        type = node.value_type.with_width(self.width)
        if node.kind == "select" and inputs[0] not in self.wide:
            wide = (inputs[0], self.widen(inputs[1]), self.widen(inputs[2]))
        else:
            wide = tuple([self.widen(i) for i in inputs])  # type: ignore[assignment]
        if node.kind == "alu" and node.attr in ("div", "rem") and type.dtype.is_integer:
            wide = (wide[0], self.divisor(wide[1]))  # type: ignore[assignment]
        new = self.made_wide(self.make(node.kind, type, wide, node.attr))
        if node.kind == "alu":
            self.follow(new, node.attr, inputs)
        return new

    def divisor(self, y: Node) -> Node:
        """Lanes that are not active must not divide by zero."""
        if self.mask is None or (y.kind == "const" and y.attr not in (0, -1)):
            return y
        one = self.const(1, y.value_type)
        return self.make("select", y.type, (self.mask, y, one))

    def follow(self, new: Node, name: str, inputs: tuple[Node, ...]) -> None:
        """Note how the elements follow each other, or when any of them is true."""
        x, y = self.sides(inputs)
        if x is None or y is None:
            return
        if name in ("add", "sub"):
            stride = x.stride + y.stride if name == "add" else x.stride - y.stride
            self.lanes[new] = Lanes(self.alu(name, x.first, y.first), stride)
        elif name == "mul" and (factor := factor_of(x, y)) is not None:
            self.lanes[new] = Lanes(self.alu(name, x.first, y.first), factor)
        elif name in ("lt", "le") and x.stride > 0 and y.stride == 0:
            self.any_active[new] = self.make("alu", BOOL, (x.first, y.first), name)
        elif name == "eq" and x.stride == 1 and y.stride == 0:
            behind = self.make("alu", BOOL, (x.first, y.first), "le")
            end = self.alu("add", x.first, self.index(self.width))
            ahead = self.make("alu", BOOL, (y.first, end), "lt")
            self.any_active[new] = self.alu("and", behind, ahead)

    def alike(self, node: Node, inputs: tuple[Node, ...]) -> Node | None:
        """Return the scalar that a result is in all lanes; None where they may differ.

        Neighbours from a multiple of the width on have one quotient by such a multiple, as they
        stand in one row of so many columns, and are on one side of a bound that is one.
        """
        if node.kind != "alu" or node.attr not in _ALIKE:
            return None
        x, y = self.sides(inputs)
        if x is None or y is None:
            return None
        if node.attr in ("shr", "div"):
            is_alike = self.is_within(node.attr, x, y)
        else:
            first, bound = (x, y) if node.attr in ("lt", "ge") else (y, x)
            is_alike = (first.stride, bound.stride) == (1, 0) and all(
                multiple_of(side.first) % self.width == 0 for side in (x, y)
            )
        if not is_alike:
            return None
        return self.make("alu", node.value_type.element, (x.first, y.first), node.attr)

    def column(self, node: Node, inputs: tuple[Node, ...]) -> Node | None:
        """Return the vector of a rest that neighbours have one after the other, in one row."""
        if node.kind != "alu" or node.attr not in ("and", "rem"):
            return None
        x, y = self.sides(inputs)
        if x is None or y is None or not self.is_within(node.attr, x, y):
            return None
        return self.from_lanes(self.alu(node.attr, x.first, y.first), 1)

    def sides(self, inputs: tuple[Node, ...]) -> tuple[Lanes | None, Lanes | None]:
        """Return how the elements of two indices follow each other, where that is known."""
        if len(inputs) != 2 or inputs[0].value_type.dtype is not self.kernel.index:
            return None, None
        x, y = (self.lanes.get(i) or (None if i in self.wide else Lanes(i, 0)) for i in inputs)
        return x, y

    def is_within(self, name: str, x: Lanes, y: Lanes) -> bool:
        """Whether neighbours never cross a multiple of a constant by which they are divided.

        By shifts and masks that holds for negative numbers too, which round downwards there.
        """
        if x.stride != 1 or y.stride != 0 or y.first.kind != "const":
            return False
        number = int(y.first.attr)
        divisor = {"shr": 1 << max(number, 0), "and": number + 1}.get(name, number)
        if name == "and" and number & divisor:
            return False
        is_whole = divisor > 0 and divisor % self.width == 0
        if not is_whole or multiple_of(x.first) % self.width:
            return False
        return name in ("shr", "and") or is_natural(x.first)

    def any_of(self, mask: Node) -> Node:
        if (known := self.any_active.get(mask)) is not None:
            return known
        found = [self.element(mask, lane) for lane in range(self.width)]
        while len(found) > 1:
            found = [self.alu("or", x, y) for x, y in zip(found[::2], found[1::2], strict=True)]
        return found[0]

    def both(self, mask: Node | None, also: Node | None) -> Node | None:
        """Return the mask where both hold; scalar only if both are, None for always."""
        if mask is None or also is None:
            return also if mask is None else mask
        if mask not in self.wide and also not in self.wide:
            return self.alu("and", mask, also)
        return self.made_wide(self.alu("and", self.widen(mask), self.widen(also)))


#: What lanes may agree on: quotients, and sides of a bound.
_ALIKE: Final = frozenset(("shr", "div", "lt", "ge", "le", "gt"))


def multiple_of(index: Node, depth: int = 8) -> int:
    """Return a number of which an index is a multiple, 0 where it is 0: the largest that is seen.

    Indices do not overflow (see `simplify_index`).
    """
    if index.kind == "const" and isinstance(index.attr, int):
        return abs(index.attr)
    if index.kind != "alu" or depth == 0 or len(index.inputs) != 2:
        return 1
    x, y = (multiple_of(i, depth - 1) for i in index.inputs)
    if index.attr in ("add", "sub"):
        return gcd(x, y)
    return x * y if index.attr == "mul" else 1


def is_natural(index: Node, depth: int = 8) -> bool:
    """Whether an index is seen to be never negative: made of counts of invocations."""
    if index.kind == "const":
        return isinstance(index.attr, int) and index.attr >= 0
    if index.kind == "alu" and index.attr in ("add", "mul") and depth > 0:
        return all(is_natural(i, depth - 1) for i in index.inputs)
    return index.kind == "builtin"


def factor_of(x: Lanes, y: Lanes) -> int | None:
    """Return the stride of a product, where one side is a constant, or none has lanes."""
    if x.stride == 0 and y.stride == 0:
        return 0
    if y.stride == 0 and y.first.kind == "const":
        return x.stride * int(y.first.attr)
    if x.stride == 0 and x.first.kind == "const":
        return y.stride * int(x.first.attr)
    return None


def used(kernel: Kernel) -> set[Node]:
    """Return the nodes that are inputs of others, or yielded."""
    found = {i for node in kernel.walk() for i in node.inputs}
    return found.union(*[r.yields for node in kernel.walk() for r in node.regions])
