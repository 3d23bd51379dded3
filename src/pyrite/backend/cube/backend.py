"""Pyrite's own kernels on any runtime: `CubeBackend(runtime)`.

An op becomes kernels by its lowering (see `registry`) or, if it has a scalar rule, by that
rule; they are built in the kernel IR, compiled by the runtime once per types and layouts, and put
into its stream.  Nothing waits but `download` and `synchronize`.  An op without kernels falls back
to NumPy, loudly.

Named for CubeCL, whose place in Burn it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pyrite.backend.compiling import FOREIGN, Known, Worth
from pyrite.backend.cube.body import graph_of, run_body
from pyrite.backend.cube.custom import first_of
from pyrite.backend.cube.fault import AnyDoubt, joined
from pyrite.backend.cube.frequent import CountedRecording
from pyrite.backend.cube.guard import guarded, guarding
from pyrite.backend.cube.inventory import memory_of, note_origin
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.lowering import LOWERINGS, lowering_of
from pyrite.backend.cube.lowering.movement import view
from pyrite.backend.cube.outside import apart, require_separate
from pyrite.backend.cube.own_call import OwnCalls
from pyrite.backend.cube.program import CubeProgram, compile_graph
from pyrite.backend.cube.read import Read
from pyrite.backend.cube.recorder import record
from pyrite.backend.cube.recording import EXPANSION, RECORDINGS, Expansion, Recording
from pyrite.backend.cube.recording_key import key_of
from pyrite.backend.cube.registry import CONDITIONS, Lowering, means_of, prefers_rule
from pyrite.backend.cube.rehearsal import kind_of, rehearse
from pyrite.backend.cube.relayout import Relayout, relayout_of
from pyrite.backend.cube.sized import SizedCall, SizedRecordings
from pyrite.backend.cube.skeleton.elementwise import elementwise
from pyrite.backend.cube.slot import Slot
from pyrite.backend.cube.tensor import (
    CubePrimitive,
    CubeTensor,
    MemoryHandle,
    layouts_of,
    without_memory,
)
from pyrite.backend.explanation import listeners
from pyrite.backend.fallback import note_fallback
from pyrite.backend.graph import Graph, Literal, Node, Operand
from pyrite.backend.means import note_means
from pyrite.backend.memory import LARGE, DeviceMemory
from pyrite.backend.numpy import NumPy
from pyrite.backend.protocol import Backend
from pyrite.errors import DeviceError, DTypeError, UnsupportedKernelError
from pyrite.op import Attributes, Constant, Op, Plan, require_reference
from pyrite.recent import Recent
from pyrite.runtime.protocol import Runtime
from pyrite.types import Array, DType, TensorType, array_type, bool_, dtype

REFERENCE = NumPy()

#: What calls of a plan do, for inputs that lie in one way.
Replay = Recording | CountedRecording | Relayout | Expansion

#: `CubeBackend.execute`; and what makes one that is quicker where what a call does is among those
#: that are kept, and else calls the one given.  None where that cannot be.
Execute = Callable[..., Sequence[CubeTensor] | None]
Executor = Callable[[Recent[Hashable, Any], Execute], Execute | None]

#: Kernels count elements in int32, and the last workgroup may count beyond the end.
MOST_ELEMENTS = 2**31 - 2**20


class CubeBackend(Backend):
    """A runtime as a backend.  A handle is a `CubeTensor`.

    ``executor`` gives what executes calls in the place of `execute`, where it can.
    """

    plans_memory = True
    compiles_programs = True

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
        self._sized = SizedRecordings(self.launcher, self._lowering_of_call)
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

    @classmethod
    def has(cls, op: Op) -> bool:
        """Whether it has a lowering, or its scalar rule."""
        return lowering_of(op) is not None or op.scalar is not None

    def keeps(self, op: Op, inputs: Sequence[Any]) -> bool:
        """Whether a composite has kernels of its own, for these inputs."""
        condition = CONDITIONS.get(op.name)
        return self._lowering(op) is not None and (
            condition is None or condition(self.launcher.machine, inputs)
        )

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
                lowering = self._lowering_of_call(op, inputs, plan.attrs)
                return self._unrecorded_or_none(lowering, op, inputs, plan)
            if plan.is_kept:
                if recording.__class__ is Recording and recording.is_general:
                    recording = self._counted(key, recording, op, inputs, plan)
                self.keep_replay(key, recording)
        return recording.run(self.launcher, inputs, operands, doubt)

    def replay_of(self, key: Hashable) -> Any:
        """Return what is kept of calls of a plan, for inputs that lie in one way; or None."""
        return self._planned.get(key)

    def keep_replay(self, key: Hashable, replay: Replay) -> None:
        """Keep what calls of a plan do, for inputs that lie in one way."""
        self._planned.put(key, replay)

    def _recording_of(self, op: Op, inputs: Sequence[Any], plan: Plan) -> Replay | None:
        """Return what calls of a plan do with such inputs, None where it is found out each time."""
        if op.body is None and self._lowering(op) is view:
            relayout = relayout_of(op, inputs, plan)
            if relayout is not None:
                _require_indexable(op.name, relayout.type)
                note_means(self.runtime.name, op.name, means_of(op, view))
                return relayout
        kind = kind_of(op, inputs, plan.attrs) if plan.is_kept and not op.sync else None
        found = None if kind is None else self._sized_recording(kind, op, inputs, plan)
        if found is not None:
            return found
        lowering = self._lowering_of_call(op, inputs, plan.attrs)
        if op.body is not None and lowering is None:
            return EXPANSION
        return self._recording(lowering, op, inputs, plan.attrs, plan.out, kind)

    def _counted(
        self, key: Hashable, recording: Recording, op: Op, inputs: Sequence[Any], plan: Plan
    ) -> CountedRecording:
        """Return a recording that is made anew, sizes built in, when it has come back often."""
        given = [without_memory(x) for x in inputs]

        def job() -> None:
            lowering = self._lowering_of_call(op, given, plan.attrs)
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
        _require_indexable(op.name, *plan.out)
        return self._sized.recording(kind, SizedCall(op, inputs, plan.attrs, plan.out))

    def _execute_own(
        self, key: Hashable | None, op: Op, inputs: Sequence[Any], plan: Plan
    ) -> Sequence[CubeTensor] | None:
        """Execute an op with kernels of its own by a call that was not recorded: its second is."""
        own = self._own
        lowering = self._lowering_of_call(op, inputs, plan.attrs)
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
        _require_indexable("prepare", type)
        return CubeTensor.dense(Slot(0, type.nbytes), type)  # type: ignore[arg-type]

    def prepare(self, op: Op, inputs: Sequence[Any], plan: Plan) -> Sequence[CubeTensor] | None:
        """Compile what a call launches, and keep that for calls of the plan; launch nothing."""
        lowering = self._lowering_of_call(op, inputs, plan.attrs)
        if lowering is None and op.body is None:
            require_reference(op, self.name)
        elif lowering is not None and plan.out is not None and not op.sync:
            return self._prepared(lowering, op, inputs, plan)
        return None if plan.out is None or op.body is not None else [*map(self.unstored, plan.out)]

    def _prepared(
        self, lowering: Lowering, op: Op, inputs: Sequence[Any], plan: Plan
    ) -> Sequence[CubeTensor] | None:
        _require_indexable(op.name, *(plan.out or ()))
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

    def _lowering_of_call(
        self, op: Op, inputs: Sequence[Any], attrs: Attributes
    ) -> Lowering | None:
        """Return the lowering of a call; None for a composite that is to be expanded.

        One by its body's kernels is better than by its body's ops, and one under its own name is
        there because it is faster yet.
        """
        if op.body is None or op.kernels:
            return self._lowering(op)
        named = self._lowering(op) if self.keeps(op, inputs) else None
        is_own = named is not None and named is LOWERINGS.get(op.name)
        if named is not None and (is_own or prefers_rule(self.launcher.machine, op, inputs, attrs)):
            return named
        return run_body if graph_of(op, inputs, attrs) is not None else named

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
            _require_indexable(op.name, *(out or ()))
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
        _require_indexable(op.name, *(out or ()))
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

    def _lowering(self, op: Op) -> Lowering | None:
        """Return the lowering under the op's name, that of its own kernels, or of its rule."""
        found = lowering_of(op)
        if found is None and op.kernels:
            found = first_of(op.kernels, self.runtime)
        return elementwise if found is None and op.scalar is not None else found

    # ---- programs ----

    def accepts(self, op: Op, inputs: Sequence[Known], plan: Plan) -> bool:
        """Whether there are kernels for a call, and room for what it makes."""
        out = plan.out
        if out is None or op.sync or op.kernels:
            return False
        if any(t.size > MOST_ELEMENTS or t.dtype in self.runtime.lacking for t in out):
            return False
        given = [_of_type(i) if isinstance(i, TensorType) else i for i in inputs]
        return self._lowering_of_call(op, given, plan.attrs) is not None

    def layout_of(self, handle: CubeTensor) -> Hashable:
        """Return where the elements of a tensor lie."""
        return handle.layout or handle.layout_of()

    def layouts_of(self, handles: Sequence[CubeTensor]) -> Hashable:
        """Return where the elements of several tensors lie."""
        return layouts_of(handles)

    def compile(
        self, graph: Graph, inputs: Sequence[Any], donated: Collection[int] = ()
    ) -> CubeProgram:
        """Return the program of a graph for inputs like these; see `Compiling.compile`."""

        def body_of(node: Node) -> Graph | None:
            if node.op.body is None:
                return None
            given = [_example(graph, x) for x in node.operands]
            chosen = self._lowering_of_call(node.op, given, node.attrs)
            return graph_of(node.op, given, node.attrs) if chosen is run_body else None

        def choose(op: Op, given: Sequence[Any], attrs: Attributes) -> Lowering:
            found = self._lowering_of_call(op, given, attrs)
            assert found is not None, "a graph holds what has kernels"
            return found

        return compile_graph(self.launcher, graph, inputs, body_of, choose, donated)

    def compile_later(self, job: Callable[[], None]) -> None:
        """Have a job run in a pause, before kernels that nobody asked for yet."""
        self.launcher.ahead.submit_first(job)

    def finish_job(self, job: Callable[[], None]) -> None:
        """Wait for a job if it runs; run it here if it has not begun."""
        self.launcher.ahead.finish_job(job)

    def without_memory(self, handle: Any) -> Any:
        """Return a tensor of the same type and layout."""
        return without_memory(handle)

    def is_in_doubt(self, handle: CubeTensor) -> bool:
        """Whether an index outside may have made it wrong."""
        return handle.doubt is not None

    def memory(self) -> DeviceMemory:
        """Return how much memory is in use, and by which tensors."""
        return memory_of(self.runtime)

    def upload(self, array: Array) -> CubeTensor:
        """Return a dense tensor with a copy of the array."""
        type = array_type(array.shape, dtype(array.dtype))
        require_dtype(self.runtime, "a tensor", type.dtype)
        _require_indexable("upload", type)
        made = CubeTensor.dense(self.runtime.upload(array), type)
        if type.nbytes >= LARGE or listeners:
            note_origin(made.buffer, type)
        return made

    def adopt(self, array: Any) -> CubeTensor | None:
        """Return a `CubeTensor` of this runtime's memory as it is, or one of an array's memory."""
        if isinstance(array, CubeTensor):
            return array
        type = TensorType(array.shape, dtype(array.dtype))
        if not type.size:
            return self.upload(array)
        first, end = np.lib.array_utils.byte_bounds(array)
        buffer = None if end - first > MOST_ELEMENTS * array.itemsize else self.runtime.adopt(array)
        if buffer is None:
            return None
        strides = tuple(stride // array.itemsize for stride in array.strides)
        return CubeTensor(buffer, type, strides, (array.ctypes.data - first) // array.itemsize)

    def host_view(self, handle: CubeTensor) -> Array:
        """Return the memory itself as a read-only array, where it is the host's; else a copy."""
        if not self.runtime.is_host or not handle.type.size:
            return self.download(handle)
        if handle.doubt is None:
            self.runtime.read_all([])
        else:
            look = self.launcher.faults.look([handle.doubt])
            look.take(self.runtime.read_all(look.wanted))
        memory = self.runtime.get_resource(handle.buffer).resource().buffer()
        size = handle.dtype.itemsize
        return np.ndarray(
            handle.shape, handle.dtype.numpy, memory, handle.offset * size,
            tuple(stride * size for stride in handle.strides),
        )  # fmt: skip

    def download(self, handle: CubeTensor) -> Array:
        """Return the values as a read-only array.

        Raises IndexRangeError, each time, if it comes of an index outside its axis.
        """
        return self.download_all([handle])[0]

    def download_all(self, handles: Sequence[CubeTensor]) -> list[Array]:
        """Return the values of several tensors by one read."""
        read = Read(self.launcher, handles)
        return read.arrays(self.runtime.read_all(read.wanted) if read.wanted else [])

    async def download_all_async(self, handles: Sequence[CubeTensor]) -> list[Array]:
        """Return what `download_all` returns, while the event loop runs on."""
        read = Read(self.launcher, handles)
        return read.arrays(await self.runtime.read_all_async(read.wanted) if read.wanted else [])

    def type_of(self, handle: CubeTensor) -> TensorType:
        """Return the type of a handle."""
        return handle.type

    def synchronize(self) -> None:
        """Wait until all work is done.

        Raises IndexRangeError if that finds an index outside, which no read has found before.
        """
        look = self.launcher.faults.look_at_all()
        if not look.wanted or self.runtime.is_host:
            self.runtime.synchronize()
        if look.wanted:  # elsewhere this read comes after all work, and one wait is enough
            look.take(self.runtime.read_all(look.wanted))

    async def synchronize_async(self) -> None:
        """Wait as `synchronize` does, while the event loop runs on."""
        look = self.launcher.faults.look_at_all()
        if not look.wanted or self.runtime.is_host:
            await self.runtime.synchronize_async()
        if look.wanted:
            look.take(await self.runtime.read_all_async(look.wanted))

    def is_ready(self, handle: CubeTensor) -> bool:
        """Return whether a read of a tensor would not wait for the device; never waits itself."""
        return self.runtime.is_done(self._submission_of(handle))

    def wait(self, handle: CubeTensor) -> None:
        """Wait until the values of a tensor are computed."""
        self.runtime.wait(self._submission_of(handle))

    def _submission_of(self, handle: CubeTensor) -> int:
        """Return the submission after which its values are there: of when this is first asked."""
        try:
            return handle.awaited
        except AttributeError:
            handle.awaited = self.runtime.flush()
            return handle.awaited

    def primitive(self, handle: CubeTensor) -> CubePrimitive:
        """Return the memory of a tensor and how it lies there; what was asked for is flushed.

        Nothing waits, so it raises an IndexRangeError only if a read or `synchronize` found it.
        """
        if handle.doubt is not None:
            handle.doubt.require_sound()
        self.runtime.flush()
        return CubePrimitive(
            self.runtime,
            MemoryHandle(handle.buffer),
            handle.dtype,
            handle.shape,
            handle.strides,
            handle.offset,
        )

    def renew(self, handle: CubeTensor) -> CubeTensor:
        """Return the tensor as it is after the application wrote to its memory."""
        return replace(handle, buffer=self.runtime.renew(handle.buffer))

    def __repr__(self) -> str:
        return f"CubeBackend({self.runtime.name})"


def _of_type(type: TensorType) -> CubeTensor:
    """Return a dense tensor without memory, for who looks at types."""
    return CubeTensor.dense(_NOWHERE, type)


_NOWHERE: Any = None


def _example(graph: Graph, operand: Operand) -> Any:
    """Return an operand of a graph as a lowering's conditions see it."""
    if isinstance(operand, int):
        type = graph.types[operand]
        is_number = operand < len(graph.inputs) and graph.inputs[operand].is_number
        return Constant(0.0, type) if is_number else _of_type(type)
    if isinstance(operand, Literal):
        return Constant(operand.value, TensorType((), operand.dtype))
    return None


def require_dtype(runtime: Runtime, what: str, dtype: DType) -> None:
    """Raise DTypeError for a dtype with which a device cannot compute."""
    if dtype in runtime.lacking:
        narrow = {"float": "float32", "int": "int32", "uint": "uint32"}[dtype.kind]
        raise DTypeError(
            f"{what} requires a dtype that {runtime.name} computes with, got {dtype.name}; use "
            f"dtype={narrow!r}, or {runtime.lacking[dtype]}"
        )


def _require_indexable(op: str, *types: TensorType) -> None:
    for type in types:
        if type.size > MOST_ELEMENTS:
            raise DeviceError(
                f"{op} requires at most {MOST_ELEMENTS} elements in a tensor of this device, got "
                f"{type}; split it"
            )
