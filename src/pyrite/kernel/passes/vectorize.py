"""Makes one invocation do the work of ``width`` neighbours on axis 0, in vectors.

Requires a legal kernel whose workgroup is a multiple of the width on axis 0, without subgroup
operations; where a value that varies is a vector already, or these do not hold, the kernel is
returned as it is.  Guarantees an equal one whose workgroup is so many times shorter on axis 0.

What varies between the neighbours becomes a vector, what does not stays a scalar.  Indices known as
a scalar plus a multiple of the lane make consecutive loads and stores; others gather and scatter.
Where neighbours part ways both ways are gone under masks, each only if a lane takes it; a counted
loop that begins at the lane and ends together runs without masks up to the last round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pyrite.kernel.ir import BOOL, Kernel, Node, Region, Type, scalar, walk
from pyrite.kernel.passes.rewrite import Rewriter
from pyrite.kernel.uniformity import varying
from pyrite.types import bool_


def vectorize(kernel: Kernel, width: int) -> Kernel:
    """Return the kernel with neighbours joined, or the kernel itself where that cannot be."""
    varies = varying(kernel)
    if width == 1 or kernel.workgroup_size[0] % width or not _can_widen(kernel, varies):
        return kernel
    x, y, z = kernel.workgroup_size
    new = _Vectorizer(kernel, width, varies).run()
    return replace(new, workgroup_size=(x // width, y, z))


def _can_widen(kernel: Kernel, varies: set[Node]) -> bool:
    for node in kernel.walk():
        if node.kind.startswith("subgroup"):
            return False
        value = node.inputs[2] if node.kind == "store" else node
        if value.type is not None and value.type.width > 1 and (node in varies or value in varies):
            return False
    return True


@dataclass(frozen=True, slots=True)
class Lanes:
    """A value that is ``first + stride * lane``, with the scalar ``first``."""

    first: Node
    stride: int


class _Vectorizer(Rewriter):
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

    def visit(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.kind == "result":
            return self.results[node.inputs[0]][int(node.attr)]
        if (rule := _RULES.get(node.kind)) is not None:
            return rule(self, node, inputs)
        if self.wide.isdisjoint(inputs):
            return self.keep(node, inputs)
        return self.widened(node, inputs)

    # ---- scalars and vectors ----

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

    def builtin(self, node: Node, _: tuple[Node, ...]) -> Node:
        name, axis = node.attr
        node = self.emit(node)
        if name == "local_index" or (name == "local_id" and axis == 0):
            return self.from_lanes(self.alu("mul", node, self.index(self.width)), 1)
        return node

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

    # ---- memory ----

    def alloc(self, node: Node, _: tuple[Node, ...]) -> Node:
        space, size, access = node.attr
        if space == "shared":
            return self.emit(node)
        # Lanes follow each other for each element, so that equal indices are consecutive.
        return self.make("alloc", node.type, (), (space, size * self.width, access))

    def in_private(self, index: Node) -> tuple[Node, bool]:
        if index in self.wide:
            size = self.widen(self.index(self.width))
            return self.alu("add", self.alu("mul", index, size), self.iota()), False
        return self.alu("mul", index, self.index(self.width)), True

    def iota(self) -> Node:
        type = self.index_type.with_width(self.width)
        return self.make("const", type, (), tuple(range(self.width)))

    def place(self, memory: Node, index: Node) -> tuple[Node, bool]:
        """Return where ``width`` elements are: a scalar if consecutive; and if it is aligned."""
        if _is_private(memory):
            return self.in_private(index)
        lanes = self.lanes.get(index)
        if lanes is not None and lanes.stride == 1:
            return lanes.first, False
        return self.widen(index), False

    def load(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        memory, index = inputs[:2]
        given = inputs[2] if len(inputs) == 4 else None
        is_alike = index not in self.wide and given not in self.wide
        if is_alike and not _is_private(memory):
            return self.emit(node.with_inputs(inputs))
        type = node.value_type.with_width(self.width)
        where, is_aligned = self.place(memory, index)
        new_inputs: tuple[Node, ...] = (memory, where)
        if (mask := self.both(self.mask, given)) is not None:
            other = self.widen(inputs[3]) if given is not None else self.zero(type)
            new_inputs = (*new_inputs, mask, other)
        return self.made_wide(self.make("load", type, new_inputs, is_aligned))

    def zero(self, type: Type) -> Node:
        return self.const({"bool": False, "float": 0.0}.get(type.dtype.kind, 0), type)

    def store(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        memory, index, value = inputs[:3]
        if self.wide.isdisjoint(inputs) and not _is_private(memory):
            return self.emit(node.with_inputs(inputs))
        where, is_aligned = self.place(memory, index)
        new_inputs: tuple[Node, ...] = (memory, where, self.widen(value))
        given = inputs[3] if len(inputs) == 4 else None
        if (mask := self.both(self.mask, given)) is not None:
            new_inputs = (*new_inputs, mask)
        return self.make("store", None, new_inputs, is_aligned)

    def atomic(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """One after the other."""
        name, has_mask = node.attr
        memory, *operands = inputs[: len(inputs) - has_mask]
        mask = self.both(self.mask, inputs[-1] if has_mask else None)
        found = []
        for lane in range(self.width):
            of_lane = (memory, *(self.element(o, lane) for o in operands))
            if mask is not None:
                of_lane = (*of_lane, self.element(mask, lane))
            found.append(self.make("atomic", node.type, of_lane, (name, mask is not None)))
        type = node.value_type.with_width(self.width)
        return self.made_wide(self.make("make", type, tuple(found)))

    def prefetch(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """Keep the prefetch of an index that all lanes share; drop others."""
        return node if inputs[1] in self.wide else self.keep(node, inputs)

    def error(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        memory, failed, code = inputs
        failed = self.both(self.mask, failed) or failed
        if code not in self.wide:
            return self.make("error", None, (memory, failed, code))
        lanes = range(self.width)
        each = [(memory, self.element(failed, i), self.element(code, i)) for i in lanes]
        return [self.make("error", None, inputs) for inputs in each][-1]

    # ---- control ----

    def part(self, region: Region, parameters: Sequence[Node] = ()) -> tuple[list[Node], _Values]:
        """Return the new nodes of a region and what it yields."""
        outer, self.body = self.body, []
        self.new.update(zip(region.parameters, parameters, strict=True))
        self.copy(region.body)
        body, self.body = self.body, outer
        return body, self.of(region.yields)

    def into(self, body: list[Node], values: Sequence[Node], like: Sequence[bool]) -> _Values:
        """Append to a body what makes its values as wide as is asked."""
        outer, self.body = self.body, body
        wide = tuple([self.widen(v) if w else v for v, w in zip(values, like, strict=True)])
        self.body = outer
        return wide

    def finish(self, node: Node, control: Node, yields: Sequence[Node]) -> Node:
        """Emit a control node and its results."""
        self.emit(control)
        found = []
        for i, y in enumerate(yields):
            result = self.make("result", y.type, (control,), i)
            found.append(self.made_wide(result) if y in self.wide else result)
        self.results[node] = tuple(found)
        return control

    def branch(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        (condition,) = inputs
        if condition in self.wide:
            return self.parted(node, condition)
        parts = [self.part(r) for r in node.regions]
        like = [not self.wide.isdisjoint(pair) for pair in zip(*(y for _, y in parts), strict=True)]
        regions = []
        for body, yields in parts:
            wide = self.into(body, yields, like)
            regions.append(Region((), tuple(body), wide))
        control = Node("if", None, (condition,), None, tuple(regions))
        return self.finish(node, control, regions[0].yields)

    def parted(self, node: Node, condition: Node) -> Node:
        """Go both ways, each under its mask."""
        outer = self.mask
        opposite = self.made_wide(self.alu("not", condition))
        sides = []
        for region, mask in zip(node.regions, (condition, opposite), strict=True):
            self.mask = self.both(outer, mask)
            sides.append(self.side(region))
        self.mask = outer
        self.results[node] = tuple(
            self.made_wide(self.make("select", self.widen(x).type, pair))
            for x, y in zip(*sides, strict=True)
            if (pair := (condition, self.widen(x), self.widen(y)))
        )
        return condition

    def side(self, region: Region) -> _Values:
        """Run one side under the mask; memory is touched only if a lane is active."""
        assert self.mask is not None
        if all(n.effect == "pure" for n in walk(region)):
            self.copy(region.body)
            return self.of(region.yields)
        condition = self.any_of(self.mask)
        body, yields = self.part(region)
        instead: list[Node] = []
        zeros = tuple(Node("const", y.type, (), self.zero_of(y)) for y in yields)
        instead.extend(zeros)
        regions = (Region((), tuple(body), yields), Region((), tuple(instead), zeros))
        control = self.emit(Node("if", None, (condition,), None, regions))
        found = []
        for i, y in enumerate(yields):
            result = self.make("result", y.type, (control,), i)
            found.append(self.made_wide(result) if y in self.wide else result)
        return tuple(found)

    @staticmethod
    def zero_of(node: Node) -> bool | int | float:
        return {"bool": False, "float": 0.0}.get(node.value_type.dtype.kind, 0)

    def counted(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        start, stop, *initial = inputs
        if start not in self.wide and stop not in self.wide:
            return self.together(node, inputs)
        lanes = self.lanes.get(start)
        if lanes is not None and lanes.stride > 0 and stop not in self.wide and self.mask is None:
            return self.staggered(node, lanes, stop, initial)
        return self.parting_loop(node, inputs)

    def parameters(self, like: Sequence[Node], first: int = 0) -> tuple[Node, ...]:
        """Make parameters for a region, as wide as the values."""
        made = tuple(Node("parameter", v.type, (), first + i) for i, v in enumerate(like))
        self.wide.update(p for p, v in zip(made, like, strict=True) if v in self.wide)
        return made

    def together(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """A loop that all lanes run the same number of times."""
        bounds = 2 if node.kind == "for" else 0
        carried = node.regions[-1].parameters[bounds // 2 :]
        initial = [
            self.widen(v) if p in self.varies else v
            for v, p in zip(inputs[bounds:], carried, strict=True)
        ]
        like = [v in self.wide for v in initial]
        regions = []
        for region in node.regions:
            counter = (Node("parameter", self.index_type, (), 0),) if bounds else ()
            parameters = (*counter, *self.parameters(initial, len(counter)))
            body, yields = self.part(region, parameters)
            is_condition = node.kind == "while" and region is node.regions[0]
            wide = yields if is_condition else self.into(body, yields, like)
            regions.append(Region(parameters, tuple(body), wide))
        new_inputs = (*inputs[:bounds], *initial)
        control = Node(node.kind, None, new_inputs, node.attr, tuple(regions))
        return self.finish(node, control, initial)

    def staggered(self, node: Node, lanes: Lanes, stop: Node, initial: Sequence[Node]) -> Node:
        """Lanes begin one after the other and end together: the last rounds need a mask."""
        wide = [self.widen(v) for v in initial]
        first = lanes.first
        if self.kernel.index.kind == "int":
            lead = self.index(lanes.stride * (self.width - 1))
            everyone = self.alu("sub", stop, lead)
            first, *wide = self.rounds(node, lanes.stride, (first, everyone), wide, None)
        _, *wide = self.rounds(node, lanes.stride, (first, stop), wide, stop)
        self.results[node] = tuple(wide)
        return stop

    def rounds(
        self,
        node: Node,
        stride: int,
        bounds: tuple[Node, Node],
        initial: Sequence[Node],
        limit: Node | None,
    ) -> list[Node]:
        """Run a loop on the counter of lane 0; with a limit, under the mask of who is below it.

        Return the counter and the carried values after it.
        """
        step = node.attr[0]
        counter = Node("parameter", self.index_type, (), 0)
        after, *carried = self.parameters([bounds[0], *initial], 1)
        outer, self.body = self.body, []
        numbers = self.from_lanes(counter, stride)
        if limit is not None:
            below = (numbers, self.widen(limit))
            self.mask = self.make("alu", numbers.value_type.with_dtype(bool_), below, "lt")
            self.made_wide(self.mask)
        self.new.update(zip(node.regions[0].parameters, (numbers, *carried), strict=True))
        self.copy(node.regions[0].body)
        yields = [self.widen(y) for y in self.of(node.regions[0].yields)]
        if self.mask is not None:
            yields = [self.merge(y, old) for y, old in zip(yields, carried, strict=True)]
        following = self.alu("add", counter, self.index(step))
        self.mask = None
        region = Region((counter, after, *carried), tuple(self.body), (following, *yields))
        self.body = outer
        control = self.emit(
            Node("for", None, (*bounds, bounds[0], *initial), (step, False), (region,))
        )
        found = [self.make("result", y.type, (control,), i) for i, y in enumerate(region.yields)]
        self.wide.update(found[1:])
        return found

    def merge(self, new: Node, old: Node) -> Node:
        """Return new where lanes are active, else old."""
        assert self.mask is not None
        return self.made_wide(self.make("select", new.type, (self.mask, new, old)))

    def parting_loop(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """A loop that lanes leave one by one: it runs while any is left."""
        if node.kind == "while" and self.varies.isdisjoint((node,)):
            return self.together(node, inputs)
        state = [self.widen(v) for v in (inputs[:1] + inputs[2:] if _counts(node) else inputs)]
        stop = self.widen(inputs[1]) if _counts(node) else None
        outer = self.mask
        active = self.both(outer, self.goes_on(node, state, stop))
        assert active is not None
        initial = [*state, self.widen(active)]
        tests = self.parameters(initial)
        kept, self.body = self.body, []
        is_any = self.any_of(tests[-1])
        condition = Region(tests, tuple(self.body), (is_any,))
        self.body = []
        parameters = self.parameters(initial)
        *old, self.mask = parameters
        self.new.update(zip(node.regions[-1].parameters, old, strict=True))
        self.copy(node.regions[-1].body)
        yields = list(self.of(node.regions[-1].yields))
        if _counts(node):
            step = self.widen(self.index(node.attr[0]))
            yields.insert(0, self.made_wide(self.alu("add", old[0], step)))
        yields = [self.merge(self.widen(y), o) for y, o in zip(yields, old, strict=True)]
        still = self.both(self.mask, self.goes_on(node, yields, stop))
        assert still is not None
        body = Region(parameters, tuple(self.body), (*yields, still))
        self.body, self.mask = kept, outer
        control = self.emit(Node("while", None, tuple(initial), None, (condition, body)))
        found = [self.make("result", v.type, (control,), i) for i, v in enumerate(state)]
        self.wide.update(found)
        self.results[node] = tuple(found[1:] if _counts(node) else found)
        return control

    def goes_on(self, node: Node, state: Sequence[Node], stop: Node | None) -> Node:
        """Return which lanes run another round."""
        if stop is not None:
            type = stop.value_type.with_dtype(bool_)
            return self.made_wide(self.make("alu", type, (state[0], stop), "lt"))
        condition = node.regions[0]
        self.new.update(zip(condition.parameters, state, strict=True))
        self.copy(condition.body)
        return self.widen(self.new[condition.yields[0]])


_Values = tuple[Node, ...]


def _factor(x: Lanes, y: Lanes) -> int | None:
    """The stride of a product, where one side is a constant."""
    if y.stride == 0 and y.first.kind == "const":
        return x.stride * int(y.first.attr)
    if x.stride == 0 and x.first.kind == "const":
        return y.stride * int(x.first.attr)
    return None


def _counts(node: Node) -> bool:
    return node.kind == "for"


def _is_private(memory: Node) -> bool:
    return memory.kind == "alloc" and bool(memory.attr[0] == "private")


_RULES: dict[str, Callable[[_Vectorizer, Node, _Values], Node]] = {
    "builtin": _Vectorizer.builtin, "alloc": _Vectorizer.alloc, "load": _Vectorizer.load,
    "store": _Vectorizer.store, "atomic": _Vectorizer.atomic, "prefetch": _Vectorizer.prefetch,
    "error": _Vectorizer.error, "if": _Vectorizer.branch, "for": _Vectorizer.counted,
    "while": _Vectorizer.parting_loop,
}  # fmt: skip
