"""What a backend makes of many ops at once: a program of a graph.

By default that is the list of its ops, run one after another; a backend with kernels of its own
makes few of many.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from pyrite.op import Constant, Executor, Handle, Op, Plan
from pyrite.types import TensorType

if TYPE_CHECKING:
    from pyrite.backend.graph import Graph, Input, Node
    from pyrite.backend.memory import ProgramMemory

#: What is known of an input before it is computed: the type of a tensor, a number, or None.
Known = TensorType | Constant | None

#: The user's lines, by the places in the graph of the ops that were called there, where known.
Sites = Mapping[int, str]


class Foreign(tuple[Any, ...]):
    """What a call returns that did nothing, as an input is a handle of another backend."""

    __slots__ = ()


FOREIGN = Foreign()


class Begun(Protocol):
    """A run of a program of which what writes over inputs is not submitted yet."""

    @property
    def results(self) -> Sequence[Handle | None]:
        """What is made so far, None where it is not."""
        ...

    def finish(self) -> Sequence[Handle]:
        """Do the rest; return all results.  What raises has written over nothing."""
        ...


class StartedRun(Protocol):
    """A run of a program of which the first launches are made."""

    @property
    def begun(self) -> HeadStart:
        """What it began with."""
        ...

    def finish(self, inputs: Sequence[Any], sites: Sites) -> Sequence[Handle] | None:
        """Make the others, and return the results; None where all is to be run anew, whole."""
        ...


class HeadStart(Protocol):
    """Launches of a program that need no more than its first calls."""

    @property
    def place(self) -> int:
        """The last of these calls."""
        ...

    def run(
        self, inputs: Sequence[Any], numbers: Sequence[Constant], sites: Sites
    ) -> StartedRun | None:
        """Make them, on the inputs and numbers that are known.  None where it is no time."""
        ...

    def run_known(
        self, inputs: Sequence[Any], numbers: Sequence[Constant], sites: Sites
    ) -> StartedRun | None:
        """Do what `run` does in less time, where inputs are as they were once.

        None, and nothing is done, where anything is otherwise.
        """
        ...

    def run_again(self, inputs: Sequence[Any], numbers: Sequence[Constant]) -> RunAgain | None:
        """Return what makes the other launches, as `Program.run_again` what makes all."""
        ...


class RunAgain(Protocol):
    """A run of a program in less time, for inputs that are as those of another run were.

    They lie alike, and the same numbers are one object.
    """

    def run(
        self, inputs: Sequence[Any], numbers: Sequence[Constant], sites: Sites,
        started: Any = None,
    ) -> Sequence[Handle] | None:  # fmt: skip
        """Return the results; None, and nothing is done, where anything is otherwise.

        ``started`` is where the first launches are made, for what makes the others.
        """
        ...


class BeginAgain(Protocol):
    """A run of a program that writes over inputs, as `RunAgain`."""

    def begin(
        self, inputs: Sequence[Any], numbers: Sequence[Constant], sites: Sites
    ) -> Begun | None:
        """Do what `Program.begin` does; None, and nothing is done, where anything is otherwise.

        The end of the run returns what is made by it, and None in the place of other results.
        """
        ...


class Program(Protocol):
    """A graph, ready to run on inputs of the types and layouts that it was made for."""

    @property
    def launches(self) -> int:
        """How many kernels, or ops of the backend, one run starts."""
        ...

    def memory(self, sites: Sites) -> ProgramMemory | None:
        """Return what a run takes beside its inputs; None where that is not known."""
        ...

    @property
    def checked(self) -> frozenset[int]:
        """The nodes of the graph that may find an index outside: of these a run wants the lines."""
        ...

    def run(self, inputs: Sequence[Any], sites: Sites) -> Sequence[Handle]:
        """Return the results for handles and numbers, by the positions of the graph's inputs."""
        ...

    def begin(self, inputs: Sequence[Any], sites: Sites) -> Begun | None:
        """Run what does not write over inputs; None where nothing does, and `run` is for it."""
        ...

    def run_again(self, inputs: Sequence[Any], numbers: Sequence[Constant]) -> RunAgain | None:
        """Return what runs it again in less time, for inputs and numbers as it has just run for.

        None of a program without.
        """
        ...

    def begin_again(self, inputs: Sequence[Any], numbers: Sequence[Constant]) -> BeginAgain | None:
        """Return what begins it again in less time, as `run_again`, once it ran to its end."""
        ...

    def head_start(self, known: Sequence[tuple[int, int]], after: int) -> HeadStart | None:
        """Return launches that may be made before all calls are known; None of a program without.

        ``known`` says of each call how many tensors and numbers are known with it; they are to be
        made behind the call ``after``.
        """
        ...


class RunsWhole:
    """A program that begins when all of its calls are known, and runs the same way each time."""

    __slots__ = ()

    def run_again(self, inputs: Sequence[Any], numbers: Sequence[Constant]) -> None:
        """Return None."""

    def begin_again(self, inputs: Sequence[Any], numbers: Sequence[Constant]) -> None:
        """Return None."""

    def head_start(self, known: Sequence[tuple[int, int]], after: int) -> None:
        """Return None."""


class Worth(NamedTuple):
    """What a program costs and saves, in small ops of one result that run one by one."""

    #: What a run of it costs, besides what follows.
    cost: float = 0
    #: What is saved of a call that is recorded by itself; of one that comes with others, by one
    #: look-up, all is.
    of_call: float = 1
    #: What a call of several results costs, of which half is saved where it is recorded by itself.
    of_several: float = 1
    #: So many bytes that it need not write and read are one op.
    nbytes: int = 1 << 17

    def saved(self, results: int, *, is_together: bool) -> float:
        """Return what is saved of a call of so many results."""
        if results == 1:
            return 1 if is_together else self.of_call
        return self.of_several if is_together else max(self.of_several / 2, self.of_call)


class Compiling:
    """What a backend overrides that makes programs of its own."""

    #: Whether the memory of its programs is planned, so that they can keep to a budget; and
    #: whether what runs here does, for it runs as such programs.
    plans_memory: bool = False
    keeps_budget: bool = False

    def accepts(self, op: Op, inputs: Sequence[Known], plan: Plan) -> bool:
        """Whether a graph may hold a call; else it is run where it stands, or expanded."""
        return op.body is None

    def layout_of(self, handle: Handle) -> Hashable:
        """Return what a program depends on of an input, besides its type."""
        return None

    def layouts_of(self, handles: Sequence[Handle]) -> Hashable:
        """Return what a program depends on of several inputs, besides their types."""
        return tuple(map(self.layout_of, handles))

    def unstored(self, type: TensorType) -> Handle | None:
        """Return a handle without memory, for `prepare`; None on a device that compiles nothing."""
        return None

    def prepare(self, op: Op, inputs: Sequence[Handle], plan: Plan) -> Sequence[Handle] | None:
        """Compile what a call launches, and launch nothing; return its results without memory.

        None for what is to be expanded, and for results of which only a run knows the types.
        """
        return None

    #: Whether a program takes long to compile, so that what is new runs as its ops first.  Then
    #: there may be weak references to handles, and `execute` returns `FOREIGN`, and does nothing,
    #: where an input of an op without kernels of its own is a decorator's handle.
    compiles_programs: bool = False
    #: Whether a program gives the bits of its ops, so that it does not show when it takes over.
    keeps_bits: bool = False
    #: What running one costs, and what it saves.
    program_worth: Worth = Worth()
    #: Bytes of the results of a loop's round from which on it is worth a program by itself: see
    #: fusion/rounds.py.
    round_bytes: int = 0

    def compile_later(self, job: Callable[[], None]) -> None:
        """Have a job run in a pause by a thread, as `compiles_programs` asks for."""
        job()

    def finish_job(self, job: Callable[[], None]) -> None:
        """Return when a job of `compile_later` is done."""

    def without_memory(self, handle: Handle) -> Handle:
        """Return what is enough of an input to compile for such inputs, and holds no memory."""
        return handle

    def is_in_doubt(self, handle: Handle) -> bool:
        """Whether an index outside may have made it wrong."""
        return False

    def compile(
        self, graph: Graph, inputs: Sequence[Any], donated: Collection[int] = ()
    ) -> Program:
        """Return the program of a graph for inputs like these.

        Results may take the memory of the inputs at the positions ``donated``, if their holders let
        go of them before the run is finished (`Program.begin`).
        """
        return CallList(cast(Executor, self), graph)


class CallList(RunsWhole):
    """The ops of a graph one after another; what nobody wants any more is let go."""

    checked: frozenset[int] = frozenset()

    def __init__(self, backend: Executor, graph: Graph) -> None:
        self._backend = backend
        self._graph = graph
        self._plans = [Plan(node.attrs, node.types, is_kept=True) for node in graph.nodes]
        self._done = _last_uses(graph)
        self.launches = len(graph.nodes)

    def memory(self, sites: Sites) -> None:
        """Return None: each op makes what it makes."""

    def run(self, inputs: Sequence[Any], sites: Sites) -> Sequence[Handle]:
        """Return the results; see `Program`."""
        graph = self._graph
        values: dict[int, Any] = {n: _given(i, inputs) for n, i in enumerate(graph.inputs)}
        for node, plan, done in zip(graph.nodes, self._plans, self._done, strict=True):
            operands = [
                values[x] if isinstance(x, int)
                else x if x is None else Constant(x.value, TensorType((), x.dtype))
                for x in node.operands
            ]  # fmt: skip
            results = self.execute(node, operands, plan)
            values.update(zip(node.results, results, strict=True))
            for value in done:
                del values[value]
        return [values[value] for value in graph.results]

    def begin(self, inputs: Sequence[Any], sites: Sites) -> None:
        """Return None: no op writes over an input."""

    def execute(self, node: Node, operands: Sequence[Any], plan: Plan) -> Sequence[Handle]:
        """Return the results of one op."""
        results = self._backend.execute(node.op, operands, plan)
        assert results is not None, "a graph of calls holds no composite"
        return results


def _given(wanted: Input, inputs: Sequence[Any]) -> Any:
    x = inputs[wanted.position]
    return x.with_type(wanted.type) if wanted.is_number else x


def _last_uses(graph: Graph) -> list[tuple[int, ...]]:
    """Return the values that nobody wants after each node."""
    wanted = set(graph.results)
    found: list[tuple[int, ...]] = []
    for node in reversed(graph.nodes):
        done = dict.fromkeys(v for v in (*node.values, *node.results) if v not in wanted)
        wanted.update(done)
        found.append(tuple(done))
    return found[::-1]
