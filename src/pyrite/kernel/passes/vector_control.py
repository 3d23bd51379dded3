"""Branches and loops of several lanes, which may part ways: then each way runs under a mask."""

from __future__ import annotations

from collections.abc import Sequence

from pyrite.kernel.ir import Node, Region, walk
from pyrite.kernel.passes.vector_near import NearLanes
from pyrite.kernel.passes.vector_values import Lanes
from pyrite.types import bool_

#: What a region yields.
Yields = tuple[Node, ...]


class VectorControl(NearLanes):
    """The part of `vectorize` that branches and loops.

    Nodes with regions become nodes whose results are in ``results``.
    """

    def part(self, region: Region, parameters: Sequence[Node] = ()) -> tuple[list[Node], Yields]:
        """Return the new nodes of a region and what it yields."""
        outer, self.body = self.body, []
        self.new.update(zip(region.parameters, parameters, strict=True))
        self.copy(region.body)
        body, self.body = self.body, outer
        return body, self.of(region.yields)

    def into(self, body: list[Node], values: Sequence[Node], like: Sequence[bool]) -> Yields:
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
            [self.chosen(condition, x, y) for x, y in zip(*sides, strict=True)]
        )
        return condition

    def chosen(self, condition: Node, x: Node, y: Node) -> Node:
        """Return x in the lanes where a condition holds, else y."""
        pair = (condition, self.widen(x), self.widen(y))
        made = self.made_wide(self.make("select", pair[1].type, pair))
        self.note_select(made, condition, x, y)
        return made

    def side(self, region: Region) -> Yields:
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
            Node("for", None, (*bounds, bounds[0], *initial), (step, False, False), (region,))
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


def _counts(node: Node) -> bool:
    return node.kind == "for"
