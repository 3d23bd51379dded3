"""A graph of ops as one program: all its launches in one bundle, by as few kernels as there may be.

Elementwise ops, reductions and what only names axes anew share kernels, as in the body of a
composite; all else has the kernels of its own lowering.  It is recorded as one lowering is, on
slots in place of buffers, so that memory is planned for the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from pyrite.backend.budget import memory_limit
from pyrite.backend.compiling import BeginAgain, RunAgain, Sites
from pyrite.backend.cube.ahead import breathe
from pyrite.backend.cube.block import peak_of
from pyrite.backend.cube.body import GraphRun
from pyrite.backend.cube.fault import Doubt
from pyrite.backend.cube.guard import guarding
from pyrite.backend.cube.head_start import HeadStart, head_start
from pyrite.backend.cube.inventory import note_origin
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.program_doubts import Doubts, Reach, checked
from pyrite.backend.cube.program_run import ProgramRun
from pyrite.backend.cube.recording import Made, Recording
from pyrite.backend.cube.recording_launcher import RecordingLauncher
from pyrite.backend.cube.registry import Input, Lowering
from pyrite.backend.cube.tensor import BUFFERS, CubeTensor
from pyrite.backend.cube.thrift import ThriftyPlans, needed
from pyrite.backend.cube.work import work_of
from pyrite.backend.explanation import listeners, told
from pyrite.backend.explanation.launched import Describe, Description
from pyrite.backend.graph import BodyOf, Graph, Node, inlined, merged
from pyrite.backend.memory import ProgramMemory, TensorMemory, counted
from pyrite.errors import MemoryBudgetError, OutOfMemoryError
from pyrite.op import Constant, Op

#: From an op and its inputs to what runs it.
Choice = Callable[[Op, Sequence[Input], Any], Lowering]

#: So many tensors of a program are named where its memory is told.
NAMED = 5
#: The most characters of a kernel's name, which is made of the names of its ops.
LONGEST_NAME = 48


@dataclass(frozen=True, slots=True)
class CubeProgram:
    """A recording of many ops; see `pyrite.backend.compiling.Program`.

    ``parts`` says of each of its launches which nodes of the graph it computes, ``origins`` of each
    of its faults in which node it is, ``names`` how the nodes' ops are called, ``makers`` of its
    new results, by their operands, which nodes made them.
    """

    launcher: Launcher
    recording: Recording
    parts: tuple[tuple[int, ...], ...]
    origins: tuple[int, ...]
    doubts: Doubts
    names: tuple[str, ...]
    makers: Mapping[int, int]
    #: How many of its inputs are tensors, the first ones.
    tensors: int
    #: Of each fault its launch, and what says of each launch how long it takes.
    checked_launches: tuple[int, ...]
    work: Callable[[], Sequence[int]]
    #: Its plans that take less memory, and from those of a plan what made new results; without for
    #: a program that is of such a plan.
    thrifty: ThriftyPlans | None = None
    makers_of: Callable[[Recording], Mapping[int, int]] = field(kw_only=True)
    #: Whether a run has nothing to note: no check, no large result, no write over an input.
    is_plain: bool = field(init=False)

    def __post_init__(self) -> None:
        recording = self.recording
        is_plain = not (recording.faults or recording.large or recording.tail is not None)
        object.__setattr__(self, "is_plain", is_plain)

    @property
    def launches(self) -> int:
        """The number of kernels that a run starts."""
        return len(self.recording.steps)

    @property
    def checked(self) -> frozenset[int]:
        """The nodes that may find an index outside."""
        return frozenset(self.origins)

    def run(self, inputs: Sequence[Any], sites: Sites) -> Sequence[CubeTensor]:
        """Return the results; each is in doubt as what it is made of.

        Raises MemoryBudgetError where that takes more memory than there may be.
        """
        limit = memory_limit()
        if limit is None and self.is_plain and not listeners:
            results = self._run_plain(inputs)
            if results is not None:
                return results
        program = self if limit is None else self._within(limit, sites)
        return program._begun(inputs, sites, limit).finish()

    def head_start(self, known: Sequence[tuple[int, int]], after: int) -> HeadStart | None:
        """Return which launches may be made before all calls are known; see `Program`."""
        runtime = self.launcher.runtime
        if not runtime.is_host or self.recording.tail is not None or guarding(runtime) is not None:
            return None
        return head_start(self, self.parts, self.work(), self.checked_launches, known, after)

    def run_again(self, inputs: Sequence[Any], numbers: Sequence[Constant]) -> RunAgain | None:
        """Return what runs it again in less time, for inputs like these; see `Program`."""
        return self.launcher.run_again(self, inputs, numbers, self.recording.bundle)

    def begin_again(self, inputs: Sequence[Any], numbers: Sequence[Constant]) -> BeginAgain | None:
        """Return what begins it again in less time, for inputs like these; see `Program`."""
        return self.launcher.begin_again(self, inputs, numbers)

    def results(
        self, operands: list[Any], inputs: Sequence[Any], doubts: Sequence[Doubt], sites: Sites
    ) -> Sequence[CubeTensor]:
        """Return what was made, with the doubts of inputs and of checked launches."""
        if self.recording.large:
            self._note_origins(operands, sites)
        found = self.doubts.of(inputs[: self.tensors], doubts)
        return self.recording.tensors(operands, found)

    def _run_plain(self, inputs: Sequence[Any]) -> Sequence[CubeTensor] | None:
        """Return the results where there is no more to do than buffers, numbers, and launches.

        None where an input is in doubt, or memory is short: that is told by who does all.
        """
        # Written for speed: of small ops this is most of what a program takes.
        operands: list[Any] = []
        for i in inputs:
            if i.__class__ is CubeTensor:
                if i.doubt is not None:
                    return None
                operands.append(i.buffer)
        recording = self.recording
        try:
            bundle = recording.prepare(self.launcher, inputs, operands)
        except OutOfMemoryError:
            return None
        if bundle is not None:
            bundle.launch(operands)
        return recording.tensors(operands, [None] * len(recording.results))

    def begin(self, inputs: Sequence[Any], sites: Sites) -> ProgramRun | None:
        """Run what comes before the first write over an input; None where there is none."""
        limit = memory_limit()
        program = self if limit is None else self._within(limit, sites)
        return None if program.recording.tail is None else program._begun(inputs, sites, limit)

    def _within(self, limit: int, sites: Sites) -> CubeProgram:
        """Return the program by a plan that takes no more than there is room for."""
        assert self.thrifty is not None, "a plan is chosen once"
        plan, live = self.thrifty.within(self.recording, limit)
        if plan is None:
            return self
        recording = plan.recording
        parts = tuple([self.parts[n] for n in plan.launches])
        made = replace(
            self, recording=recording, parts=parts, makers=self.makers_of(recording), thrifty=None
        )
        if live + (more := needed(self.launcher.runtime, recording)) > limit:
            raise _over_budget(limit, live, more, made.memory(sites))
        return made

    def _begun(self, inputs: Sequence[Any], sites: Sites, limit: int | None) -> ProgramRun:
        recording = self.recording
        operands: list[Any] = BUFFERS.read(inputs[: self.tensors])
        try:
            bundle = recording.prepare(self.launcher, inputs, operands)
        except OutOfMemoryError as error:
            raise self._short_of_memory(error, sites) from None
        if listeners or recording.large:
            self._note_origins(operands, sites)
        doubts: Sequence[Doubt] = ()
        describe = self._describing(sites)
        if bundle is not None:
            launch: Callable[[list[Any]], None] = bundle.launch
            if listeners:
                launch = told(self.launcher.runtime, recording.head, describe)

            def run(words: list[Any]) -> None:
                operands.extend(words)
                launch(operands)

            doubts = checked(self, range(len(recording.faults)), sites, run)
        found = self.doubts.of(inputs[: self.tensors], doubts)
        return ProgramRun(self.launcher, recording, operands, found, describe, limit)

    def memory(self, sites: Sites) -> ProgramMemory:
        """Return what a run takes beside its inputs, and what of it is largest at a time."""
        recording = self.recording
        found = peak_of([one.use for one in recording.made])
        largest = sorted(found, key=lambda n: -recording.made[n].use.nbytes)[:NAMED]
        return ProgramMemory(
            self.launches,
            recording.planned,
            sum(recording.made[n].use.nbytes for n in found),
            tuple([self._tensor(recording.made[n], sites) for n in largest]),
        )

    def _tensor(self, made: Made, sites: Sites) -> TensorMemory:
        nodes = self.parts[made.use.begin] if self.parts else ()
        line = next((sites[n] for n in reversed(nodes) if n in sites), None)
        return TensorMemory(made.use.nbytes, made.type, line)

    def note_large(self, buffers: Sequence[Any], sites: Sites) -> None:
        """Note what made large results, given the buffer of each."""
        recording = self.recording
        of = dict(zip(recording.result_columns[0], buffers, strict=True))
        for at, type in recording.large:
            note_origin(of[at], type, sites.get(self.makers[at]))

    def _note_origins(self, operands: Sequence[Any], sites: Sites) -> None:
        recording = self.recording
        for at, type in recording.new if listeners else recording.large:
            note_origin(operands[at], type, sites.get(self.makers[at]))

    def _short_of_memory(self, error: OutOfMemoryError, sites: Sites) -> OutOfMemoryError:
        """Return an error with what the program was to make."""
        found = self.memory(sites)
        named = " and ".join(str(tensor) for tensor in found.largest)
        got, _, fix = str(error).rpartition("; ")
        return OutOfMemoryError(
            f"{got}; it was for a program of {counted(found.launches)} that makes "
            f"{found.planned:,} bytes, at once {named}; {fix}"
        )

    def _describing(self, sites: Sites) -> Describe:
        def describe(launch: int) -> Description:
            nodes = self.parts[launch]
            lines = dict.fromkeys(sites[n] for n in nodes if n in sites)
            ops = tuple([self.names[n] for n in nodes])
            return Description(ops, tuple(lines), self.recording.takers(launch))

        return describe


def _over_budget(limit: int, live: int, more: int, memory: ProgramMemory) -> MemoryBudgetError:
    """Return the error of a program that takes so many bytes more than are live, at least."""
    named = " and ".join(str(tensor) for tensor in memory.largest)
    error = MemoryBudgetError(
        f"memory_budget requires {live + more:,} bytes for a program of "
        f"{counted(memory.launches)}, got {limit:,}, too few by {live + more - limit:,}: "
        f"{live:,} are in use before it, and it makes {more:,} at least, at once {named}; give "
        "more, use smaller batches, or let go of tensors"
    )
    error.needed = live + more
    return error


def compile_graph(
    launcher: Launcher, graph: Graph, inputs: Sequence[Any], body_of: BodyOf, choose: Choice,
    donated: Collection[int] = (),
) -> CubeProgram:  # fmt: skip
    """Return the program of a graph for inputs of these types and layouts.

    Results may take the memory of inputs at the positions ``donated``.
    ``body_of`` gives the body of a composite that has no kernels under its own name, ``choose``
    what runs a node alone.
    """
    expanded, outer = inlined(graph, body_of)
    whole, first = merged(expanded)
    nodes = [outer[n] for n in first]
    recorder = RecordingLauncher(launcher, inputs)
    names = tuple([node.op.name for node in graph.nodes])
    run = _ProgramRun(recorder, whole, choose, [names[n] for n in nodes])
    run.realise_results()
    breathe()
    results = [x for v in whole.results if isinstance(x := run.real[v], CubeTensor)]
    assert len(results) == len(whole.results), "a number is no result"
    of_faults = [run.parts[n][-1] for n in recorder.launches_of_faults]
    checked = [*recorder.launches_of_faults]
    groups = recorder.join_launches(results)
    parts = [[node for n in group for node in run.parts[n]] for group in groups]
    recorder.donate(donated)

    @cache
    def work() -> list[int]:
        touched = [sum(s.nbytes for s in {s for s, _ in of.slots}) for of in plain.noted]
        made = [[whole.nodes[n] for n in part] for part in parts]
        return [work_of(whole, of, n) for of, n in zip(made, touched, strict=True)]

    def makers_of(recording: Recording) -> dict[int, int]:
        return _makers(graph, recording)

    plain = copy(recorder)
    recording = recorder.recording(results)
    return CubeProgram(
        launcher,
        recording,
        tuple([tuple(dict.fromkeys(nodes[n] for n in part)) for part in parts]),
        tuple([nodes[n] for n in of_faults]),
        Doubts(_reaches(whole, of_faults)),
        names,
        makers_of(recording),
        sum(not i.is_number for i in graph.inputs),
        tuple([k for n in checked for k, group in enumerate(groups) if n in group]),
        work,
        ThriftyPlans(plain, results, work),
        makers_of=makers_of,
    )


def _makers(graph: Graph, recording: Recording) -> dict[int, int]:
    """Return of which node each new result is, by its operand."""
    places = {node: n for n, node in enumerate(graph.nodes)}
    new = {at for at, _ in recording.new}
    made: dict[int, int] = {}
    for (at, *_), value in zip(recording.results, graph.results, strict=True):
        node = graph.makers[value]
        if node is not None and at in new:
            # Views of it come later.
            made.setdefault(at, places[node])
    return made


class _ProgramRun(GraphRun):
    """The run of a graph that is recorded: it knows of which nodes each launch is."""

    is_program = True

    def __init__(
        self, recorder: RecordingLauncher, graph: Graph, choose: Choice, names: Sequence[str]
    ) -> None:
        super().__init__(recorder, "program", graph, recorder.inputs)
        self._names = names
        self._recorder = recorder
        self._choose = choose
        self._places = {node: n for n, node in enumerate(graph.nodes)}
        #: The nodes of each launch, by their places in the graph.
        self.parts: list[tuple[int, ...]] = []

    def name_of(self, nodes: Sequence[Node]) -> str:
        """Return the name of a kernel of some nodes: the calls that they are part of."""
        names = dict.fromkeys(self._names[self._places[node]] for node in nodes)
        return "_".join(names)[:LONGEST_NAME].rstrip("_")

    def lowering(self, node: Node, inputs: Sequence[Input]) -> Lowering:
        """Return what runs a node alone."""
        breathe()
        return self._choose(node.op, inputs, node.attrs)

    def note(self, nodes: Sequence[Node]) -> None:
        """Say that the launches since the last time are of these nodes."""
        breathe()
        part = tuple([self._places[node] for node in nodes])
        self.parts += [part] * (self._recorder.launches - len(self.parts))


def _reaches(graph: Graph, faults: Sequence[int]) -> tuple[Reach, ...]:
    """Return what each result is made of: tensors among the inputs, and nodes with faults."""
    found: list[tuple[int, frozenset[int]]] = [
        (0 if i.is_number else 1 << i.position, frozenset()) for i in graph.inputs
    ]
    of_node: dict[int, list[int]] = {}
    for fault, at in enumerate(faults):
        of_node.setdefault(at, []).append(fault)
    for n, node in enumerate(graph.nodes):
        inputs, checks = 0, frozenset(of_node.get(n, ()))
        for i, c in [found[v] for v in node.values]:
            inputs |= i
            checks |= c
        found += [(inputs, checks)] * len(node.types)
    return tuple([Reach(i, tuple(sorted(c))) for i, c in map(found.__getitem__, graph.results)])
