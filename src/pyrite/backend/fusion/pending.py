"""Calls that were recorded and did not run: the next program of a thread."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from threading import RLock
from typing import Any
from weakref import ref

from pyrite.backend.compiling import Begun, Known, Program
from pyrite.backend.explanation import listeners
from pyrite.backend.fusion.history import Call, Lines, Number, Operand
from pyrite.backend.fusion.lazy import Lazy
from pyrite.backend.fusion.new_program import NewProgram, program_of
from pyrite.backend.fusion.recorded import RecordedCalls
from pyrite.backend.graph import Literal
from pyrite.content import NoContentError, content_of
from pyrite.errors import ArgumentError, CompileError
from pyrite.op import Constant, Handle, Op, Plan, is_host_scalar, rules_key, user_location, value_of
from pyrite.types import bool_

#: So many calls run, wanted or not.
MOST_CALLS = 2048
#: So many programs are found by the last call, for other results that are held, or layouts.
MOST_FORMS = 16

_new = object.__new__


class PendingCalls:
    """Some calls in order, their inputs, and who holds their results.

    They belong to a thread, or a task in it; another one that wants a value of them runs them.  The
    lock is held by who records and by who runs, and neither waits for those of another meanwhile.
    """

    __slots__ = (
        "_begun", "_places", "_results", "at", "donated", "inputs", "is_captured", "is_done",
        "is_whole", "lock", "numbers", "recorded", "sites",
    )  # fmt: skip

    def __init__(self, recorded: RecordedCalls, *, is_captured: bool = False) -> None:
        self.recorded = recorded
        self.lock = RLock()
        self.at = recorded.begin()
        self.is_done = False
        #: Whether they are those of a function that is captured, and cannot run before it returns.
        self.is_captured = is_captured
        #: Whether they are a whole function, which is compiled when it first runs.
        self.is_whole = is_captured
        #: The tensors that it takes, its numbers, its results, and lines by the number of a call.
        self.inputs: list[Lazy] = []
        self._places: dict[int, int] = {}
        self.numbers: list[Constant] = []
        self._results: list[ref[Lazy]] = []
        self.sites: dict[int, str] = {}
        #: Inputs whose memory results may take, and what has begun with them: see deferred.py.
        self.donated: tuple[int, ...] = ()
        self._begun: tuple[Begun, list[int]] | None = None

    # ---- recording ----

    def record_again(self, inputs: Sequence[Any], plan: Plan) -> Sequence[Lazy] | None:
        """Return what `record` does for a call that came here before; else None.

        None too where an input is to be computed first, or is an application's.
        """
        # Written for speed: this is run for every op.
        numbers = self.numbers
        parts: list[Hashable] = [plan]
        for i in inputs:
            kind = i.__class__
            if kind is Lazy:
                pending, n = i.place
                if pending is self:
                    parts.append(n)
                elif i.value is not None:
                    parts.append(self._input(i))
                else:
                    break
            elif kind is Constant:
                if i.type.dtype is bool_:
                    parts.append(bool(i.value))
                numbers.append(i)
            elif i is not None:
                break
        else:
            call = self.at.next.get(tuple(parts))
            if call is not None:
                return self._added(call)
        del numbers[self.at.numbers :]
        return None

    def _added(self, call: Call) -> Sequence[Lazy]:
        """Return the results of a call, which is the last one now."""
        at, types = self.at, call.types
        if call.is_checked or listeners:
            self.sites[at.count] = user_location()
        self.at = call
        if len(types) > 1:
            several = [Lazy(type, (self, n)) for n, type in enumerate(types, at.results)]
            self._results += [ref(x) for x in several]
            return several
        # As by ``Lazy(...)``, in half the time.
        made = _new(Lazy)
        made.type = types[0]
        made.place = (self, at.results)
        made.value = None
        self._results.append(ref(made))
        return (made,)

    def record(self, op: Op, inputs: Sequence[Any], plan: Plan) -> Sequence[Lazy] | None:
        """Return what a call will give; None where it has to run by itself.

        The inputs are results of these calls, or computed.
        """
        parts: list[Hashable] = [plan]
        for i in inputs:
            if i.__class__ is Lazy:
                pending, n = i.place
                parts.append(n if pending is self else self._input(i))
            elif i is not None:
                if isinstance(i, Lazy):
                    parts.append(self._input(i))
                    continue
                if i.type.dtype is bool_:
                    parts.append(bool(i.value))
                self.numbers.append(i)
        key = tuple(parts) if plan.is_kept else self._content(op, inputs, plan, parts)
        at = self.at
        call = at.next.get(key)
        if call is None:
            call = self._new(key, op, inputs, plan)
            if call is None:
                del self.numbers[at.numbers :]
                return None
        return self._added(call)

    def _input(self, x: Lazy) -> int:
        """Return the number of a tensor from elsewhere, now one of the inputs."""
        pending, n = x.place
        if pending is self:
            return n
        # Other calls that take turns with these may have taken it since these did.
        known = self._places.get(id(x))
        if known is None:
            self.inputs.append(x)
            known = self._places[id(x)] = -len(self.inputs)
        x.place = (self, known)
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
        types = tuple([None if i is None else i.type for i in inputs])
        return (op, rules, attrs, plan.out, types, *parts[1:])

    def _new(self, key: Hashable, op: Op, inputs: Sequence[Any], plan: Plan) -> Call | None:
        """Return what is kept of a call that comes here first, None of one that cannot wait."""
        if key is None or key in self.at.next:
            return None
        if op.sync or op.kernels or plan.out is None or not self._is_accepted(op, inputs, plan):
            self.at.next[key] = None
            return None
        at = self.at
        count = at.numbers
        operands: list[Operand] = []
        for i in inputs:
            if i is None:
                operands.append(None)
            elif isinstance(i, Lazy):
                operands.append(i.place[1])
            elif i.type.dtype.is_bool:
                count += 1
                operands.append(Literal(bool(i.value), i.type.dtype))
            else:
                operands.append(Number(count, i.type))
                count += 1
        results = at.results + len(plan.out)
        is_checked = not op.is_elementwise
        call = Call(
            at, op, plan, plan.out, tuple(operands), at.count + 1, results, count, is_checked,
            user_location(),
        )  # fmt: skip
        at.next[key] = call
        self.recorded.calls += 1
        return call

    def _is_accepted(self, op: Op, inputs: Sequence[Any], plan: Plan) -> bool:
        given: list[Known] = [i.type if isinstance(i, Lazy) else i for i in inputs]
        return self.recorded.inner.accepts(op, given, plan)

    # ---- noting, of calls that ran when they were made ----

    def wanted(self) -> list[int]:
        """Return the results that somebody holds."""
        return [n for n, r in enumerate(self._results) if r() is not None]

    def forget_inputs(self, known: int) -> None:
        """Hold the inputs from that number on no more: their values are used."""
        self.inputs[known:] = [_FORGOTTEN] * (len(self.inputs) - known)
        self._places.clear()

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
            wanted = [(n, x) for n, r in enumerate(self._results) if (x := r()) is not None]
            if wanted:
                self._compute(wanted)
            self.is_done = True
            self.inputs, self.numbers, self._results, self.sites = [], [], [], {}
            self._places, self._begun = {}, None

    def _compute(self, wanted: Sequence[tuple[int, Lazy]]) -> None:
        if self._begun is None:
            results = self._computed(wanted)
        else:
            begun, numbers = self._begun
            made = dict(zip(numbers, begun.finish(), strict=True))
            results = [made[n] for n, _ in wanted]
        for (_, lazy), result in zip(wanted, results, strict=True):
            lazy.value = result

    def _computed(self, wanted: Sequence[tuple[int, Lazy]]) -> Sequence[Handle]:
        inputs: list[Any] = [x.value for x in self.inputs]
        layout_of = self.recorded.inner.layout_of
        key = (tuple([n for n, _ in wanted]), *[layout_of(x) for x in inputs])
        inputs += map(plain, self.numbers)
        known = self.at.programs
        form = (self.donated, key)
        program = known.get(form)
        if program is None:
            if len(known) >= MOST_FORMS:
                known.clear()
            program = known[form] = self._program(key, inputs)
        self.recorded.runs += 1
        lines = Lines(self.at, self.sites)
        begun = program.begin(inputs, lines) if self.donated else None
        if begun is None:
            return program.run(inputs, lines)
        self._begun = begun, [n for n, _ in wanted]
        # What nobody else holds is given up; so no call may follow, should the rest have to be
        # tried again.
        self.is_done = True
        self.inputs = []
        inputs.clear()
        return begun.finish()

    def _program(self, key: tuple[Any, ...], inputs: Sequence[Any]) -> Program:
        types = [x.type for x in self.inputs]
        if self.recorded.after and not self.is_whole:
            return NewProgram(self.recorded, self.at, key, types)
        return program_of(self.recorded, self.at, types, key, inputs, self.donated)


#: In the place of an input that is not held.
_FORGOTTEN: Any = None


def plain(number: Constant) -> Constant:
    """Return a number as the one that it is at this call."""
    return Constant(value_of(number.value), number.type) if is_host_scalar(number.value) else number


def captured_read() -> CompileError:
    """Return the error of a read in a function that is captured."""
    return CompileError(
        "compile requires a function that reads no value, got a read inside it; return the tensor, "
        "and read it after the call"
    )
