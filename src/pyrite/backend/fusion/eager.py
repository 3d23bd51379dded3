"""Calls that run when they are made, as without Fusion, where no program is known that begins so.

Most of what a person tries out, or a program prepares, comes once: to plan and compile kernels for
all of it takes a hundred times as long as its ops do.  So what begins in a new way runs at once.
Where that comes again, the calls are noted in the tree while they run, up to the read that ends
them; and what came so often is compiled (see new_program.py).  From then on calls that begin so are
recorded, and run as the program.

Invariant: nothing here names an op.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.backend.budget import memory_limit
from pyrite.backend.fusion.history import MOST_MISSES, SELDOM, Start
from pyrite.backend.fusion.lazy import External, Lazy
from pyrite.backend.fusion.new_program import NewProgram
from pyrite.backend.fusion.pending import MOST_CALLS, MOST_FORMS, PendingCalls
from pyrite.backend.fusion.recorded import RecordedCalls
from pyrite.op import Handle, Op, Plan, restrictions
from pyrite.op.rule import View


class EagerCalls:
    """The calls of a thread, or a task in it, that run at once."""

    __slots__ = ("_examples", "_inner", "_is_begun", "_noted", "_start", "recorded")

    #: Others ask: there is always room for one more, and no function is captured here.
    is_done = is_captured = False

    def __init__(self, recorded: RecordedCalls) -> None:
        self.recorded = recorded
        self._inner = recorded.inner
        self._is_begun = False
        self._start: Start | None = None
        #: The calls as they would be recorded, where they are noted; and inputs without memory.
        self._noted: PendingCalls | None = None
        self._examples: list[Any] = []

    def execute(
        self, op: Op, inputs: Sequence[Any], plan: Plan
    ) -> Sequence[Lazy] | NotEager | None:
        """Return the results of a call; None for what is to be expanded.

        Or `NOT_EAGER` for one that is to be recorded: it begins a program, or has to keep a budget.
        """
        # Written for speed: this is run for every op.
        if not self._is_begun and not self._begins(op, plan):
            return NOT_EAGER
        if restrictions and memory_limit() is not None and self._inner.plans_memory:
            self.run()
            return NOT_EAGER
        operands = [i.value if isinstance(i, Lazy) else i for i in inputs]
        if None in operands:
            # Left out, or to be computed first.
            operands = [_computed(i) for i in inputs]
        results = self._inner.execute(op, operands, plan)
        if results is None:
            return None
        recorded = self.recorded
        if self._noted is None and not recorded.has_external and len(results) == 1 and plan.out:
            return [Lazy(plan.out[0], _NOWHERE, results[0])]
        made = self._note(op, inputs, plan, results)
        if recorded.has_external and any(i.__class__ is External for i in inputs):
            read_external(op, made)
            self.run()
        return made

    def _begins(self, op: Op, plan: Plan) -> bool:
        """Note a call that comes first; return whether it runs at once."""
        key = plan if plan.is_kept else op
        start = self._start = self.recorded.starts.get(key) or self.recorded.start_of(key)
        if start.leads:
            return False
        self._is_begun = True
        self.recorded.runs += 1
        self.recorded.new_runs += 1
        start.times = times = start.times + 1
        if times > 1 and (start.misses < MOST_MISSES or times % SELDOM == 0):
            self._noted = PendingCalls(self.recorded)
        return True

    def _handles(self, results: Sequence[Handle]) -> list[Lazy]:
        type_of = self._inner.type_of
        return [Lazy(type_of(r), _NOWHERE, r) for r in results]

    def _note(
        self, op: Op, inputs: Sequence[Any], plan: Plan, results: Sequence[Handle]
    ) -> Sequence[Lazy]:
        noted = self._noted
        if noted is None:
            return self._handles(results)
        made = noted.record(op, inputs, plan)
        if made is None:
            # It runs by itself, behind a program of what it needs.
            if any(isinstance(i, Lazy) and self._is_made_here(i) for i in inputs):
                self.run()
            return self._handles(results)
        known = len(self._examples)
        if len(noted.inputs) > known:
            # Who lets go of a tensor has its memory back: it is not held for the note.
            self._examples += [self._inner.without_memory(x.value) for x in noted.inputs[known:]]
            noted.forget_inputs(known)
        for lazy, result in zip(made, results, strict=True):
            lazy.value = result
        if noted.at.count >= MOST_CALLS:
            self.run()
        return made

    def _is_made_here(self, x: Lazy) -> bool:
        pending, n = x.place
        return pending is not None and pending is self._noted and n >= 0

    def note_read(self, x: Any) -> None:
        """Note that a value leaves the device: a program would run up to here."""
        if self._noted is None:
            self._is_begun = False
        elif isinstance(x, Lazy) and self._is_made_here(x):
            self._end()

    def run(self) -> None:
        """End the calls where a program would run."""
        if self._is_begun:
            self._end()

    def _end(self) -> None:
        noted, examples, start = self._noted, self._examples, self._start
        self._is_begun, self._noted, self._start = False, None, None
        if noted is None:
            return
        assert start is not None
        self._examples = []
        start.misses += 1
        wanted = noted.wanted()
        if noted.at.count < 2 or not wanted:
            return
        layout_of = self._inner.layout_of
        key = (tuple(wanted), *[layout_of(x) for x in examples])
        known = noted.at.programs
        program = known.get(((), key))
        if program is None:
            if len(known) >= MOST_FORMS:
                known.clear()
            types = [self._inner.type_of(x) for x in examples]
            program = known[(), key] = NewProgram(self.recorded, noted.at, key, types)
        if isinstance(program, NewProgram):
            program.note_run([*examples, *noted.numbers], start)


#: The place of what no program makes.
_NOWHERE: tuple[None, int] = (None, 0)


def _computed(x: Any) -> Any:
    """Return the handle of the backend below; what is no handle of ours as it is."""
    if not isinstance(x, Lazy):
        return x
    if x.value is None:
        x.place[0].run()
    return x.value


class NotEager:
    """What says that a call does not run at once."""


NOT_EAGER = NotEager()


def read_external(op: Op, made: Sequence[Lazy]) -> None:
    """Note that the memory of a view is an application's as well."""
    if isinstance(op.rule, View):
        for view in made:
            view.__class__ = External
