"""A program that runs again by machine code, from its inputs to its launches.

A step of training runs the program of the step before, on other tensors that lie alike.  Python
would touch each of its hundreds of operands three times on the way; here machine code asks all of
them whether they are as they were, and where they are, and writes that into the commands
(`operands.ll`, `commands.ll`).  Parts of buffers are objects only where a result lies in one.

What is not as it was is told by None: then nothing was done.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol, cast

from pyrite.backend.budget import memory_limit
from pyrite.backend.compiling import Sites
from pyrite.backend.cube.argument import number_of
from pyrite.backend.cube.fault import AnyDoubt, Doubt
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.native_call import KINDS
from pyrite.backend.cube.program_doubts import Checked, Doubts, checked
from pyrite.backend.cube.recording import Recording
from pyrite.backend.cube.tensor import DOUBTS, CubeTensor, layouts_of
from pyrite.backend.explanation import listeners
from pyrite.columns import chooser, distinct
from pyrite.errors import OutOfMemoryError
from pyrite.op import Constant, is_host_scalar
from pyrite.runtime.cpu.bundle import CpuBundle, Filling
from pyrite.runtime.cpu.bundle_memory import VIEWS, LentBuffers, takers
from pyrite.runtime.cpu.memory import Block, CpuBuffer, CpuView, Lease
from pyrite.runtime.cpu.module import Compiler
from pyrite.runtime.cpu.native_call import machine_code
from pyrite.runtime.protocol import Bundle
from pyrite.types import DType

#: So many different numbers, and doubts, are told apart.
MOST_DIFFERENT: Final = 64

Gather = Callable[[bytes, Sequence[Any], Sequence[Any]], "list[Any] | None"]
Write = Callable[[bytes, bytes, bytes, Sequence[Any], bytes, Sequence[int]], bytes]

#: The machine code, once there is some.
_code: Final[list[tuple[Gather, Write]]] = []


def run_natively(compiler: Compiler) -> None:
    """Have programs run again by machine code, from now on."""
    if _code:
        return
    held = (None, list, CubeTensor, CpuBuffer, CpuView, float, int, Lease, "layout_of")
    slots: list[tuple[type, str, object]] = [
        *[(CubeTensor, name, None) for name in ("buffer", "layout", "doubt")],
        (CpuBuffer, "address", None),
        *[(CpuView, name, None) for name in ("base", "offset")],
        (Constant, "value", None),
        (Lease, "block", Lease(CpuBuffer.__new__(CpuBuffer))),
        (Block, "address", None),
    ]
    gather, write = [
        machine_code(compiler, "operands", held, slots, name) for name in ("gather", "write")
    ]
    if gather is not None and write is not None and takers:
        _code.append((gather, write))


class Repeatable(Checked, Protocol):
    """What of a program is needed here: `CubeProgram`."""

    @property
    def doubts(self) -> Doubts:
        """What could make its results wrong."""
        ...

    def note_large(self, buffers: Sequence[Any], sites: Sites) -> None:
        """Note what made large results, given the buffer of each."""
        ...


class Started(Protocol):
    """A run of which the first launches are made: `StartedRun`."""

    @property
    def buffers(self) -> list[Any]:
        """What was made for it."""
        ...

    @property
    def doubts(self) -> Sequence[Doubt]:
        """Those of all faults, once all launches are made."""
        ...

    def go_on(self, sites: Sites, run: Callable[[list[Any]], None]) -> None:
        """Have the other launches made, given a word and a number for each fault."""
        ...


class Found(NamedTuple):
    """Operands: the values of inputs and numbers, other numbers, and the inputs' doubts."""

    values: bytes
    numbers: list[int]
    doubts: Sequence[AnyDoubt | None]


class NativeLaunches:
    """Launches of a program, for inputs that lie as some did and numbers that are as different.

    With inputs and numbers behind these it has nothing to do.
    """

    def __init__(
        self, recording: Recording, tensors: int, inputs: Sequence[CubeTensor],
        numbers: Sequence[Constant], bundles: Sequence[tuple[CpuBundle, Filling]],
        memory: LentBuffers, *, asks_doubts: bool = False,
    ) -> None:  # fmt: skip
        self._recording, self._memory = recording, memory
        self._bundles = [bundle for bundle, _ in bundles]
        fillings = [filling for _, filling in bundles]
        operands = self._operands = _Operands(recording, tensors, len(inputs), fillings)
        _, number_places = distinct(numbers)
        #: Of each input, if they are asked for, which of the different doubts it is in.
        self.doubt_places = distinct(DOUBTS.read(inputs if asks_doubts else ()))[1]
        self._form = _bytes([
            len(inputs), len(numbers), len(operands.taken), len(self.doubt_places),
            *layouts_of(inputs), *number_places, *self.doubt_places,
            *chain.from_iterable(operands.taken),
        ])  # fmt: skip
        self._gather, self._write = _code[0]

    def found(self, inputs: Sequence[Any], numbers: Sequence[Constant]) -> Found | None:
        """Return the operands; None where anything is otherwise, or somebody sees to each run."""
        if listeners or memory_limit() is not None:
            return None
        found = self._gather(self._form, inputs, numbers)
        others = None if found is None else self._operands.others(numbers)
        if found is None or others is None:
            return None
        values, *doubts = found
        return Found(values, others, doubts)

    def launch(
        self, found: Found, buffers: Sequence[Any], words: Sequence[Any], bundle: int = 0
    ) -> None:
        """Make the launches of a bundle, given buffers, and the words and numbers of faults."""
        of = self._operands
        commands, pairs = of.commands[bundle]
        rest = [*found.numbers, *of.of_faults(words)]
        made = self._write(commands, pairs, found.values, buffers, of.parts, rest)
        self._bundles[bundle].add(made)

    def begin(
        self, found: Found, launcher: Launcher, run: Callable[[Callable[[list[Any]], None]], None]
    ) -> list[Any] | None:
        """Have the launches made by ``run``; return the buffers for it, None without memory."""
        memory = self._memory
        try:
            block = self._recording.block_of(launcher)
            buffers = memory.take()
        except OutOfMemoryError:
            return None
        try:
            run(partial(self.launch, found, [*buffers, *block]))
        finally:
            # Who waits for the launches waits for no objects.
            memory.lease(buffers)
        return [*buffers, *block]


class NativeRun:
    """A run of a program from its inputs to its results; of its last launches, where it began."""

    def __init__(
        self, program: Repeatable, launches: NativeLaunches, inputs: Sequence[CubeTensor]
    ) -> None:
        self._program, self._launches = program, launches
        recording = program.recording
        which = range(len(recording.results))
        self._results = ResultBuffers(recording, len(inputs), which)
        self._faults = range(len(program.recording.faults))
        #: What is known of doubts in these places.
        self._doubt_groups: dict[Any, Any] = {}

    def run(
        self, inputs: Sequence[CubeTensor], numbers: Sequence[Constant], sites: Sites,
        started: Started | None = None,
    ) -> Sequence[CubeTensor] | None:  # fmt: skip
        """Return the results; see `pyrite.backend.compiling.RunAgain`."""
        program, launches = self._program, self._launches
        found = launches.found(inputs, numbers)
        if found is None:
            return None
        if started is None:
            doubts: Sequence[Doubt] = ()

            def run(launch: Callable[[list[Any]], None]) -> None:
                nonlocal doubts
                doubts = checked(program, self._faults, sites, launch)

            buffers = launches.begin(found, program.launcher, run)
            if buffers is None:
                return None
        else:
            buffers = started.buffers
            started.go_on(sites, partial(launches.launch, found, buffers))
            doubts = started.doubts
        held = self._results.of([inputs[n].buffer for n in self._results.inputs], buffers)
        if program.recording.large:
            program.note_large(held, sites)
        return program.recording.tensors_of(held, self._doubts(found.doubts, inputs, doubts))

    def _doubts(
        self, own: Sequence[AnyDoubt | None], inputs: Sequence[CubeTensor], doubts: Sequence[Doubt]
    ) -> Sequence[AnyDoubt | None]:
        of = self._program.doubts
        if inputs and not own:
            return of.of(inputs, doubts)
        return of.of_distinct(own, self._launches.doubt_places, doubts, self._doubt_groups)


class _Operands:
    """The values that go into commands: of inputs, numbers, buffers, their parts, and others.

    Each has a number in this order; of numbers and parts only those that launches take.
    """

    def __init__(
        self, recording: Recording, tensors: int, known: int, fillings: Sequence[Filling]
    ) -> None:
        arguments, made = recording.arguments, len(recording.sizes)
        first = tensors + made
        begin = first + len(recording.parts)
        end = begin + len(arguments)
        addresses = [of for filling in fillings for _, of in filling.addresses]
        filled = [(n, number) for n, filling in enumerate(fillings) for number in filling.numbers]
        given = [(x, *arguments[x[1].operand - begin]) for x in filled if x[1].operand < end]
        #: Of numbers that machine code makes words of the positions and kinds; of others the
        #: positions, dtypes, and what makes a word of each.
        native = [x for x in given if _is_native(x[0][1].format, x[2])]
        other = [x for x in given if not _is_native(x[0][1].format, x[2])]
        self.taken = [(position - tensors, KINDS[dtype][1]) for _, position, dtype in native]
        self._others = [(position - tensors, dtype, of.pack) for (_, of), position, dtype in other]
        #: Which words of faults launches take, and which numbers, which are not negative.
        words = dict.fromkeys([of for of in addresses if of >= end])
        of_faults = [x for x in filled if x[1].operand >= end]
        self._words = [of - end for of in words]
        self._faults = [number.operand - end for _, number in of_faults]
        parts = dict.fromkeys([of for of in addresses if first <= of < begin])
        buffers, offsets, _ = recording.part_columns
        count = made + bool(recording.block)
        self.parts = _bytes(
            chain.from_iterable([(buffers[n - first] % count, offsets[n - first]) for n in parts])
        )
        #: The numbers of values, by those of operands that are buffers; and of numbers in order.
        begun = known + len(native)
        of_operand = {n: n for n in range(known)}
        of_operand |= {tensors + n: begun + n for n in range(made)}
        of_operand |= {of: begun + count + n for n, of in enumerate(parts)}
        rest = begun + count + len(parts)
        of_operand |= {of: rest + len(other) + n for n, of in enumerate(words)}
        pairs = [[(at, of_operand[of]) for at, of in filling.addresses] for filling in fillings]
        for place, all in (
            (known, [x for x, *_ in native]), (rest, [x for x, *_ in other]),
            (rest + len(other) + len(words), of_faults),
        ):  # fmt: skip
            for value, (n, number) in enumerate(all, place):
                pairs[n] += [(at, value) for at in number.places]
        #: The commands of each bundle, and which of their words are which values.
        self.commands = [
            (filling.commands, _bytes(chain.from_iterable(sorted(its))))
            for filling, its in zip(fillings, pairs, strict=True)
        ]

    def others(self, numbers: Sequence[Constant]) -> list[int] | None:
        """Return the words of the other numbers; None where one is of a call that is captured."""
        if not self._others:
            return []
        given = [(numbers[position], dtype, pack) for position, dtype, pack in self._others]
        if any([is_host_scalar(number.value) for number, _, _ in given]):
            return None
        return [pack(number_of(number, dtype)) for number, dtype, pack in given]

    def of_faults(self, words: Sequence[Any]) -> list[int]:
        """Return the words of faults, given a buffer and a number of each."""
        found = [words[n].address for n in self._words]
        found += [words[n] for n in self._faults]
        return found


def _is_native(format: str, dtype: DType) -> bool:
    """Whether machine code makes the word of a number of a dtype, which a launch takes so."""
    return dtype in KINDS and format.rstrip("x") == KINDS[dtype][0]


def _bytes(words: Iterable[int]) -> bytes:
    return array("q", words).tobytes()


class ResultBuffers:
    """The buffers of results: of inputs, buffers that are made, and parts of these."""

    def __init__(self, recording: Recording, tensors: int, which: Sequence[int]) -> None:
        first = tensors + len(recording.sizes)
        operands = [recording.result_columns[0][n] for n in which]
        #: The inputs that results lie in.
        self.inputs = [*dict.fromkeys([of for of in operands if of < tensors])]
        parts = [*dict.fromkeys([of for of in operands if of >= first])]
        of_buffers, *self._parts = [
            tuple([column[of - first] for of in parts]) for column in recording.part_columns
        ]
        self._choose_parts = chooser(of_buffers)
        #: Where each is among those of inputs, of all buffers, and of parts that results lie in.
        count = len(self.inputs)
        places = {of: n for n, of in enumerate(self.inputs)}
        places |= {of: count + of - tensors for of in range(tensors, first)}
        count += len(recording.sizes) + bool(recording.block)
        places |= {of: count + n for n, of in enumerate(parts)}
        self._choose = chooser([places[of] for of in operands])

    def of(self, inputs: Sequence[Any], buffers: Sequence[Any]) -> Sequence[Any]:
        """Return the buffer of each result, given those of `inputs`."""
        held = [*inputs, *buffers]
        if self._parts[0]:
            held += VIEWS.many(len(self._parts[0]), self._choose_parts(buffers), *self._parts)
        return self._choose(held)


def native_launches(
    recording: Recording, tensors: int, inputs: Sequence[Any], numbers: Sequence[Constant],
    bundles: Sequence[Bundle | None], *, asks_doubts: bool = False,
) -> NativeLaunches | None:  # fmt: skip
    """Return launches that were made for such inputs, of so many tensors, the first ones maybe.

    None where machine code cannot make them.
    """
    memory = recording.memory
    if not (_code and isinstance(memory, LentBuffers)):
        return None
    if not all([type(x) is CubeTensor for x in inputs]):
        return None
    filled: list[tuple[CpuBundle, Filling]] = []
    for bundle in bundles:
        filling = bundle.filling if isinstance(bundle, CpuBundle) else None
        if filling is None:
            return None
        filled.append((cast("CpuBundle", bundle), filling))
    for of in (numbers, DOUBTS.read(inputs)):
        if len(distinct(of)[0]) > MOST_DIFFERENT:
            return None
    return NativeLaunches(
        recording, tensors, inputs, numbers, filled, memory, asks_doubts=asks_doubts
    )


def native_run(
    program: Repeatable, inputs: Sequence[Any], numbers: Sequence[Constant], bundle: Bundle | None
) -> NativeRun | None:
    """Return a run of a program that ran for such inputs, or of the last launches, a bundle.

    None where machine code cannot run them.
    """
    recording = program.recording
    if recording.tail is not None:
        return None
    launches = native_launches(recording, len(inputs), inputs, numbers, [bundle], asks_doubts=True)
    return None if launches is None else NativeRun(program, launches, inputs)
