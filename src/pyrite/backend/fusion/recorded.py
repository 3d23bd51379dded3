"""What a device with Fusion has recorded before: the tree of calls, and programs by content."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from pyrite.backend.compiling import Program
from pyrite.backend.fusion.history import Call, Lines, Start
from pyrite.backend.fusion.rounds import Rounds
from pyrite.backend.graph import Graph
from pyrite.backend.memory import ProgramMemory
from pyrite.backend.protocol import Backend
from pyrite.config import Check
from pyrite.recent import Recent

#: Of so many programs the memory is told.
MOST_TOLD = 3
#: Programs that a device holds at least.
PROGRAMS = 1024
#: Of so many first calls it is known what became of them.
MOST_STARTS = 4096
#: Of so many lists of ops it is known that they are a program.
MOST_LISTS = 4096
#: Of so many calls it is known that rounds begin with them.
MOST_ROUNDS = 64
#: A tree of so many calls is begun anew.
MOST_KNOWN = 1 << 16


class RecordedCalls:
    """What a device has recorded before: the tree of calls, and the programs by content."""

    def __init__(self, inner: Backend, check: Check = "off", after: int = 0) -> None:
        self.inner = inner
        self.check = check
        #: After so many runs as its ops a program is compiled.
        self.after = after if inner.compiles_programs else 0
        self.root = Call()
        self.calls = 0
        #: How often it was found out anew of a call whether it is checked, or starts launches.
        self.changes = 0
        self.programs: Recent[Hashable, Program] = Recent(PROGRAMS)
        #: The lists of ops of those that were taken.
        self._lists: Recent[Hashable, bool] = Recent(MOST_LISTS)
        #: How many programs were made, how many of them for later runs; how many runs of programs
        #: there were, and how many of these were new and ran as their ops.
        self.compiled = self.compiled_ahead = 0
        self.program_runs = self.op_runs = 0
        #: What is known of calls by the first of them, its plan or op; and how often calls ran when
        #: they were made, up to a read, of which this was forgotten.
        self.starts: dict[Hashable, Start] = {}
        self._forgotten = 0
        #: Machine code that does what `key_of` of a passage does, where there is some.
        self.native_key: Callable[..., tuple[Hashable, ...] | None] | None = None
        #: The rounds that are known, by the plans with which they begin: see rounds.py.
        self.rounds: dict[Hashable, Rounds] = {}
        #: Whether there ever was a tensor over an application's memory.
        self.has_external = False
        #: Of those programs that take most.
        self.largest: list[ProgramMemory] = []

    @property
    def plain_runs(self) -> int:
        """How often calls ran when they were made, up to a read."""
        return self._forgotten + sum([start.runs for start in list(self.starts.values())])

    @property
    def runs(self) -> int:
        """How many runs there were, of programs and one by one."""
        return self.program_runs + self.plain_runs

    @property
    def new_runs(self) -> int:
        """How many of the runs were of calls that ran one by one."""
        return self.op_runs + self.plain_runs

    def start_of(self, key: Hashable) -> Start:
        """Return what is known of calls that begin so."""
        if len(self.starts) >= MOST_STARTS:
            self._forgotten = self.plain_runs
            self.starts.clear()
        return self.starts.setdefault(key, Start())

    def note_rounds(self, rounds: Rounds) -> None:
        """Have rounds noted when they come next, if they may be worth a program."""
        if rounds.nbytes < self.inner.round_bytes:
            return
        start = self.starts.get(rounds.head) or self.start_of(rounds.head)
        if not start.expect(rounds.plans):
            return
        if len(self.rounds) >= MOST_ROUNDS:
            self.rounds.clear()
        self.rounds[rounds.head] = rounds

    def begin(self) -> Call:
        """Return where calls begin."""
        if self.calls > MOST_KNOWN:
            self.root, self.calls = Call(), 0
        return self.root

    def _note_memory(self, memory: ProgramMemory | None) -> None:
        if memory is not None:
            found = sorted([*self.largest, memory], key=lambda m: -m.planned)
            self.largest = found[:MOST_TOLD]

    def note_taken(self, last: Call) -> None:
        """Note that the calls up to one run as a program, in the thread that runs it."""
        if not self.inner.keeps_bits:
            self._lists.put(_ops_of(last), True)

    def has_other_sizes(self, last: Call) -> bool:
        """Whether the calls up to one run as a program already, mostly at other sizes."""
        return self._lists.get(_ops_of(last)) is not None

    def program(
        self, graph: Graph, layouts: Hashable, inputs: Sequence[Any], last: Call,
        donated: Sequence[int] = (),
    ) -> Program:  # fmt: skip
        """Return the program of the graph of calls up to a last one, for inputs that lie so.

        ``donated`` are inputs whose memory results may take.
        """
        donated = tuple(donated) if self.check == "off" else ()
        content = (graph.key, layouts, donated)
        program = self.programs.get(content)
        if program is None:
            program = self.inner.compile(graph, inputs, donated)
            if self.check != "off":
                # Imported here for its weight: what checks writes files.
                from pyrite.backend.fusion.check import CheckedProgram

                program = CheckedProgram(self.inner, graph, program, self.check)
            self.programs.put(content, program)
            self._note_memory(program.memory(Lines(last, {})))
            self.compiled += 1
        return program


def _ops_of(last: Call) -> Hashable:
    return tuple([call.op for call in last.path])
