"""A program that is new runs as its ops, as it would without Fusion, until it is worth its kernels.

Most of what a person tries out, or a program prepares, comes once: to plan and compile kernels for
all of it takes a hundred times as long as its ops do.  So calls run one by one the first times.
What comes again is compiled by a thread, in pauses, and taken from the next run on, never within
one; without such a thread (`config.ahead`) the run that is due compiles it.

Where a program may add up in another order than its ops, no result may depend on when the thread is
done: there the run compiles it that is due, or, where the same ops are a program at other sizes, a
fixed number of runs are its ops, and the next one waits.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from weakref import ref

from pyrite.backend.budget import memory_limit
from pyrite.backend.compiling import Begun, Program, RunsWhole, Sites
from pyrite.backend.fusion.history import Call, Number, Start, graph_of
from pyrite.backend.fusion.recorded import RecordedCalls
from pyrite.backend.graph import Literal, reaching
from pyrite.backend.memory import ProgramMemory
from pyrite.config import config
from pyrite.op import Constant, Handle, Op, Plan, tell_lines, user_frame
from pyrite.op.rule import View
from pyrite.types import TensorType

#: So many runs are ops, where it shows from which on they are not: a thread compiles meanwhile.
RUNS_AS_OPS = 64


class BackgroundCompileWarning(UserWarning):
    """A program could not be compiled by the thread that does so in pauses; it runs as its ops."""


class DirectCall(NamedTuple):
    """A call that is run: its operands are the numbers of values, or constants."""

    op: Op
    plan: Plan
    operands: tuple[Any, ...]
    #: Whether these are all numbers of values.
    is_simple: bool
    first: int
    results: int
    #: The values that nobody wants any more.
    done: tuple[int, ...]
    #: Its place among all calls, and its place in the tree.
    place: int
    call: Call


class NewProgram(RunsWhole):
    """The calls up to one, run one by one; see `pyrite.backend.compiling.Program`.

    It becomes the program of their graph, once that is there: see the head of this file.
    """

    __slots__ = (
        "__weakref__", "_coming", "_donated", "_error", "_fused", "_inner", "_is_awaited",
        "_is_looked_at", "_is_whole", "_key", "_last", "_list", "_made", "_places", "_recorded",
        "_runs", "_same", "_start", "_types",
    )  # fmt: skip

    def __init__(
        self, recorded: RecordedCalls, last: Call, key: tuple[Any, ...],
        types: Sequence[TensorType], donated: Sequence[int] = (),
        same: Mapping[int, int] | None = None, *, is_whole: bool = False,
    ) -> None:  # fmt: skip
        self._recorded, self._inner = recorded, recorded.inner
        self._last, self._key, self._types = last, key, tuple(types)
        #: What of inputs results may take, and which numbers are one: the program's, not the ops'.
        self._donated, self._same = donated, same
        #: Whether they are a whole function, which is worth a program however small.
        self._is_whole = is_whole
        #: Whether it is taken at a fixed run.
        self._is_awaited = not self._inner.keeps_bits and (
            is_whole or recorded.has_other_sizes(last)
        )
        self._list: tuple[tuple[DirectCall, ...], tuple[tuple[int, TensorType], ...]] | None = None
        inputs = range(-1, -1 - len(types), -1)
        #: Of each input of a run the number of its value.
        self._places = (*inputs, *range(last.results, last.results + last.numbers))
        self._start: Start | None = None
        self._fused: Program | None = None
        #: What compiles it, and what that made, where it is taken at a fixed run.
        self._coming: Callable[[], None] | None = None
        self._made: Program | None = None
        self._error: Exception | None = None
        self._is_looked_at = False
        self._runs = 0

    @property
    def _calls(self) -> tuple[tuple[DirectCall, ...], tuple[tuple[int, TensorType], ...]]:
        """What is run, and the values of numbers: found out when it is first asked for."""
        if self._list is None:
            self._list = _steps(self._last, self._key[0])
        return self._list

    @property
    def is_small(self) -> bool:
        """Whether it is not worth a program: one op beside views, or few of little."""
        if self._is_whole:
            return False
        steps = [s for s in self._calls[0] if not isinstance(s.op.rule, View)]
        nbytes = sum(t.size * t.dtype.itemsize for s in steps for t in s.call.types)
        worth = self._inner.program_worth
        calls = [s.call for s in steps]
        saved = sum([worth.saved(len(c.types), is_together=c.is_together) for c in calls])
        return len(steps) <= 1 or saved + nbytes / worth.nbytes <= worth.cost

    @property
    def _has_thread(self) -> bool:
        """Whether a thread compiles it, for any run to come or for a fixed one."""
        return config.ahead and (self._inner.keeps_bits or self._is_awaited)

    # ---- what a program tells ----

    @property
    def launches(self) -> int:
        """How many kernels, or ops, one run starts."""
        return len(self._calls[0]) if self._fused is None else self._fused.launches

    @property
    def checked(self) -> frozenset[int]:
        """The calls that may find an index outside."""
        return frozenset(s.place for s in self._calls[0] if s.call.is_checked)

    @property
    def fused(self) -> Program | None:
        """The program itself, once there is one."""
        return self._fused

    def memory(self, sites: Sites) -> ProgramMemory | None:
        """Return what a run takes beside its inputs; None while it is its ops."""
        return None if self._fused is None else self._fused.memory(sites)

    # ---- running ----

    def begin(self, inputs: Sequence[Any], sites: Sites) -> Begun | None:
        """Do what the program's does, once there is one: ops write over no inputs."""
        if self._fused is None and self._is_budgeted:
            self._compiled(inputs)
        return None if self._fused is None else self._fused.begin(inputs, sites)

    def run(self, inputs: Sequence[Any], sites: Sites) -> Sequence[Handle]:
        """Return the results, of the program if it is there by now."""
        fused = self._fused or self._due(inputs)
        if fused is not None:
            return fused.run(inputs, sites)
        results = self._run_ops(inputs, sites)
        if results is None:
            # An op that has no kernels of its own for operands that lie so.
            return self._compiled(inputs).run(inputs, sites)
        self._recorded.op_runs += 1
        return results

    @property
    def _is_budgeted(self) -> bool:
        return memory_limit() is not None and self._inner.plans_memory

    def _due(self, inputs: Sequence[Any]) -> Program | None:
        """Return the program, if this run has to wait for it; have it compiled if it came often."""
        if self._is_budgeted:
            # What ops take one by one is not known before.
            return self._compiled(inputs)
        self._runs += 1
        after = self._recorded.after
        if self._error is not None:
            self._tell_error()
        elif self.is_small:
            return None
        elif self._has_thread:
            if self._runs == after:
                self._compile_later([self._inner.without_memory(i) for i in inputs])
            elif self._is_awaited and self._runs > max(after, RUNS_AS_OPS):
                return self._awaited(inputs)
        elif self._runs > after:
            return self._compiled(inputs)
        return None

    def _compile_later(self, examples: Sequence[Any]) -> None:
        job = self._job(examples)
        if self._is_awaited:
            self._coming = job
        self._inner.compile_later(job)

    def _awaited(self, inputs: Sequence[Any]) -> Program:
        """Return the program that a thread compiled; where it could not, it is compiled here."""
        if self._coming is not None:
            self._inner.finish_job(self._coming)
            self._coming = None
        if self._made is None:
            return self._compiled(inputs)
        self._fused, self._made = self._made, None
        self._lead()
        return self._fused

    def note_run(self, examples: Sequence[Any], start: Start, runs: int) -> None:
        """Note that the calls ran so often when they were made, for inputs like these."""
        self._start = start
        if self._fused is not None:
            start.lead()
            return
        before, after = self._runs, self._recorded.after
        self._runs += runs
        if self._coming is not None:
            # It was asked for when they were noted last, a fixed number of runs before.
            self._awaited(examples)
            return
        if self._runs > 1 and not self.is_small:
            start.note_again(is_asked_for=self._runs >= after)
        if self._error is not None:
            self._tell_error()
        elif before < after <= self._runs and not self.is_small:
            if self._has_thread:
                self._compile_later(examples)
            else:
                self._job(examples)()

    def _compiled(self, inputs: Sequence[Any]) -> Program:
        """Return the program of the calls, which is taken from now on."""
        self._fused = self._program(inputs)
        self._lead()
        return self._fused

    def _lead(self) -> None:
        """Have calls that begin so recorded from now on."""
        self._recorded.note_taken(self._last)
        if self._start is not None:
            self._start.lead()

    def _program(self, inputs: Sequence[Any]) -> Program:
        """Return the program of the calls, compiled unless it is known by content."""
        return program_of(
            self._recorded, self._last, self._types, self._key, inputs, self._donated, self._same
        )

    def _job(self, examples: Sequence[Any]) -> Callable[[], None]:
        """Return what compiles the program, if anybody can still want it by then."""
        here = ref(self)

        def compile() -> None:
            of = here()
            if of is None or of._fused is not None:
                return
            try:
                before = of._recorded.compiled
                if of._coming is None:
                    of._compiled(examples)
                else:
                    of._made = of._program(examples)
                of._recorded.compiled_ahead += of._recorded.compiled - before
            except Exception as error:
                if of._coming is not None:
                    return  # the run that is due meets it
                of._error = error
                if of._start is not None:
                    # It is told at the next run that is noted.
                    of._start.note_again(is_asked_for=False)

        return compile

    def _tell_error(self) -> None:
        """Say once that the program could not be compiled."""
        error, frame = self._error, user_frame()
        if error is _TOLD:
            return
        self._error = _TOLD
        warnings.warn_explicit(
            f"Fusion requires programs that compile, got {type(error).__name__}: {error}, for ops "
            f"up to {self._last.line}; they run one by one; report it",
            BackgroundCompileWarning, frame.f_code.co_filename, frame.f_lineno,
        )  # fmt: skip

    def _run_ops(self, inputs: Sequence[Any], sites: Sites) -> Sequence[Handle] | None:
        """Return the results of the ops; None where one of them cannot run alone."""
        # Written for speed: what is read after each op comes here each time.
        values: dict[int, Any] = dict(zip(self._places, inputs, strict=True))
        steps, numbers = self._calls
        for value, type in numbers:
            if (number := values[value]).type is not type:
                values[value] = number.with_type(type)
        execute, place = self._inner.execute, [0]
        before = tell_lines(lambda: sites[place[0]])
        try:
            for op, plan, wanted, is_simple, first, count, done, place[0], call in steps:
                if is_simple:
                    operands = [values[x] for x in wanted]
                else:
                    operands = [values[x] if x.__class__ is int else x for x in wanted]
                results = execute(op, operands, plan)
                if results is None:
                    return None
                if call.is_checked and not self._is_looked_at:
                    _mark(self._recorded, call, any(map(self._inner.is_in_doubt, results)))
                if count == 1:
                    values[first] = results[0]
                else:
                    values.update(zip(range(first, first + count), results, strict=True))
                for value in done:
                    del values[value]
        finally:
            tell_lines(before)
        self._is_looked_at = True
        return [values[n] for n in self._key[0]]


#: In the place of an error that was told.
_TOLD = Exception()


def program_of(
    recorded: RecordedCalls, last: Call, types: Sequence[TensorType], key: tuple[Any, ...],
    inputs: Sequence[Any], donated: Sequence[int] = (), same: Mapping[int, int] | None = None,
) -> Program:  # fmt: skip
    """Return the program of the calls up to one; ``key`` is what is wanted, and layouts."""
    graph = graph_of(last, types, key[0], same)
    program = recorded.program(graph, key[1:], inputs, last, donated)
    reached = set(reaching(graph))
    for n, call in enumerate(last.path):
        if n in reached:
            _mark(recorded, call, n in program.checked)
    return program


def _mark(recorded: RecordedCalls, call: Call, is_checked: bool) -> None:
    """Note whether the line of a call is wanted."""
    if call.is_checked is not is_checked:
        call.is_checked = is_checked
        recorded.changes += 1


def _steps(
    last: Call, wanted: Sequence[int]
) -> tuple[tuple[DirectCall, ...], tuple[tuple[int, TensorType], ...]]:
    """Return the calls that results are made of, in order; and the values of numbers, with types.

    Values are the results from 0 on, inputs from -1 down, and numbers behind the results.
    """
    used, found = set(wanted), []
    numbers: dict[int, Number] = {}
    path = last.path
    for place in reversed(range(len(path))):
        call = path[place]
        count = len(call.types)
        first = call.results - count
        results = range(first, first + count)
        if used.isdisjoint(results):
            continue
        assert call.op is not None
        assert call.plan is not None
        operands: list[Any] = []
        for x in call.operands:
            if isinstance(x, Number):
                numbers[last.results + x.position] = x
                operands.append(last.results + x.position)
            elif isinstance(x, Literal):
                operands.append(Constant(x.value, TensorType((), x.dtype)))
            else:
                operands.append(x)
        values = [x for x in (*operands, *results) if isinstance(x, int) and x >= 0]
        done = tuple([v for v in dict.fromkeys(values) if v not in used])
        used.update(values)
        is_simple = all(isinstance(x, int) for x in operands)
        plan = call.plan if call.plan.is_kept else Plan(call.plan.attrs, call.types, is_kept=True)
        found.append(
            DirectCall(call.op, plan, tuple(operands), is_simple, first, count, done, place, call)
        )
    return tuple(found[::-1]), tuple([(value, x.type) for value, x in numbers.items()])
