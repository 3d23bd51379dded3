"""The statements of a forward pass, in order, before they have variables and classes.

An ``if`` or a loop is one statement to those around it: its lines lie in it, in a row, with marks
for where it begins and ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from pyrite.onnx.python.code import Code, Part, listed
from pyrite.onnx.python.value import TENSOR, Kind

#: The path of the module that computes something, part by part.
Scope = tuple[str, ...]

#: What a statement is, if it does not just give values to new variables.  ``set`` gives values to
#: variables that may have some; ``do`` is an expression alone; ``unless`` leaves a loop unless its
#: expression is true; others begin and end what is indented.
Mark = Literal["", "set", "do", "unless", "if", "else", "for", "while", "end"]

#: Marks after which lines are indented further.
OPENING = frozenset({"if", "else", "for", "while"})


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """Values of the graph become those of an expression; a target that nothing reads is ``""``.

    The targets of an ``if`` are those of the variables that get their values in it.
    """

    targets: tuple[str, ...]
    code: Code
    #: None where nothing says it.
    scope: Scope | None = None
    kinds: tuple[Kind, ...] = (TENSOR,)
    #: How its variable may be called.
    hint: str = ""
    mark: Mark = ""
    #: The statements of an ``if`` or a loop; of such a step ``code`` is empty.
    block: tuple[Step, ...] = ()

    def walk(self) -> Iterator[Part]:
        """Give the parts of its expressions."""
        yield from self.code.walk()
        for step in self.block:
            yield from step.walk()

    @property
    def uses(self) -> list[str]:
        """The values that it reads and does not make, once for each time."""
        if not self.block:
            return self.code.locals
        own = {name for step in self.lines() for name in step.targets}
        return [name for step in self.block for name in step.uses if name not in own]

    def lines(self) -> Iterator[Step]:
        """Give the statements that it is, none of which has others in it."""
        if not self.block:
            yield self
        for step in self.block:
            yield from step.lines()


def needed(steps: Iterable[Step], outputs: Iterable[str]) -> list[Step]:
    """Return the statements that outputs depend on."""
    kept, count = list(steps), -1
    # What only left out statements of a loop read is left out in the next turn.
    while count != (count := sum(1 for step in kept for _ in step.lines())):
        kept = _needed(kept, set(outputs))
    return kept


def _needed(steps: Iterable[Step], wanted: set[str]) -> list[Step]:
    """Return the statements that wanted values depend on, which are then wanted too."""
    kept = []
    for step in reversed(list(steps)):
        is_value = step.mark in ("", "set")
        if is_value and wanted.isdisjoint(step.targets):
            continue
        step = _narrowed(step, wanted)
        wanted.update(step.code.locals, _carried(step))
        if step.block:
            step = replace(step, block=_without_empty_loop(_needed(step.block, wanted)))
        targets = tuple(name if name in wanted else "" for name in step.targets)
        kept.append(replace(step, targets=targets))
    return kept[::-1]


def _narrowed(step: Step, wanted: set[str]) -> Step:
    """Return a statement that sets several variables without those that nothing reads."""
    if step.mark != "set" or len(step.targets) < 2:
        return step
    columns = zip(step.targets, step.code.arguments or (), step.kinds, strict=True)
    targets, codes, kinds = zip(*(c for c in columns if c[0] in wanted), strict=True)
    return replace(step, targets=targets, code=together(codes), kinds=kinds)


def together(codes: Sequence[Code]) -> Code:
    """Return one expression for several variables."""
    return codes[0] if len(codes) == 1 else listed(codes)


def _without_empty_loop(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return lines without a loop in which nothing is done."""
    marks = [step.mark for step in steps]
    at = next((i for i, pair in enumerate(pairwise(marks)) if pair == ("for", "end")), None)
    return tuple(steps) if at is None else (*steps[:at], *steps[at + 2 :])


def _carried(step: Step) -> Iterator[str]:
    """Give the variables of a block that it reads: a loop does in its next round."""
    read = set(step.code.locals).union(*(line.code.locals for line in step.lines()))
    for line in step.lines():
        yield from read.intersection(line.targets) if line.mark == "set" else ()


def block(
    steps: Sequence[Step], targets: Sequence[str], kinds: Sequence[Kind], scope: Scope | None
) -> Step:
    """Return lines as one statement, which gives others these values."""
    return Step(tuple(targets), Code(()), scope, tuple(kinds), block=tuple(steps))
