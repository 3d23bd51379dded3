"""Calls that were recorded and did not run: the next program of a thread."""

from __future__ import annotations

from _thread import RLock
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any
from weakref import ref

from pyrite.backend.compiling import Begun, Known, Program
from pyrite.backend.explanation import listeners
from pyrite.backend.fusion.early import EarlyRun, finished_early, note_hit, started_early
from pyrite.backend.fusion.history import Call, Lines, Number, Operand, Start
from pyrite.backend.fusion.lazy import External, Lazy
from pyrite.backend.fusion.new_program import NewProgram, program_of
from pyrite.backend.fusion.numbers import (
    all_plain,
    earlier_of,
    form_of,
    same_numbers,
    same_objects,
)
from pyrite.backend.fusion.recorded import RecordedCalls
from pyrite.backend.graph import Literal
from pyrite.columns import Column, held
from pyrite.content import NoContentError, content_of
from pyrite.errors import ArgumentError, CompileError
from pyrite.op import (
    Constant,
    Handle,
    Op,
    Plan,
    restrictions,
    rules_key,
    user_location,
)
from pyrite.types import TensorType, bool_

#: So many calls run, wanted or not.
MOST_CALLS = 2048
#: So many programs are found by the last call, for other results that are held, or layouts.
MOST_FORMS = 16

_new = object.__new__
_values = Column(Lazy, "value")


class PendingCalls:
    """Some calls in order, their inputs, and who holds their results.

    They belong to a thread, or a task in it; another one that wants a value of them runs them.  The
    lock is held by who records and by who runs, and neither waits for those of another meanwhile.
    """

    __slots__ = (
        "_begun", "_early", "_is_followed", "at", "donated", "inputs", "is_captured", "is_done",
        "is_running", "is_whole", "lock", "numbers", "places", "recorded", "results", "sites",
        "start", "waits",
    )  # fmt: skip

    def __init__(
        self, recorded: RecordedCalls, start: Start | None = None, *, is_captured: bool = False,
        waits: bool = False,
    ) -> None:  # fmt: skip
        self.recorded = recorded
        #: What is known of calls that begin as these, where new ones could run as ops.
        self.start = start
        #: Whether they are recorded to their end, however they go on.
        self._is_followed = is_captured
        self.lock = RLock()
        self.at = recorded.begin()
        self.is_done = False
        #: Whether somebody who holds the lock runs them: machine code adds to them without it.
        self.is_running = False
        #: Whether they are those of a function that is captured, and cannot run before it returns.
        self.is_captured = is_captured
        #: Whether they are a whole function, and whether it waits for its program to be compiled.
        self.is_whole, self.waits = is_captured, waits
        #: The tensors that it takes, as handles of the backend below, and their numbers by ids; its
        #: numbers, its results, None for what nobody ever had, and lines by the number of a call.
        #: Results that somebody else holds, by the count of references, are wanted.
        self.inputs: list[Handle] = []
        self.places: dict[int, int] = {}
        self.numbers: list[Constant] = []
        self.results: list[Lazy | None] = []
        self.sites: dict[int, str] = {}
        #: Inputs whose memory results may take, and what has begun with them: see deferred.py.
        self.donated: tuple[int, ...] = ()
        self._begun: tuple[Begun, list[int]] | None = None
        #: A run that was begun before all calls are known: see early.py.
        self._early: EarlyRun | None = None

    @property
    def is_open(self) -> bool:
        """Whether there may be more of them, which those of others are not among."""
        return not self.is_done

    # ---- recording ----

    def record_again(  # noqa: C901 - in one piece, as each call is a third of what it takes
        self, inputs: Sequence[Any], plan: Plan
    ) -> Sequence[Lazy] | None:
        """Return what `record` does for a call that came here before; else None.

        None too where an input is to be computed first, or is an application's, and where these
        calls are done.
        """
        # Written for speed: this is run for every op.  A ``with`` takes twice as long.
        lock = self.lock
        lock.acquire()
        try:
            if self.is_done:
                return None
            at, places = self.at, self.places
            parts: list[Hashable] = [plan]
            for i in inputs:
                kind = i.__class__
                if kind is Lazy:
                    pending, n = i.place
                    if pending is self:
                        parts.append(n)
                        continue
                    value = i.value
                    if value is None:
                        break
                    parts.append(places.get(id(value)) or self.number_of_input(value))
                elif kind is Constant:
                    if i.type.dtype is bool_:
                        parts.append(bool(i.value))
                    self.numbers.append(i)
                elif kind is External:
                    break
                elif i is not None:
                    parts.append(places.get(id(i)) or self.number_of_input(i))
            else:
                call = at.next.get(tuple(parts))
                if call is not None:
                    if call.is_checked or listeners or call.type is None or call.early:
                        return self._added(call)
                    self.at = call
                    # As by ``Lazy(...)``, in half the time.
                    made = _new(Lazy)
                    made.type = call.type
                    made.place = self, at.results
                    made.value = None
                    self.results.append(made)
                    return (made,)
            del self.numbers[at.numbers :]
            return None
        finally:
            lock.release()

    def _added(self, call: Call) -> Sequence[Lazy]:
        """Return the results of a call, which is the last one now."""
        at, types = self.at, call.types
        if call.is_checked or listeners:
            self.sites[at.count] = user_location()
        self.at = call
        made = [Lazy(type, (self, n)) for n, type in enumerate(types, at.results)]
        self.results += made
        if call.early is not None:
            self.start_early(call)
        return made

    def start_early(self, call: Call) -> None:
        """Make the first launches of the program that came last time, where none are made."""
        if self._early is None:
            self._early = started_early(self, call)

    def record(self, op: Op, inputs: Sequence[Any], plan: Plan) -> Sequence[Lazy] | None:
        """Return what a call will give; None where it has to run by itself.

        Or `LEFT` where calls that began as a program go on in a new way: they, and what follows,
        are to run at once; `ENDED` where another round begins.  The inputs are results of these
        calls, or computed.
        """
        parts: list[Hashable] = [plan]
        for i in inputs:
            if isinstance(i, Constant):
                if i.type.dtype is bool_:
                    parts.append(bool(i.value))
                self.numbers.append(i)
            elif i is not None:
                parts.append(self._number(i))
        key = tuple(parts) if plan.is_kept else self._content(op, inputs, plan, parts)
        at = self.at
        call = at.next.get(key)
        if call is None:
            is_round = self._begins_round(plan)
            if is_round or self._is_left(key):
                del self.numbers[at.numbers :]
                self._forget_beyond(at)
                return ENDED if is_round else LEFT
            call = self._new(key, op, inputs, plan)
            if call is None:
                del self.numbers[at.numbers :]
                return None
        return self._added(call)

    def _begins_round(self, plan: Plan) -> bool:
        """Whether these calls are a program, and the next one begins a round of a loop."""
        rounds = self.recorded.rounds
        if not rounds or plan not in rounds or self.is_captured or restrictions:
            return False
        return self.start is not None and bool(self.at.programs)

    def _forget_beyond(self, at: Call) -> None:
        """Forget the inputs of a call that is none of these."""
        for x in self.inputs[at.inputs :]:
            del self.places[id(x)]
        del self.inputs[at.inputs :]

    def _is_left(self, key: Hashable) -> bool:
        """Whether calls that began as a program go on otherwise now, as most that do so come once.

        Where the last ones came before, the next are recorded to their end, new calls and all.
        """
        start = self.start
        if start is None or self._is_followed or not start.leads or restrictions:
            return False
        if key is None or key in self.at.next:
            return False
        if start.is_new_wanted:
            start.is_new_wanted, self._is_followed = False, True
            return False
        return True

    def _number(self, x: Handle) -> int:
        """Return the number of a tensor: of a result of these calls, or of an input."""
        if isinstance(x, Lazy):
            pending, n = x.place
            if pending is self:
                return n
            x = x.value
        return self.number_of_input(x)

    def number_of_input(self, x: Handle) -> int:
        """Return the number of a tensor from elsewhere, now one of the inputs."""
        # An id is one handle's as long as that is held, as an input is.
        known = self.places.get(id(x))
        if known is None:
            self.inputs.append(x)
            known = self.places[id(x)] = -len(self.inputs)
        return known

    def _content(
        self, op: Op, inputs: Sequence[Any], plan: Plan, parts: Sequence[Hashable]
    ) -> Hashable:
        """Return what a call depends on whose plan is made anew each time; None if that is open."""
        try:
            attrs = tuple([(name, content_of(plan.attrs[name])) for name in sorted(plan.attrs)])
            rules = rules_key(op)
        except (NoContentError, ArgumentError):
            return None
        types = tuple([None if i is None else self._type_of(i) for i in inputs])
        return (op, rules, attrs, plan.out, types, *parts[1:])

    def _new(self, key: Hashable, op: Op, inputs: Sequence[Any], plan: Plan) -> Call | None:
        """Return what is kept of a call that comes here first, None of one that cannot wait."""
        if key is None or key in self.at.next:
            return None
        if op.sync or op.kernels or plan.out is None or not self._is_accepted(op, inputs, plan):
            self.at.next[key] = None
            return None
        at = self.at
        count, most = at.numbers, at.inputs
        operands: list[Operand] = []
        for i in inputs:
            if i is None:
                operands.append(None)
            elif not isinstance(i, Constant):
                operands.append(number := self._number(i))
                most = max(most, -number)
            elif i.type.dtype.is_bool:
                count += 1
                operands.append(Literal(bool(i.value), i.type.dtype))
            else:
                operands.append(Number(count, i.type))
                count += 1
        results = at.results + len(plan.out)
        is_checked = not op.is_elementwise
        call = Call(
            at, op, plan, plan.out, tuple(operands), at.count + 1, most, results, count, is_checked,
            user_location(), type=plan.out[0] if len(plan.out) == 1 else None,
        )  # fmt: skip
        at.next[key] = call
        self.recorded.calls += 1
        return call

    def _is_accepted(self, op: Op, inputs: Sequence[Any], plan: Plan) -> bool:
        given: list[Known] = [
            i if i is None or isinstance(i, Constant) else self._type_of(i) for i in inputs
        ]
        return self.recorded.inner.accepts(op, given, plan)

    def _type_of(self, x: Any) -> TensorType:
        """Return the type of a tensor or number."""
        if isinstance(x, Lazy | Constant):
            return x.type
        return self.recorded.inner.type_of(x)

    # ---- noting, of calls that ran when they were made ----

    def forget_inputs(self, known: int) -> None:
        """Hold the inputs from that number on no more: their values are used."""
        for n, x in enumerate(self.inputs[known:], start=known):
            self.inputs[n] = ref(x, partial(_forget, self.places, id(x)))

    # ---- running ----

    def run(self) -> None:
        """Compute what somebody holds.

        Raises what the backend raises; then nothing has changed, and it may be tried again.
        """
        with self.lock:
            if self.is_done and self._begun is None:
                return
            if self.is_captured:
                raise captured_read()
            self.is_running = True
            try:
                if not self._is_run_again():
                    numbers, wanted = held(self.results)
                    if wanted:
                        self._compute(numbers, wanted)
            finally:
                self.is_running = False
            self.is_done = True
            self.inputs, self.numbers, self.results, self.sites = [], [], [], {}
            self.places, self._begun, self._early = {}, None, None

    def _is_run_again(self) -> bool:
        """Run what ran last up to here, if all is as it was then; return whether it is."""
        at, early = self.at, self._early
        last = at.last_run
        if last is None or self.is_whole or self.donated:
            return False
        # Now and then it is looked at otherwise: see `note_hit`.
        if not (at.hits & (at.hits + 1) if early is None else early.is_of(at)):
            return False
        started = None if early is None else early.run
        found = last.again(self, Lines(at, self.sites), started)
        if found is None:
            return False
        _values.write(*found)
        at.hits += 1
        self._note_run()
        return True

    def _note_run(self) -> None:
        """Note that a program ran."""
        self.recorded.program_runs += 1
        if self.start is not None:
            self.start.strays = 0

    def _compute(self, numbers: list[int], wanted: Sequence[Lazy]) -> None:
        """Give the results of these numbers, which somebody holds, their values."""
        if self._begun is None:
            results = self._computed(numbers)
        else:
            begun, known = self._begun
            made = dict(zip(known, begun.finish(), strict=True))
            results = [made[n] for n in numbers]
        _values.write(wanted, results)

    def _computed(self, wanted: list[int]) -> Sequence[Handle]:
        inputs: list[Any] = [*self.inputs]
        layouts: Any = self.recorded.inner.layouts_of(inputs)
        key = (tuple(wanted), *layouts)
        numbers = self.numbers
        different, same = same_objects(numbers)
        inputs += all_plain(numbers, different)
        known = self.at.programs
        computed = same_numbers(numbers) if self.is_whole else None
        form = form_of(self.donated, key, same if computed is None else computed)
        if self._early is not None:
            early, self._early = self._early, None
            results = finished_early(self, early, form, inputs, wanted)
            if results is not None:
                self._note_run()
                return results
        program = known.get(form)
        if program is None:
            if len(known) >= MOST_FORMS:
                known.clear()
            earlier = earlier_of(same) if computed is None else computed
            program = known[form] = self._program(key, inputs, earlier)
        if isinstance(program, NewProgram):
            if program.fused is not None:
                program = known[form] = program.fused
            elif self.start is not None:
                self.start.note_stray()
        else:
            if self.start is not None:
                self.start.strays = 0
            note_hit(self, program, form)
        self.recorded.program_runs += 1
        lines = Lines(self.at, self.sites)
        begun = program.begin(inputs, lines) if self.donated else None
        if begun is None:
            results = program.run(inputs, lines)
            self.at.note_run(program, None, form, self, wanted)
            return results
        self._begun = begun, wanted
        # What nobody else holds is given up; so no call may follow, should the rest have to be
        # tried again.
        self.is_done = True
        self.inputs = []
        inputs.clear()
        return begun.finish()

    def _program(
        self, key: tuple[Any, ...], inputs: Sequence[Any], same: Mapping[int, int]
    ) -> Program:
        types = [*map(self.recorded.inner.type_of, self.inputs)]
        if self.recorded.after and not self.waits:
            return NewProgram(
                self.recorded, self.at, key, types, self.donated, same, is_whole=self.is_whole
            )
        self.recorded.note_taken(self.at)
        return program_of(self.recorded, self.at, types, key, inputs, self.donated, same)


class Left(tuple[Lazy, ...]):
    """What a call returns that was not recorded: it goes on otherwise, or is another round's."""

    __slots__ = ()


LEFT, ENDED = Left(), Left()


def _forget(places: dict[int, int], known: int, gone: ref[Any]) -> None:
    """Take away the number of a handle that is let go of: its id may be another one's now."""
    places.pop(known, None)


def captured_read() -> CompileError:
    """Return the error of a read in a function that is captured."""
    return CompileError(
        "compile requires a function that reads no value, got a read inside it; return the tensor, "
        "and read it after the call"
    )
