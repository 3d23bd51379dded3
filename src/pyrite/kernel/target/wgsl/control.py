"""Loops and branches: what they carry and yield are variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyrite.kernel.ir import Node, Region, dtype_of
from pyrite.kernel.target.wgsl.text import Pieces, Text


class Control(Text):
    """The part of the printer that loops and branches."""

    def for_(self, node: Node) -> None:
        step, unroll, is_entered = node.attr
        (region,) = node.regions
        start, stop, *initial = node.inputs
        if unroll:
            self.unrolled(node, region, start, stop, step, initial)
            return
        carried = self.carried(initial, region.parameters[1:])
        type = region.parameters[0].value_type
        counter = self.name()
        self.values[region.parameters[0]] = (counter,)
        first, last = self.values[start][0], self.values[stop][0]
        advance = f"{counter} += {self.literal(step, type.dtype)}"

        def body() -> None:
            self.region(region)
            self.assign(carried, [self.values[y] for y in region.yields])

        variable = f"var {counter}: {self.type(type)} = {first}"
        if is_entered:
            self.line(f"{variable};")
            self.block("loop {", lambda: self.tested_at_its_end(body, advance, counter, last))
        else:
            self.block(f"for ({variable}; {counter} < {last}; {advance}) {{", body)
        self.results[node] = carried

    def tested_at_its_end(
        self, body: Callable[[], None], advance: str, counter: str, last: str
    ) -> None:
        body()

        def following() -> None:
            self.line(f"{advance};")
            self.line(f"break if {counter} >= {last};")

        self.block("continuing {", following)

    def unrolled(
        self,
        node: Node,
        region: Region,
        start: Node,
        stop: Node,
        step: int,
        initial: Sequence[Node],
    ) -> None:
        values = [self.values[i] for i in initial]
        counter, *parameters = region.parameters
        for number in range(start.attr, stop.attr, step):
            self.values[counter] = (self.literal(number, dtype_of(counter)),)
            self.values.update(zip(parameters, values, strict=True))
            self.region(region)
            values = [self.values[y] for y in region.yields]
        self.results[node] = values

    def while_(self, node: Node) -> None:
        condition, body = node.regions
        carried = self.carried(node.inputs, condition.parameters)
        self.values.update(zip(body.parameters, carried, strict=True))

        def fill() -> None:
            self.region(condition)
            self.line(f"if (!({self.values[condition.yields[0]][0]})) {{ break; }}")
            self.region(body)
            self.assign(carried, [self.values[y] for y in body.yields])

        self.block("loop {", fill)
        self.results[node] = carried

    def if_(self, node: Node) -> None:
        then, otherwise = node.regions
        results = [self.variables(y.value_type, None) for y in then.yields]

        def fill(region: Region) -> None:
            self.region(region)
            self.assign(results, [self.values[y] for y in region.yields])

        opening = f"if ({self.values[node.inputs[0]][0]}) {{"
        if otherwise.body or otherwise.yields:
            self.block(opening, lambda: fill(then), "} else {")
            self.depth += 1
            fill(otherwise)
            self.depth -= 1
            self.line("}")
        else:
            self.block(opening, lambda: fill(then))
        self.results[node] = results

    def carried(self, initial: Sequence[Node], parameters: Sequence[Node]) -> list[Pieces]:
        variables = [self.variables(i.value_type, self.values[i]) for i in initial]
        self.values.update(zip(parameters, variables, strict=True))
        return variables

    def assign(self, targets: Sequence[Pieces], values: Sequence[Pieces]) -> None:
        """Assign all at once: a value may be another of the variables."""
        moves = [
            (target, value)
            for pieces, others in zip(targets, values, strict=True)
            for target, value in zip(pieces, others, strict=True)
            if target != value
        ]
        variables = {target for target, _ in moves}
        moves = [(t, self.let(v) if v.split(".")[0] in variables else v) for t, v in moves]
        for target, value in moves:
            self.line(f"{target} = {value};")

    def result(self, node: Node) -> None:
        self.values[node] = self.results[node.inputs[0]][node.attr]

    def barrier(self, node: Node) -> None:
        self.line("workgroupBarrier();")
        if node.attr == "storage":
            self.line("storageBarrier();")
