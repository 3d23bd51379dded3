"""The Fusion decorator: ops are recorded, and run as one program when somebody wants a value.

What is known before an op runs, types and shapes, is known at once, and so are errors of these.
Only what somebody still holds when a program runs is written to memory.

Invariant: nothing here names an op.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any
from weakref import WeakSet

from pyrite.backend.compiling import FOREIGN
from pyrite.backend.fusion.deferred import DeferredRun
from pyrite.backend.fusion.eager import (
    LOOKING,
    NOT_EAGER,
    OTHER,
    PLAIN,
    RECORDING,
    RESTING,
    EagerCalls,
    computed,
    read_external,
)
from pyrite.backend.fusion.lazy import NOWHERE, External, Lazy, has_lazy, known_values
from pyrite.backend.fusion.native import native_execute, native_key
from pyrite.backend.fusion.passage import PassageCalls, operands_of
from pyrite.backend.fusion.pending import ENDED, LEFT, MOST_CALLS, PendingCalls, captured_read
from pyrite.backend.fusion.recorded import RecordedCalls
from pyrite.backend.fusion.task_calls import RECORDED, CallsHere, TaskCalls
from pyrite.backend.memory import DeviceMemory
from pyrite.backend.passage import Passage
from pyrite.backend.protocol import Backend
from pyrite.config import Check, config
from pyrite.errors import CompileError
from pyrite.op import (
    Constant,
    Handle,
    Op,
    Plan,
    TensorBase,
    different_devices,
    restrictions,
)
from pyrite.op.columns import ColumnCalls
from pyrite.types import Array, TensorType

_modules = sys.modules
#: All that there are.
FUSED: WeakSet[Fusion] = WeakSet()


class Fusion(Backend):
    """A backend that runs what another one can in programs of many ops.

    Each thread records its own, and each asyncio task in it; a value that another one recorded is
    computed when it is used.
    """

    name = "fusion"
    inner: Backend

    def __init__(self, inner: Backend, *, check: Check | None = None, after: int = 0) -> None:
        self.inner = inner
        self.name = inner.name
        self.level = inner.level
        self.is_software = inner.is_software
        self.dtypes = inner.dtypes  # type: ignore[misc]
        self.falls_back = inner.falls_back  # type: ignore[misc]
        self.shares_with_numpy = inner.shares_with_numpy  # type: ignore[misc]
        self.keeps_budget = inner.plans_memory
        self.recorded = RecordedCalls(
            inner,
            config.fusion_check if check is None else check,
            after,
        )
        self._starts = self.recorded.starts
        self._rounds = self.recorded.rounds
        self._begin = EagerCalls if self.recorded.after else PendingCalls
        self._calls = CallsHere()
        if (execute := native_execute(inner, self.execute, self._rounds, self._calls)) is not None:
            self.execute = execute  # type: ignore[method-assign]
        self.recorded.native_key = native_key(inner)
        FUSED.add(self)

    @property
    def details(self) -> str:  # type: ignore[override]
        """What computes here."""
        return self.inner.details

    # ---- ops ----

    def keeps(self, op: Op, inputs: Sequence[Handle]) -> bool:
        """Whether the backend keeps it."""
        return op.body is None or self.inner.keeps(op, [computed(i) for i in inputs])

    def execute(  # noqa: C901 - in one piece, as each call is a tenth of what a small op takes
        self, op: Op, inputs: Sequence[Handle], plan: Plan
    ) -> Sequence[Handle] | None:
        """Record a call; one that no program can hold runs at once, behind what it needs."""
        # Written for speed: this is run for every op, and most came here before.
        here = self._calls.of_thread
        state = here.state
        made: Sequence[Handle] | None
        # PLAIN is 0.
        if self._rounds and (not state or state == LOOKING) and self._begins_round(here, plan):
            return self._executed(here, op, inputs, plan)
        if not state or (
            state == RESTING and self._begins_plain(here, plan if plan.is_kept else op)
        ):
            if not restrictions and not (op.kernels and has_lazy(inputs)):
                made = self.inner.execute(op, inputs, plan)
                if made is not FOREIGN:
                    return made
        elif state == LOOKING:
            looking: Any = here.pending
            if not restrictions and (not here.is_in_task or RECORDED.get() is looking):
                made = looking.execute_seen(op, inputs, plan)
                if made is not FOREIGN:
                    return made
        elif here.state == RECORDING and plan.is_kept:
            calls: Any = here.pending
            if here.is_in_task:
                is_here = RECORDED.get() is calls
            else:
                # A loop runs in this thread, or may by now.
                running = here.running
                is_here = (_modules.get("asyncio") if running is None else running()) is None
            if is_here:
                made = calls.record_again(inputs, plan)
                if made is not None:
                    return made
        return self._executed(here, op, inputs, plan)

    def _begins_plain(self, here: TaskCalls, key: Hashable) -> bool:
        """Whether the first op after a read is run as it is, and what follows it; see eager.py.

        One that begins a program is to be recorded; others are looked at.
        """
        start = self._starts.get(key)
        if start is None:
            return False
        if (not here.is_alone or start.rest < 2) and (state := here.turned_state()) != RESTING:
            return state == PLAIN
        if start.leads:
            here.pending = PendingCalls(self.recorded, start)
            here.note_state()
            return False
        if start.rest < 2:
            return False
        start.rest -= 1
        here.state = PLAIN
        return True

    def _begins_round(self, here: TaskCalls, plan: Plan) -> bool:
        """Whether a round begins in the middle of plain calls, and is a program or to be noted."""
        start = self._starts.get(plan) if plan in self._rounds else None
        if start is None or restrictions:
            return False
        if not start.leads and start.rest > 1:
            if here.state == PLAIN:
                start.rest -= 1
            return False
        state = here.state
        if here.turned_state() != state or here.is_in_task or not here.is_alone:
            return False
        calls: Any = here.pending
        if state == LOOKING and not (start.leads and calls.gives_way()):
            return False
        calls.is_begun, here.state = False, OTHER
        return True

    def _executed(
        self, here: TaskCalls, op: Op, inputs: Sequence[Handle], plan: Plan
    ) -> Sequence[Handle] | None:
        """Do what `execute` does, for any call."""
        here.turn()
        if here.deferred is not None:
            here.finish()
        calls = here.pending
        if calls.__class__ is PendingCalls and plan.is_kept:
            # Of a task whose turn it is now.
            made: Sequence[Handle] | None = calls.record_again(inputs, plan)
            if made is not None:
                return made
        if calls is None or calls.is_done:
            calls = here.pending = self._begin(self.recorded)
        if isinstance(calls, EagerCalls):
            found: Any = calls.execute(op, inputs, plan)
            here.note_state()
            if found is not NOT_EAGER:
                return found  # type: ignore[no-any-return]
            here.pending, here.state = PendingCalls(self.recorded, calls.start), OTHER
        made = self._recorded(op, inputs, plan)
        here.note_state()
        return made

    def _recorded(self, op: Op, inputs: Sequence[Handle], plan: Plan) -> Sequence[Handle] | None:
        # Behind what runs at once: see eager.py.
        while True:
            pending = self._pending()
            for i in inputs:
                if i.__class__ is Lazy and i.value is None and i.place[0] is not pending:
                    i.place[0].run()
            with pending.lock:
                # Another thread may have run it meanwhile.
                if pending.at.count >= MOST_CALLS and not pending.is_captured:
                    pending.run()
                if not pending.is_done:
                    made = pending.record(op, inputs, plan)
                    break
        if made is LEFT or made is ENDED:
            pending.run()
            return self._behind(None if made is ENDED else pending, op, inputs, plan)
        if made is None:
            return (
                None if op.body is not None and not op.kernels else self._at_once(op, inputs, plan)
            )
        if self.recorded.has_external and any([i.__class__ is External for i in inputs]):
            read_external(self.inner, op, made)
            if not pending.is_captured:
                pending.run()
        return made

    def _behind(
        self, left: PendingCalls | None, op: Op, inputs: Sequence[Handle], plan: Plan
    ) -> Sequence[Handle] | None:
        """Run a call behind recorded ones: it goes on otherwise than those that were ``left``."""
        here = self._calls.of_thread
        calls = here.pending = EagerCalls(self.recorded)
        if left is None:
            return self._executed(here, op, inputs, plan)
        calls.depart(left)
        found: Any = calls.execute(op, inputs, plan)
        assert found is not NOT_EAGER, "nothing is restricted"
        return found  # type: ignore[no-any-return]

    def execute_many(
        self, op: Op, calls: Sequence[tuple[Sequence[Handle], Plan]]
    ) -> Sequence[Sequence[Handle] | None]:
        """Record several calls of an op, the end of a step of training: what there is then runs."""
        made = self._known_many(op, calls)
        if not self._is_captured:
            self.flush()
        return made

    def execute_columns(
        self, calls: ColumnCalls, inputs: Sequence[Any]
    ) -> Sequence[Sequence[Handle]] | None:
        """Do what `execute_many` does, for calls on columns."""
        made = self._known_columns(calls, inputs)
        if self._is_captured:
            return made
        self.flush()
        return None if made is None else [known_values(column) for column in made]

    def _known_columns(
        self, calls: ColumnCalls, inputs: Sequence[Any]
    ) -> Sequence[Sequence[Handle]] | None:
        operands, places = operands_of(inputs)
        passage = self._passage(calls, operands)
        count = len(calls.out)
        if passage is not None and (found := passage.recorded()) is not None:
            return [found[n::count] for n in range(count)]
        made = [self.execute(calls.op, row, plan) for row, plan in calls.rows(inputs)]
        self._note_together(len(made))
        if None in made:
            return None
        if passage is not None:
            numbers = [n for _ in calls.plans for n in places]
            passage.note(calls.plans, numbers, [x for results in made for x in results or ()])
        return [*zip(*made, strict=True)]

    def _known_many(
        self, op: Op, calls: Sequence[tuple[Sequence[Handle], Plan]]
    ) -> Sequence[Sequence[Handle] | None]:
        """Do what `execute` does for each; together, where they came here together before."""
        plans = tuple([plan for _, plan in calls])
        operands = [x for inputs, _ in calls for x in inputs]
        passage = self._passage(plans, operands) if all([p.is_kept for p in plans]) else None
        if passage is not None and (found := passage.recorded()) is not None:
            rest = iter(found)
            return [[*islice(rest, len(plan.out or ()))] for plan in plans]
        made = [self.execute(op, inputs, plan) for inputs, plan in calls]
        self._note_together(len(made))
        if passage is not None and None not in made:
            numbers = [n for n, x in enumerate(operands) if x.__class__ is Constant]
            passage.note(plans, numbers, [x for results in made for x in results or ()])
        return made

    def execute_passage(self, passage: Passage, inputs: Sequence[Handle]) -> Sequence[Handle]:
        """Record calls that are asked for together: those that came here before by one look-up."""
        operands = passage.operands(inputs)
        known = self._passage(passage, operands)
        found = None if known is None else known.recorded()
        if found is None:
            found = passage.run(self, inputs)
            self._note_together(len(passage.calls))
            if known is None:
                return found
            known.note([call.plan for call in passage.calls], passage.numbers(operands), found)
        return found

    def _note_together(self, count: int) -> None:
        """Note that the last so many calls, if they are noted at all, come together each time."""
        calls = self._calls.of_thread.pending
        noted = calls.noted if isinstance(calls, EagerCalls) else calls
        if noted is not None:
            noted.at.note_together(count)

    def _passage(self, head: Hashable, operands: Sequence[Any]) -> PassageCalls | None:
        """Return calls that are about to be recorded here; None where nothing is recorded now."""
        here = self._calls.of_thread
        if here.state != RECORDING:
            return None
        calls: Any = here.pending
        if here.is_in_task:
            is_here = RECORDED.get() is calls
        else:
            running = here.running
            is_here = (_modules.get("asyncio") if running is None else running()) is None
        return PassageCalls(calls, head, operands) if is_here else None

    def _at_once(self, op: Op, inputs: Sequence[Handle], plan: Plan) -> Sequence[Handle] | None:
        """Run a call on the backend.  Raises CompileError in a function that is captured."""
        if self._is_captured:
            raise CompileError(
                f"compile requires ops that a program can hold, got {op.name}, which runs by "
                "itself; call it outside"
            )
        return self.inner.execute(op, [computed(i) for i in inputs], plan)

    def _pending(self) -> PendingCalls:
        here = self._calls.of_thread
        here.turn()
        if here.deferred is not None:
            here.finish()
        pending = here.pending
        if not isinstance(pending, PendingCalls) or pending.is_done:
            pending = here.pending = PendingCalls(self.recorded)
            here.state = OTHER
        return pending

    @property
    def _is_captured(self) -> bool:
        pending = self._calls.now.pending
        return pending is not None and pending.is_captured

    def captured(self, *, waits: bool = True) -> PendingCalls:
        """Return the calls that this thread records from now on, of a function that is captured.

        Who asked sets ``is_captured`` back when the function has returned; then they are as others.
        Their program is compiled before it first runs; or by a thread, while calls run as their
        ops, if nobody waits for it.
        """
        self.flush()
        here = self._calls.now
        waits = waits or not self.compiles_later
        pending = here.pending = PendingCalls(self.recorded, is_captured=True, waits=waits)
        here.state = OTHER
        return pending

    @property
    def compiles_later(self) -> bool:
        """Whether what is new may run as its ops until a thread has compiled its program."""
        return bool(config.ahead and self.recorded.after)

    def flush(self) -> None:
        """Run what this thread, or this task in it, has recorded."""
        here = self._calls.of_thread
        if here.state <= RESTING and here.is_alone:
            here.state = RESTING
            return
        here.turn()
        here.finish()
        if here.pending is not None:
            here.pending.run()
            here.note_state()

    def put_off(self, rest: DeferredRun) -> None:
        """Have the end of a run come before the next op, read or wait of this thread."""
        here = self._calls.of_thread
        here.settle()
        here.state = OTHER
        here.deferred = rest

    def finish(self) -> None:
        """Do what was put off."""
        self._calls.of_thread.finish()

    def _read(self, handle: Any) -> Any:
        """Return the handle of the backend below, of what leaves the device or is waited for.

        Raises CompileError in a function that is captured, also for what is computed already: a
        replay would not look again.
        """
        here = self._calls.of_thread
        if here.state <= RESTING:
            here.state = RESTING
            return computed(handle) if isinstance(handle, Lazy) else handle
        here.turn()
        if (pending := here.pending) is not None:
            if pending.is_captured:
                raise captured_read()
            if pending.__class__ is EagerCalls:
                pending.note_read(handle)
        if here.deferred is not None:
            here.finish()
        value = computed(handle)
        here.note_state()
        return value

    # ---- values ----

    def memory(self) -> DeviceMemory | None:
        """Return how much memory is in use, and what the largest programs take."""
        found = self.inner.memory()
        return None if found is None else replace(found, programs=tuple(self.recorded.largest))

    def upload(self, array: Array) -> Handle:
        """Return a handle of a copy of the array."""
        return self.inner.upload(array)

    def adopt(self, array: Any) -> External | None:
        """Return a handle that shares an array's memory, where the backend can."""
        found = self.inner.adopt(array)
        return None if found is None else self._external(found)

    def _external(self, value: Handle) -> External:
        self.recorded.has_external = True
        return External(self.inner.type_of(value), NOWHERE, value)

    def download(self, handle: Handle) -> Array:
        """Return the values as a read-only array."""
        return self.inner.download(self._read(handle))

    def download_all(self, handles: Sequence[Handle]) -> list[Array]:
        """Return the values of several, by one read of the backend."""
        return self.inner.download_all([self._read(handle) for handle in handles])

    async def download_all_async(self, handles: Sequence[Handle]) -> list[Array]:
        """Return what `download_all` returns, while the event loop runs on."""
        return await self.inner.download_all_async([self._read(handle) for handle in handles])

    def host_view(self, handle: Handle) -> Array:
        """Return the memory itself as a read-only array, where the backend can."""
        return self.inner.host_view(self._read(handle))

    def type_of(self, handle: Handle) -> TensorType:
        """Return the type of a handle."""
        return handle.type if isinstance(handle, Lazy) else self.inner.type_of(handle)

    def supports(self, type: TensorType) -> bool:
        """Whatever the backend supports."""
        return self.inner.supports(type)

    def machine_code(
        self, source: str, held: Sequence[object], slots: Sequence[tuple[type, str, object]],
        name: str = "execute",
    ) -> Callable[..., Any] | None:  # fmt: skip
        """Whatever the backend has."""
        return self.inner.machine_code(source, held, slots, name)

    def primitive(self, handle: Handle) -> Any:
        """Return what lies under all decorators, when what computes it is asked for."""
        return self.inner.primitive(self._read(handle))

    def export(self, handle: Handle) -> Any:
        """Return a torch.Tensor with the memory of a handle of `primitive`, or None."""
        return self.inner.export(handle)

    def execute_into(
        self, op: Op, inputs: Sequence[Handle], plan: Plan, targets: Sequence[Handle]
    ) -> Sequence[External]:
        """Execute one op into memory of the application, behind what was asked for before."""
        self.flush()
        given = [self._read(i) for i in inputs]
        made = self.inner.execute_into(op, given, plan, [self._read(t) for t in targets])
        return [self._external(m) for m in made]

    def renew(self, handle: Handle) -> Handle:
        """Return a handle of the application's memory as it is after it was written to."""
        self.flush()
        renewed = self.inner.renew(self._read(handle))
        return self._external(renewed) if isinstance(handle, External) else renewed

    def synchronize(self) -> None:
        """Wait until all that this thread has recorded, and all submitted work, is done."""
        self.flush()
        self.inner.synchronize()

    async def synchronize_async(self) -> None:
        """Wait as `synchronize` does, while the event loop runs on."""
        self.flush()
        await self.inner.synchronize_async()

    def is_ready(self, handle: Handle) -> bool:
        """Return whether a read would not wait; a value that was only recorded is asked for."""
        return self.inner.is_ready(self._read(handle))

    def wait(self, handle: Handle) -> None:
        """Wait until the values of a handle are computed."""
        self.inner.wait(self._read(handle))

    def lift(self, tensor: TensorBase) -> Handle:
        """Return a handle of a tensor of the backend below."""
        if tensor._backend is self:
            return tensor._handle
        if tensor._backend.level >= self.level and tensor._backend is not self.inner:
            different_devices(self, tensor._backend)
        return self.inner.lift(tensor)
