"""Values in lanes: what becomes a vector when neighbours are joined, and what stays a scalar."""

from __future__ import annotations

from dataclasses import dataclass

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
        #: Of wide values, how their elements follow each other where it is known.
        self.lanes: dict[Node, Lanes] = {}
        #: Of masks, a scalar that says whether any lane is active, where that is simple.
        self.any_active: dict[Node, Node] = {}
        #: Which lanes are active; None for all.  At least one is, wherever memory is touched.
        self.mask: Node | None = None
        self.results: dict[Node, tuple[Node, ...]] = {}
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
        if len(inputs) != 2 or inputs[0].value_type.dtype is not self.kernel.index:
            return
        found = [self.lanes.get(i) or (None if i in self.wide else Lanes(i, 0)) for i in inputs]
        x, y = found
        if x is None or y is None:
            return
        if name in ("add", "sub"):
            stride = x.stride + y.stride if name == "add" else x.stride - y.stride
            self.lanes[new] = Lanes(self.alu(name, x.first, y.first), stride)
        elif name == "mul" and (factor := _factor(x, y)) is not None:
            self.lanes[new] = Lanes(self.alu(name, x.first, y.first), factor)
        elif name in ("lt", "le") and x.stride > 0 and y.stride == 0:
            self.any_active[new] = self.make("alu", BOOL, (x.first, y.first), name)
        elif name == "eq" and x.stride == 1 and y.stride == 0:
            behind = self.make("alu", BOOL, (x.first, y.first), "le")
            end = self.alu("add", x.first, self.index(self.width))
            ahead = self.make("alu", BOOL, (y.first, end), "lt")
            self.any_active[new] = self.alu("and", behind, ahead)

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


def _factor(x: Lanes, y: Lanes) -> int | None:
    """The stride of a product, where one side is a constant."""
    if y.stride == 0 and y.first.kind == "const":
        return x.stride * int(y.first.attr)
    if x.stride == 0 and x.first.kind == "const":
        return y.stride * int(x.first.attr)
    return None
