"""Pyrite's own kernels on any runtime: `CubeBackend(runtime)`.

An op becomes kernels by its lowering (see `registry`) or, if it has a scalar rule, by that
rule; they are built in the kernel IR, compiled by the runtime once per types and layouts, and put
into its stream.  Nothing waits but `download` and `synchronize`.  An op without kernels falls back
to NumPy, loudly.

Named for CubeCL, whose place in Burn it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

from pyrite.backend.compiling import FOREIGN, Worth
from pyrite.backend.cube.custom import first_of
from pyrite.backend.cube.fault import AnyDoubt, joined
from pyrite.backend.cube.frequent import CountedRecording
from pyrite.backend.cube.guard import guarded, guarding
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.lowering.movement import view
from pyrite.backend.cube.outside import apart, require_separate
from pyrite.backend.cube.own_call import OwnCalls
from pyrite.backend.cube.programs import CubePrograms
from pyrite.backend.cube.recorder import record
from pyrite.backend.cube.recording import EXPANSION, RECORDINGS, Expansion, Recording
from pyrite.backend.cube.recording_key import key_of
from pyrite.backend.cube.registry import Lowering, means_of
from pyrite.backend.cube.rehearsal import kind_of, rehearse
from pyrite.backend.cube.relayout import Relayout, relayout_of
from pyrite.backend.cube.sized import SizedCall, SizedRecordings
from pyrite.backend.cube.slot import Slot
from pyrite.backend.cube.tensor import (
    CubeTensor,
    without_memory,
)
from pyrite.backend.cube.values import require_dtype, require_indexable
from pyrite.backend.fallback import note_fallback
from pyrite.backend.means import note_means
from pyrite.backend.numpy import NumPy
from pyrite.errors import DeviceError, UnsupportedKernelError
from pyrite.op import Attributes, Constant, Op, Plan, require_reference
from pyrite.recent import Recent
from pyrite.runtime.protocol import Runtime
from pyrite.types import TensorType, bool_

REFERENCE = NumPy()

#: What calls of a plan do, for inputs that lie in one way.
Replay = Recording | CountedRecording | Relayout | Expansion

#: `CubeBackend.execute`; and what makes one that is quicker where what a call does is among those
#: that are kept, and else calls the one given.  None where that cannot be.
Execute = Callable[..., Sequence[CubeTensor] | None]
Executor = Callable[[Recent[Hashable, Any], Execute], Execute | None]


class CubeBackend(CubePrograms):
    """A runtime as a backend.  A handle is a `CubeTensor`.

    ``executor`` gives what executes calls in the place of `execute`, where it can.
    """

    plans_memory = True
    #: What makes machine code for the host, where something does: a `HostCode`.
    code: Any = None

    def __init__(self, runtime: Runtime, executor: Executor | None = None) -> None:
        self.runtime = runtime
        self.launcher = Launcher(runtime)
        # To record an op takes a processor as long as to run a small one, both by machine code.  A
        # launch costs a GPU more than the host, a program little more than a launch.
        self.program_worth = Worth(15, 0, 5, 1 << 16) if runtime.is_host else Worth(3)
        self.round_bytes = 1 << 24 if runtime.is_host else 0
        # On a GPU a fused sum may add up in another order.
        self.keeps_bits = runtime.is_host
        self._guard = guarding(runtime)
        self._recordings: Recent[Hashable, Recording] = Recent(RECORDINGS)
        #: What was recorded at some sizes: see `kind_of`.
        self._kinds: Recent[Hashable, bool] = Recent(RECORDINGS)
        #: The same by plan: what a plan depends on need not be looked at again.
        self._planned: Recent[Hashable, Any] = Recent(RECORDINGS)
        self._own = OwnCalls(self.launcher)
        self._sized = SizedRecordings(self.launcher, self.lowering_of_call)
        # The name belongs to the runtime, hence to the instance.
        self.name = runtime.name
        native = None if executor is None else executor(self._planned, self.execute)
        #: Whether machine code makes calls that were recorded.
        self.is_native = native is not None
        if native is not None:
            # On the instance: to call one from a method takes a tenth of what a small op does.
            self.execute = native  # type: ignore[method-assign]

    @property
    def recordings(self) -> int:
        """How many calls, by op, types, layouts and attributes, are recorded."""
        return len(self._recordings)

    def execute(  # noqa: C901 - in one pass, as each call is a tenth of what a small op takes
        self, op: Op, inputs: Sequence[Any], plan: Plan
    ) -> Sequence[CubeTensor] | None:
        """Execute one op as it was planned, mostly by what a call of its plan has recorded."""
        if op.kernels:
            own, results = self._own.replay(op, inputs, plan)
            return self._execute_own(own, op, inputs, plan) if results is None else results
        # As `key_of_plan` and `operands_of` do, in one pass: this is run for every op.
        parts: list[Hashable] = [plan]
        operands: list[Any] = []
        doubt: AnyDoubt | None = None
        for i in inputs:
            if i.__class__ is CubeTensor:
                parts.append(i.layout or i.layout_of())
                operands.append(i.buffer)
                its = i.doubt
                if its is not doubt and its is not None:
                    doubt = joined(doubt, its)
            elif i is not None:
                if not isinstance(i, Constant):
                    return FOREIGN
                if i.type.dtype is bool_:
                    parts.append(bool(i.value))
        key = tuple(parts)
        planned = self._planned
        recording = planned.young.get(key) or planned.get(key)
        if recording is None:
            recording = self._recording_of(op, inputs, plan)
            if recording is None:
                lowering = self.lowering_of_call(op, inputs, plan.attrs)
                return self._unrecorded_or_none(lowering, op, inputs, plan)
            if plan.is_kept:
                if recording.__class__ is Recording and recording.is_general:
                    recording = self._counted(key, recording, op, inputs, plan)
                self.keep_replay(key, recording)
        return recording.run(self.launcher, inputs, operands, doubt)

    def machine_code(
        self, source: str, held: Sequence[object], slots: Sequence[tuple[type, str, object]],
        name: str = "execute",
    ) -> Callable[..., Any] | None:  # fmt: skip
        """Return the function of a source of `pyrite.runtime.cpu`; see `Backend.machine_code`."""
        return None if self.code is None else self.code.function(source, held, slots, name)

    def replay_of(self, key: Hashable) -> Any:
        """Return what is kept of calls of a plan, for inputs that lie in one way; or None."""
        return self._planned.get(key)

    def keep_replay(self, key: Hashable, replay: Replay) -> None:
        """Keep what calls of a plan do, for inputs that lie in one way."""
        self._planned.put(key, replay)

    def _recording_of(self, op: Op, inputs: Sequence[Any], plan: Plan) -> Replay | None:
        """Return what calls of a plan do with such inputs, None where it is found out each time."""
        if op.body is None and self.lowering(op) is view:
            relayout = relayout_of(op, inputs, plan)
            if relayout is not None:
                require_indexable(op.name, relayout.type)
                note_means(self.runtime.name, op.name, means_of(op, view))
                return relayout
        kind = kind_of(op, inputs, plan.attrs) if plan.is_kept and not op.sync else None
        found = None if kind is None else self._sized_recording(kind, op, inputs, plan)
        if found is not None:
            return found
        lowering = self.lowering_of_call(op, inputs, plan.attrs)
        if op.body is not None and lowering is None:
            return EXPANSION
        return self._recording(lowering, op, inputs, plan.attrs, plan.out, kind)

    def _counted(
        self, key: Hashable, recording: Recording, op: Op, inputs: Sequence[Any], plan: Plan
    ) -> CountedRecording:
        """Return a recording that is made anew, sizes built in, when it has come back often."""
        given = [without_memory(x) for x in inputs]

        def job() -> None:
            lowering = self.lowering_of_call(op, given, plan.attrs)
            if lowering is not None:
                found, _, _ = record(self.launcher, lowering, op, given, plan.attrs, plan.out)
                self.keep_replay(key, found)

        return CountedRecording(recording, lambda: self.launcher.ahead.submit_soon(job))

    def _sized_recording(
        self, kind: Hashable, op: Op, inputs: Sequence[Any], plan: Plan
    ) -> Recording | None:
        """Return the recording of a call like others of its kind but for sizes, if it is known."""
        if plan.out is None or not self._sized.has(kind):
            return None
        require_indexable(op.name, *plan.out)
        return self._sized.recording(kind, SizedCall(op, inputs, plan.attrs, plan.out))

    def _execute_own(
        self, key: Hashable | None, op: Op, inputs: Sequence[Any], plan: Plan
    ) -> Sequence[CubeTensor] | None:
        """Execute an op with kernels of its own by a call that was not recorded: its second is."""
        own = self._own
        lowering = self.lowering_of_call(op, inputs, plan.attrs)
        if lowering is None and op.body is not None:
            return None  # none of its kernels runs here: expanded, as other composites are
        try:
            if key is not None and lowering is not None and not own.is_new(key):
                recording, numbers = own.recorded(lowering, op, inputs, plan)
                if numbers is not None:
                    return recording.replay(self.launcher, inputs, numbers)
            results = self._unrecorded(lowering, op, inputs, plan.attrs, plan.out)
        except UnsupportedKernelError:
            if op.body is None:
                raise
            return None
        if key is not None:
            own.note(key)
        return results

    def unstored(self, type: TensorType) -> CubeTensor:
        """Return a dense tensor without memory, for `prepare`."""
        require_dtype(self.runtime, "a tensor", type.dtype)
        require_indexable("prepare", type)
        return CubeTensor.dense(Slot(0, type.nbytes), type)  # type: ignore[arg-type]

    def prepare(self, op: Op, inputs: Sequence[Any], plan: Plan) -> Sequence[CubeTensor] | None:
        """Compile what a call launches, and keep that for calls of the plan; launch nothing."""
        lowering = self.lowering_of_call(op, inputs, plan.attrs)
        if lowering is None and op.body is None:
            require_reference(op, self.name)
        elif lowering is not None and plan.out is not None and not op.sync:
            return self._prepared(lowering, op, inputs, plan)
        return None if plan.out is None or op.body is not None else [*map(self.unstored, plan.out)]

    def _prepared(
        self, lowering: Lowering, op: Op, inputs: Sequence[Any], plan: Plan
    ) -> Sequence[CubeTensor] | None:
        require_indexable(op.name, *(plan.out or ()))
        try:
            made = None
            if not op.kernels:
                made = self._recording(lowering, op, inputs, plan.attrs, plan.out)
            if made is None:
                made, _ = self._own.recorded(lowering, op, inputs, plan)
        except UnsupportedKernelError:
            if op.body is None:
                raise
            return None
        return [
            replace(self.unstored(type), strides=strides, offset=offset)
            for _, type, strides, offset in made.results
        ]

    def _recording(
        self, lowering: Lowering | None, op: Op, inputs: Sequence[Any], attrs: Attributes,
        out: Any, kind: Hashable | None = None,
    ) -> Recording | None:  # fmt: skip
        """Return what a lowering does for such inputs, None where it must run each time.

        ``kind`` is that of the call, if it was found out before.
        """
        if op.sync:
            return None
        key = key_of(op, inputs, attrs)
        found = None if key is None else self._recordings.get(key)
        if found is None and key is not None and lowering is not None:
            require_indexable(op.name, *(out or ()))
            kind = kind or kind_of(op, inputs, attrs)
            is_new = kind is None or self._kinds.get(kind) is None
            before = self.launcher.awaited
            found, kept, _ = record(
                self.launcher, lowering, op, inputs, attrs, out, comes_first=is_new
            )
            self._recordings.put(key, found)
            if kind is not None and not is_new and out is not None and found.steps:
                self._sized.learn_later(
                    kind, op, SizedCall(op, inputs, attrs, out),
                    found_kernels=self.launcher.awaited == before,
                )  # fmt: skip
            # A view launches nothing, so nothing of it is compiled ahead.
            if kind is not None and is_new and found.steps:
                self._kinds.put(kind, True)
                rehearse(self.launcher, self._sized, kind, op, inputs, attrs, kept)
        return found

    def _unrecorded_or_none(
        self, lowering: Lowering | None, op: Op, inputs: Sequence[Any], plan: Plan
    ) -> Sequence[CubeTensor] | None:
        """Execute an op that is not recorded; None where no kernel of a composite can run here."""
        try:
            return self._unrecorded(lowering, op, inputs, plan.attrs, plan.out)
        except UnsupportedKernelError:
            if op.body is None:
                raise
            return None

    def _unrecorded(
        self, lowering: Lowering | None, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
    ) -> Sequence[CubeTensor]:
        require_indexable(op.name, *(out or ()))
        if lowering is not None:
            return self._lower(lowering, op, inputs, attrs, out)
        require_reference(op, self.name)
        note_fallback(self.name, op.name)
        arrays = [self.download(i) if isinstance(i, CubeTensor) else i for i in inputs]
        return [self.upload(a) for a in REFERENCE.results(op, arrays, attrs, out)]

    def _lower(
        self, lowering: Lowering, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
    ) -> Sequence[CubeTensor]:
        """Run a lowering that cannot be recorded."""
        faults = self.launcher.faults
        before = faults.latest
        guard = self._guard
        if guard is None:
            results = lowering(self.launcher, op, inputs, attrs, out)
        else:
            results = guarded(guard, inputs, lambda i: lowering(self.launcher, op, i, attrs, out))
        doubt: AnyDoubt | None = None if faults.latest is before else faults.latest
        for i in inputs:
            if isinstance(i, CubeTensor) and i.doubt is not None:
                doubt = joined(doubt, i.doubt)
        return results if doubt is None else [replace(r, doubt=doubt) for r in results]

    def execute_into(
        self, op: Op, inputs: Sequence[Any], plan: Plan, targets: Sequence[CubeTensor]
    ) -> Sequence[CubeTensor]:
        """Execute one op by a kernel of its own into memory of the application.

        An input that shares memory with a target is copied before.
        """
        lowering = first_of(op.kernels, self.runtime)
        if lowering is None:
            raise DeviceError(
                f"out requires an op with a kernel for {self.name}, got {op.name} without; take "
                "what it returns"
            )
        require_separate(self.runtime, op.name, targets)
        given = apart(self.launcher, inputs, targets)
        renew = self.runtime.renew
        renewed = tuple(
            CubeTensor(renew(t.buffer, for_kernel=True), t.type, t.strides, t.offset)
            for t in targets
        )

        if self._guard is None:
            made = self._own.replay_into(lowering, op, given, plan, renewed)
            if made is not None:
                return made

        def into(*call: Any) -> Sequence[CubeTensor]:
            return lowering(*call, targets=renewed)

        return self._lower(into, op, given, plan.attrs, plan.out)

    def __repr__(self) -> str:
        return f"CubeBackend({self.runtime.name})"
