"""What was recorded before, as a tree: a call that comes again after the same calls is looked up.

A step stands for all calls up to it.  So what follows from them, the numbers of values, types, and
the programs, is found out once.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from pyrite.backend.compiling import Program
from pyrite.backend.graph import Graph, Input, Literal, Node, content_of_node
from pyrite.op import Op, Plan
from pyrite.types import TensorType


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a batch, by its position among them, with the dtype that it takes."""

    position: int
    type: TensorType


#: What an op is applied to: a result from 0 on, an input from -1 down, a number, or nothing.
Operand = int | Number | Literal | None


@dataclass(slots=True, eq=False)
class Step:
    """A call after the calls before it.  The first step of all has no op."""

    before: Step | None = None
    op: Op | None = None
    plan: Plan | None = None
    operands: tuple[Operand, ...] = ()
    #: How many results and numbers there are, this call's included.
    results: int = 0
    numbers: int = 0
    #: Whether the user's line is to be noted: of what may find an index outside, or may yet.
    is_checked: bool = False
    #: The calls that came next, by what they depend on; None for one that no batch holds.
    next: dict[Hashable, Step | None] = field(default_factory=dict)
    #: Programs of all calls up to here, by which results are wanted and how inputs lie.
    programs: dict[Hashable, Program] = field(default_factory=dict)

    @property
    def types(self) -> tuple[TensorType, ...]:
        """The types of the results of this call."""
        assert self.plan is not None
        assert self.plan.out is not None, "a batch holds what has types before it runs"
        return self.plan.out

    @property
    def path(self) -> list[Step]:
        """All calls up to here, in order."""
        found: list[Step] = []
        step: Step | None = self
        while step is not None and step.before is not None:
            found.append(step)
            step = step.before
        return found[::-1]


def graph_of(last: Step, inputs: Sequence[TensorType], wanted: Sequence[int]) -> Graph:
    """Return the calls up to a step as a graph; its inputs are tensors, then numbers."""
    steps = last.path
    numbers = {
        x: None for step in steps for x in step.operands if isinstance(x, Number)
    }  # fmt: skip
    found = [Input(n, type) for n, type in enumerate(inputs)]
    count = len(inputs)
    found += [Input(count + x.position, x.type, is_number=True) for x in numbers]
    places = {x: count + n for n, x in enumerate(numbers)}
    first = len(found)
    nodes: list[Node] = []
    for step in steps:
        assert step.op is not None
        assert step.plan is not None
        operands = tuple([
            places[x] if isinstance(x, Number)
            else (first + x if x >= 0 else -1 - x) if isinstance(x, int) else x
            for x in step.operands
        ])  # fmt: skip
        types = step.types
        at = first + step.results - len(types)
        content = content_of_node(step.op, operands, step.plan.attrs)
        nodes.append(Node(step.op, operands, step.plan.attrs, types, at, content))
    return Graph(tuple(found), tuple(nodes), tuple([first + n for n in wanted]))
