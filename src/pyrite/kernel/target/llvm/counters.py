"""Coordinates of a workgroup, counted from one workgroup to the next.

A function runs workgroups in turns, and the number of each is taken apart by sizes that come with
the launch: its row, its channel, its sample.  Such quotients and remainders are counters, carried
from turn to turn: a division takes up to a third of the time of a short row, a counter none.

Invariant: of each counter 0 <= rest < by, so that the one above goes up by 1 at most.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyrite.kernel.ir import Node
from pyrite.kernel.target.llvm.assembly import Assembly
from pyrite.kernel.target.llvm.spelling import element_type
from pyrite.kernel.workgroup_place import is_counted


@dataclass(frozen=True, slots=True)
class Counter:
    """The quotient and the rest of what is counted, None for the workgroup, by an argument."""

    of: Counter | None
    by: Node
    quotient: str
    rest: str


class Counters(Assembly):
    """The counters of a kernel, while it is printed."""

    def counter_of(self, node: Node) -> Counter | None:
        """Return the counter of a quotient or a remainder; None where it is divided."""
        x, y = node.inputs
        if not is_counted(self.kernel, x, y):
            return None
        of = None if x.kind == "builtin" else self.counter_of(x)
        found = self.counters.get((of, y))
        if found is None:
            number = len(self.counters)
            found = Counter(of, y, f"%quotient.{number}", f"%rest.{number}")
            self.counters[of, y] = found
        return found

    def begin_counters(self, first: str, branch: str, after: str) -> str:
        """Divide the number of the first workgroup; return the block that goes on to the turns."""
        self.counters: dict[tuple[Counter | None, Node], Counter] = {}
        for node in self.kernel.walk():
            if node.kind == "alu" and node.attr in ("div", "rem"):
                self.counter_of(node)
        if not self.counters:
            block = self.block
            self.line(branch.format(after))
            return block
        self.line(branch.format("start"))
        self.label("start")
        type = element_type(self.kernel.index)
        if type != "i64":
            first = self.value(f"trunc i64 {first} to {type}")
        for c in self.counters.values():
            of, by = first if c.of is None else f"{c.of.quotient}.first", self.names[c.by]
            self.line(f"{c.quotient}.first = udiv {type} {of}, {by}")
            self.line(f"{c.rest}.first = urem {type} {of}, {by}")
        self.line(f"br label %{after}")
        return "start"

    def carry_counters(self, before: str, after: str) -> None:
        """Name the counters of this turn; they come from before the first, or after another."""
        type = element_type(self.kernel.index)
        for c in self.counters.values():
            for x in (c.quotient, c.rest):
                self.line(f"{x} = phi {type} [ {x}.first, %{before} ], [ {x}.next, %{after} ]")

    def step_counters(self) -> None:
        """Go on to the next workgroup."""
        type = element_type(self.kernel.index)
        for c in self.counters.values():
            step = "1" if c.of is None else f"{c.of.rest}.carry"
            self.line(f"{c.rest}.more = add {type} {c.rest}, {step}")
            self.line(f"{c.rest}.ends = icmp eq {type} {c.rest}.more, {self.names[c.by]}")
            self.line(f"{c.rest}.carry = zext i1 {c.rest}.ends to {type}")
            self.line(f"{c.rest}.next = select i1 {c.rest}.ends, {type} 0, {type} {c.rest}.more")
            self.line(f"{c.quotient}.next = add {type} {c.quotient}, {c.rest}.carry")
