"""Calls that are asked for together, in order, wired to each other by numbers: a backward pass.

A device that records calls may know them again as one, and look up none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple

from pyrite.op import Constant, Executor, Handle, Op, Plan


class PassageCall(NamedTuple):
    """One op: the numbers of what goes in and of what comes out, and of what is then done with."""

    op: Op
    plan: Plan
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    done: tuple[int, ...]


class Passage:
    """Calls whose inputs and outputs are numbers of values.

    ``values`` holds handles and Constants that are the same each time in the places of their
    numbers, and None in all others; ``given`` are the numbers of what a run is given, ``results``
    of what it returns.
    """

    __slots__ = ("_constants", "_order", "_used", "calls", "given", "results", "values")

    def __init__(
        self, values: Sequence[Any], given: Sequence[int], calls: Sequence[PassageCall],
        results: Sequence[int],
    ) -> None:  # fmt: skip
        self.values = tuple(values)
        self.given = tuple(given)
        self.calls = tuple(calls)
        self.results = tuple(results)
        made = {n for call in calls for n in call.outputs}
        at = {n: place for place, n in enumerate(self.given)}
        used = dict.fromkeys([n for call in calls for n in call.inputs if n not in made])
        constants = [n for n in used if n not in at]
        self._constants = [values[n] for n in constants]
        at.update(zip(constants, count(len(self.given)), strict=False))
        self._order = [at[n] for n in used]
        #: Of the numbers of operands their places, in the order of the first uses.
        self._used = {n: place for place, n in enumerate(used)}

    def operands(self, inputs: Sequence[Any]) -> list[Any]:
        """Return what the calls use that none of them makes, in the order of the first uses."""
        every = [*inputs, *self._constants]
        return [every[n] for n in self._order]

    def numbers(self, operands: Sequence[Any]) -> list[int]:
        """Return the places of numbers among the operands, for each of their uses."""
        used = self._used
        return [
            used[n]
            for call in self.calls
            for n in call.inputs
            if n in used and operands[used[n]].__class__ is Constant
        ]

    def run(self, backend: Executor, inputs: Sequence[Handle]) -> list[Handle]:
        """Make the calls, one after the other, and return the results."""
        values = list(self.values)
        for n, x in zip(self.given, inputs, strict=True):
            values[n] = x
        execute = backend.execute
        for op, plan, wanted, outputs, done in self.calls:
            handles = [values[n] for n in wanted]
            run = plan.runners.get(backend)
            results = execute(op, handles, plan) if run is None else run(handles)
            assert results is not None, "a plan is expanded always or never"
            for n, result in zip(outputs, results, strict=True):
                values[n] = result
            for n in done:
                values[n] = None
        return [values[n] for n in self.results]
