"""Calls that run when they are made, as without Fusion, where no program is known that begins so.

Most of what a person tries out, or a program prepares, comes once: to plan and compile kernels for
all of it takes a hundred times as long as its ops do.  So what begins in a new way runs at once, as
it does without Fusion: nothing is kept of it.  Where calls begin so again, it is looked at which
plans follow up to the read that ends them.  Where these were the same before, the next are noted in
the tree while they run, and what came so often is compiled (see new_program.py).  From then on
calls that begin so are recorded, and run as the program.

Where they turn out to be rounds of a loop that reads nothing, each round is taken for itself, from
the call on that it begins with, also in the middle of others (see rounds.py).

Invariant: nothing here names an op.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any
from weakref import ref

from pyrite.backend.budget import memory_limit
from pyrite.backend.compiling import FOREIGN
from pyrite.backend.fusion.history import Start
from pyrite.backend.fusion.lazy import NOWHERE, External, Lazy, has_lazy
from pyrite.backend.fusion.new_program import NewProgram
from pyrite.backend.fusion.numbers import earlier_of, form_of, same_objects
from pyrite.backend.fusion.pending import MOST_CALLS, MOST_FORMS, PendingCalls
from pyrite.backend.fusion.recorded import RecordedCalls
from pyrite.backend.fusion.rounds import rounds_of
from pyrite.backend.protocol import Backend
from pyrite.op import Handle, Op, Plan, restrictions
from pyrite.op.rule import View

#: What there is to do for the next op of a thread: nothing but to run it; it comes first, and its
#: plan says which; it is recorded; it runs and its plan is put down; or that is to be found out.
#: The first two, and no others, are of `EagerCalls` that keep nothing.
PLAIN, RESTING, RECORDING, LOOKING, OTHER = 0, 1, 2, 3, 4


class EagerCalls:
    """The calls of a thread, or a task in it, that run at once."""

    __slots__ = (
        "_examples", "_inner", "_is_departure", "_made", "_most", "_noted", "_start", "_trail",
        "is_begun", "recorded",
    )  # fmt: skip

    # Others ask: there is always room for one more, and no function is captured here.
    is_done = is_captured = False

    def __init__(self, recorded: RecordedCalls) -> None:
        self.recorded = recorded
        self._inner = recorded.inner
        #: Whether there were calls since the last read.
        self.is_begun = False
        self._start: Start | None = None
        #: The plans, or ops, of calls that are looked at.
        self._trail: list[Hashable] | None = None
        #: How many these are at most: those of a round, where rounds begin so.
        self._most = MOST_CALLS
        #: The calls as they would be recorded, where they are noted; and inputs without memory.
        self._noted: PendingCalls | None = None
        self._examples: list[Any] = []
        #: Their results: these have memory, which who lets go of one has back.
        self._made: list[ref[Lazy]] = []
        #: Whether they began as a program.
        self._is_departure = False

    def depart(self, pending: PendingCalls) -> None:
        """Go on where calls that were recorded, and ran by now, were left."""
        self.is_begun = self._is_departure = True
        self._start = pending.start
        path = [call.plan for call in pending.at.path if call.plan is not None]
        self._trail = [plan if plan.is_kept else None for plan in path]

    @property
    def state(self) -> int:
        """What there is to do for the next op."""
        if not self.is_begun:
            return RESTING
        if self._trail is None:
            return PLAIN
        return LOOKING if self._noted is None else OTHER

    def execute_seen(self, op: Op, inputs: Sequence[Any], plan: Plan) -> Sequence[Handle] | None:
        """Do what `execute` does for a call of which no more than the plan is put down.

        Return `FOREIGN`, and do nothing, for any other call.
        """
        trail = self._trail
        if trail is None or len(trail) >= self._most or len(trail) >= MOST_CALLS - 1:
            return FOREIGN
        if op.kernels:
            # What makes them asks for no handles of others; other numbers make no plan to keep.
            if has_lazy(inputs):
                return FOREIGN
        elif not plan.is_kept:
            return FOREIGN
        results = self._inner.execute(op, inputs, plan)
        if results is not FOREIGN and results is not None:
            trail.append(plan if plan.is_kept else op)
        return results

    def gives_way(self) -> bool:
        """End calls that are looked at where a program begins; return whether they end."""
        if self._is_departure or self._most < MOST_CALLS:
            return False
        self._end()
        return True

    @property
    def is_open(self) -> bool:
        """Whether calls are looked at, so that those of others are not among them."""
        return self._trail is not None

    @property
    def noted(self) -> PendingCalls | None:
        """The calls as they would be recorded, where they are noted."""
        return self._noted

    @property
    def start(self) -> Start | None:
        """What is known of the first of these calls, or of the one that was not eager."""
        return self._start

    def execute(
        self, op: Op, inputs: Sequence[Any], plan: Plan
    ) -> Sequence[Handle] | NotEager | None:
        """Return the results of a call; None for what is to be expanded.

        Or `NOT_EAGER` for one that is to be recorded: it begins a program, or has to keep a budget.
        """
        if self._most < MOST_CALLS and len(self._trail or ()) >= self._most:
            self._end()  # what comes is of another round
        if not self.is_begun and not self._begins(op, plan):
            return NOT_EAGER
        if restrictions and memory_limit() is not None and self._inner.plans_memory:
            self.run()
            return NOT_EAGER
        results = self._inner.execute(op, [computed(i) for i in inputs], plan)
        if results is None:
            return None
        if self._trail is not None:
            self._trail.append(plan if plan.is_kept else op)
            if self._noted is not None:
                results = self._note(op, inputs, plan, results)
            # What runs by itself may have ended them.
            if self._trail is not None and len(self._trail) >= MOST_CALLS:
                self.run()
        if self.recorded.has_external and any(i.__class__ is External for i in inputs):
            results = read_external(self._inner, op, results)
            self.run()
        return results

    def _begins(self, op: Op, plan: Plan) -> bool:
        """Note a call that comes first; return whether it runs at once."""
        key = plan if plan.is_kept else op
        start = self._start = self.recorded.starts.get(key) or self.recorded.start_of(key)
        if start.leads:
            return False
        self.is_begun = True
        start.rest -= 1
        if start.rest <= 0:
            self._trail = []
            rounds = self.recorded.rounds.get(key)
            self._most = MOST_CALLS if rounds is None else len(rounds.plans)
            if start.is_expected:
                self._noted, self._made = PendingCalls(self.recorded), []
        return True

    def _note(
        self, op: Op, inputs: Sequence[Any], plan: Plan, results: Sequence[Handle]
    ) -> Sequence[Handle]:
        noted = self._noted
        assert noted is not None
        # No program holds an op with kernels of its own.
        made = None if op.kernels else noted.record(op, inputs, plan)
        if made is None:
            # It runs by itself, behind a program of what it needs.
            if any(isinstance(i, Lazy) and self._is_made_here(i) for i in inputs):
                self.run()
            return results
        known = len(self._examples)
        if len(noted.inputs) > known:
            # Who lets go of a tensor has its memory back: it is not held for the note.
            self._examples += [self._inner.without_memory(x) for x in noted.inputs[known:]]
            noted.forget_inputs(known)
        noted.results.clear()
        self._made += map(ref, made)
        for lazy, result in zip(made, results, strict=True):
            lazy.value = result
        return made

    def _is_made_here(self, x: Lazy) -> bool:
        pending, n = x.place
        return pending is not None and pending is self._noted and n >= 0

    def note_read(self, x: Any) -> None:
        """Note that a value leaves the device: a program would run up to here."""
        if self._noted is None:
            self.run()
        elif isinstance(x, Lazy) and self._is_made_here(x):
            self._end()

    def run(self) -> None:
        """End the calls where a program would run."""
        if self.is_begun:
            self._end()

    def _end(self) -> None:
        noted, trail, start = self._noted, self._trail, self._start
        self.is_begun, self._noted, self._trail, self._start = False, None, None, None
        is_round, self._most = self._most < MOST_CALLS, MOST_CALLS
        if trail is None:
            return
        assert start is not None
        if self._is_departure:
            self._is_departure = False
            start.note_departure(trail)
            return
        if noted is not None and not is_round and noted.at.count == len(trail):
            rounds = rounds_of(noted.at.path)
            if rounds is not None:
                self.recorded.note_rounds(rounds)
                self._examples = []
                start.note_rounds()
                return
        came_before = start.note_trail(trail)
        if noted is not None:
            self._end_note(noted, start, 1 + came_before, trail)

    def _end_note(
        self, noted: PendingCalls, start: Start, runs: int, trail: Sequence[Hashable]
    ) -> None:
        """Count calls that were noted as so many runs of what would be their program."""
        examples, self._examples = self._examples, []
        wanted = [n for n, result in enumerate(self._made) if result() is not None]
        if noted.at.count < 2 or not wanted:
            return
        layout_of = self._inner.layout_of
        key = (tuple(wanted), *[layout_of(x) for x in examples])
        known = noted.at.programs
        _, same = same_objects(noted.numbers)
        form = form_of((), key, same)
        program = known.get(form)
        if program is None:
            if len(known) >= MOST_FORMS:
                known.clear()
            types = [self._inner.type_of(x) for x in examples]
            program = known[form] = NewProgram(
                self.recorded, noted.at, key, types, same=earlier_of(same)
            )
        if isinstance(program, NewProgram):
            program.note_run([*examples, *noted.numbers], start, runs)
            if program.is_small:
                start.note_small(trail)
                self.recorded.rounds.pop(trail[0], None)
        else:
            start.lead()


def computed(x: Any) -> Any:
    """Return the handle of the backend below; what is no lazy one as it is."""
    if not isinstance(x, Lazy):
        return x
    if x.value is None:
        x.place[0].run()
    return x.value


class NotEager:
    """What says that a call does not run at once."""


NOT_EAGER = NotEager()


def read_external(inner: Backend, op: Op, made: Sequence[Handle]) -> Sequence[Handle]:
    """Return what was made of an application's memory: a view of it is an application's too."""
    if not isinstance(op.rule, View):
        return made
    found = []
    for view in made:
        if isinstance(view, Lazy):
            view.__class__ = External
            found.append(view)
        else:
            found.append(External(inner.type_of(view), NOWHERE, view))
    return found
