"""Loops and branches: blocks, and phis for what they carry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyrite.kernel.ir import Node, Region, scalar
from pyrite.kernel.target.llvm.assembly import Assembly
from pyrite.kernel.target.llvm.spelling import type_of
from pyrite.types import int64, uint32


class Control(Assembly):
    """The part of the printer that loops and branches."""

    def phi(self, line: int, name: str, type: str, *incoming: tuple[str, str]) -> None:
        pairs = ", ".join(f"[ {value}, %{block} ]" for value, block in incoming)
        self.lines[line] = f"  {name} = phi {type} {pairs}"

    def for_(self, node: Node) -> None:
        region = node.regions[0]
        step, unroll, _ = node.attr
        carried = [self.names[i] for i in node.inputs[2:]]
        if unroll:
            for counter in range(node.inputs[0].attr, node.inputs[1].attr, step):
                self.bind(region, [str(counter), *carried])
                self.region(region)
                carried = [self.names[y] for y in region.yields]
            self.results[node] = carried
        else:
            self.counted(node, region, step, carried)

    def bind(self, region: Region, values: Sequence[str]) -> None:
        self.names.update(zip(region.parameters, values, strict=True))

    def counted(self, node: Node, region: Region, step: int, initial: Sequence[str]) -> None:
        """Tested at its end, and once before: one jump in each round."""
        start, stop = node.inputs[:2]
        types = [type_of(p.value_type) for p in region.parameters]
        less = f"icmp {'ult' if self.kernel.index is uint32 else 'slt'} {types[0]}"
        body, after = self.labels("loop", "after")
        names = self.hold(region)
        before = self.block
        enters = self.value(f"{less} {self.names[start]}, {self.names[stop]}")
        self.line(f"br i1 {enters}, label %{body}, label %{after}")
        self.label(body)
        inside = [(self.reserve(), self.fresh()) for _ in types]
        self.bind(region, [name for _, name in inside])
        self.region(region)
        counter = self.value(f"add {types[0]} {inside[0][1]}, {step}")
        again = self.value(f"{less} {counter}, {self.names[stop]}")
        self.line(f"br i1 {again}, label %{body}, label %{after}")
        first = [self.names[start], *initial]
        last = [counter, *(self.names[y] for y in region.yields)]
        for (line, name), type, x, y in zip(inside, types, first, last, strict=True):
            self.phi(line, name, type, (x, before), (y, self.block))
        end = self.block
        self.names.update(names)
        self.label(after)
        results = []
        for type, x, y in zip(types[1:], initial, last[1:], strict=True):
            results.append(self.fresh())
            self.phi(self.reserve(), results[-1], type, (x, before), (y, end))
        self.results[node] = results

    def hold(self, region: Region) -> dict[Node, str]:
        """Have an inner loop of products take indices from outside as they are; return their names.

        LLVM makes such sums of strides anew in each turn, to save registers: 12 instructions beside
        24 that multiply, and vectors wait in memory.  It does not look into what is frozen.
        What differs by a number is one place: numbers are part of an address.  Indices of 32 bits
        are left alone, of which LLVM then does not know that their sums fit.
        """
        has_products = sum(map(_is_fma, region.yields)) >= _MANY
        if (
            any(n.regions for n in region.body)
            or not has_products
            or self.kernel.index is not int64
        ):
            return {}
        known = {*region.body, *region.parameters}
        names: dict[Node, str] = {}
        held: dict[Terms, tuple[str, int]] = {}
        index = scalar(self.kernel.index)
        type = type_of(index)
        for x in (x for n in region.body for x in n.inputs):
            if x in known or x.kind in ("buffer", "alloc", "const") or x.value_type is not index:
                continue
            known.add(x)
            terms, number = _linear(x)
            names[x] = name = self.names[x]
            if terms not in held:
                held[terms] = self.value(f"freeze {type} {name}"), number
            name, other = held[terms]
            more = number - other
            self.names[x] = self.value(f"add {type} {name}, {more}") if more else name
        return names

    def while_(self, node: Node) -> None:
        condition, region = node.regions
        types = [type_of(i.value_type) for i in node.inputs]
        test, body, after = self.labels("while", "do", "after")
        before = self.block
        self.line(f"br label %{test}")
        self.label(test)
        carried = [(self.reserve(), self.fresh()) for _ in types]
        names = [name for _, name in carried]
        self.bind(condition, names)
        self.region(condition)
        self.line(f"br i1 {self.names[condition.yields[0]]}, label %{body}, label %{after}")
        self.label(body)
        self.bind(region, names)
        self.region(region)
        self.line(f"br label %{test}")
        ends = zip(node.inputs, region.yields, strict=True)
        for (line, name), type, (x, y) in zip(carried, types, ends, strict=True):
            self.phi(line, name, type, (self.names[x], before), (self.names[y], self.block))
        self.label(after)
        self.results[node] = names

    def if_(self, node: Node) -> None:
        yes, no, after = self.labels("then", "else", "after")
        self.line(f"br i1 {self.names[node.inputs[0]]}, label %{yes}, label %{no}")
        incoming = []
        for label, region in zip((yes, no), node.regions, strict=True):
            self.label(label)
            self.region(region)
            incoming.append(([self.names[y] for y in region.yields], self.block))
            self.line(f"br label %{after}")
        self.label(after)
        results = []
        for i, y in enumerate(node.regions[0].yields):
            results.append(self.fresh())
            pairs = [(names[i], block) for names, block in incoming]
            self.phi(self.reserve(), results[-1], type_of(y.value_type), *pairs)
        self.results[node] = results


def _is_fma(node: Node) -> bool:
    return node.kind == "alu" and node.attr == "fma"


#: Values, each with what it is multiplied by.
Terms = frozenset[tuple[Node, int]]


def _linear(x: Node) -> tuple[Terms, int]:
    """Return what an index is a sum of, and what number is added."""
    found: dict[Node, int] = {}
    number = _add(found, x, 1)
    return frozenset(found.items()), number


def _add(found: dict[Node, int], x: Node, factor: int) -> int:
    """Add so many times an index to what is found; return the number in it."""
    if x.kind == "const":
        return factor * int(x.attr)
    if x.kind == "alu" and x.attr == "add":
        return sum(_add(found, part, factor) for part in x.inputs)
    if x.kind == "alu" and x.attr == "mul":
        left, right = x.inputs
        for by, other in ((left, right), (right, left)):
            if by.kind == "const":
                return _add(found, other, factor * int(by.attr))
    found[x] = found.get(x, 0) + factor
    return 0


#: Sums of products that a loop carries, from which on they need most registers.
_MANY: Final = 8
