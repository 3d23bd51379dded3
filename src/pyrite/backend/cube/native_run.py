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
from typing import Any, Final, Protocol

from pyrite.backend.budget import memory_limit
from pyrite.backend.compiling import Sites
from pyrite.backend.cube.argument import number_of
from pyrite.backend.cube.fault import AnyDoubt, Doubt
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.native_call import KINDS
from pyrite.backend.cube.program_doubts import Doubts
from pyrite.backend.cube.recording import Recording
from pyrite.backend.cube.tensor import DOUBTS, CubeTensor, layouts_of
from pyrite.backend.explanation import listeners
from pyrite.columns import chooser, distinct
from pyrite.errors import OutOfMemoryError
from pyrite.op import Constant, is_host_scalar
from pyrite.runtime.cpu.bundle import CpuBundle, Filling
from pyrite.runtime.cpu.bundle_memory import LentBuffers, takers
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


class Repeatable(Protocol):
    """What of a program is needed here: `CubeProgram`."""

    @property
    def launcher(self) -> Launcher:
        """Where it runs."""
        ...

    @property
    def recording(self) -> Recording:
        """What it does."""
        ...

    @property
    def doubts(self) -> Doubts:
        """What could make its results wrong."""
        ...

    def checks(self, sites: Sites) -> Sequence[tuple[str, str]]:
        """Return of each fault what its error says, and the user's line."""
        ...

    def note_large(self, buffers: Sequence[Any], sites: Sites) -> None:
        """Note what made large results, given the buffer of each."""
        ...


class Begun(Protocol):
    """What of a head start is needed here: `HeadStart`."""

    @property
    def late(self) -> Sequence[int]:
        """The faults of the launches that are left."""
        ...


class Started(Protocol):
    """A run of which the first launches are made: `StartedRun`."""

    @property
    def begun(self) -> Begun:
        """What it began with."""
        ...

    @property
    def buffers(self) -> list[Any]:
        """What was made for it."""
        ...

    @property
    def doubts(self) -> Sequence[Doubt]:
        """Those of all faults, once all launches are made."""
        ...

    def check(self, faults: Sequence[int], sites: Sites, run: Callable[[list[Any]], None]) -> None:
        """Have launches made that may find an index outside."""
        ...


class NativeRun:
    """A run of a program, for inputs that lie as some did and numbers that are as different."""

    def __init__(
        self, program: Repeatable, inputs: Sequence[CubeTensor], numbers: Sequence[Constant],
        filling: Filling, bundle: CpuBundle, memory: LentBuffers,
    ) -> None:  # fmt: skip
        recording = program.recording
        self._memory = memory
        self._program, self._recording, self._bundle = program, recording, bundle
        operands = self._operands = _Operands(recording, len(inputs), filling)
        _, number_places = distinct(numbers)
        _, self._doubt_places = distinct(DOUBTS.read(inputs))
        self._form = _bytes([
            len(inputs), len(numbers), len(operands.taken), *layouts_of(inputs), *number_places,
            *self._doubt_places, *chain.from_iterable(operands.taken),
        ])  # fmt: skip
        #: What is known of doubts in these places.
        self._doubt_groups: dict[Any, Any] = {}
        #: What errors say, before lines are known.
        self._unknown = [(message, "") for message in recording.faults]
        self._results = _ResultBuffers(recording, len(inputs))
        self._gather, self._write = _code[0]

    def run(
        self, inputs: Sequence[CubeTensor], numbers: Sequence[Constant], sites: Sites,
        started: Started | None = None,
    ) -> Sequence[CubeTensor] | None:  # fmt: skip
        """Return the results; see `pyrite.backend.compiling.RunAgain`."""
        if listeners or memory_limit() is not None:
            return None
        found = self._gather(self._form, inputs, numbers)
        values = None if found is None else self._operands.others(numbers)
        if found is None or values is None:
            return None
        program = self._program
        if started is None:
            made = self._launched(found[0], values, sites)
            if made is None:
                return None
            buffers, doubts = made
        else:
            buffers = started.buffers
            launch = partial(self._launch, found[0], buffers, values)
            started.check(started.begun.late, sites, launch)
            doubts = started.doubts
        held = self._results.of(inputs, buffers)
        if self._recording.large:
            program.note_large(held, sites)
        return self._recording.tensors_of(held, self._doubts(found[1:], inputs, doubts))

    def _launched(
        self, values: bytes, rest: Sequence[int], sites: Sites
    ) -> tuple[list[Any], Sequence[Doubt]] | None:
        """Make the launches; return what was made for them, and doubts; None without memory."""
        recording, program, memory = self._recording, self._program, self._memory
        try:
            block = recording.block_of(program.launcher)
            buffers = memory.take()
        except OutOfMemoryError:
            return None
        doubts: Sequence[Doubt] = ()
        launch = partial(self._launch, values, [*buffers, *block], rest)
        try:
            if recording.faults:
                doubts = program.launcher.faults.launch_all(self._unknown, [], launch)
            else:
                launch(())
        finally:
            # Who waits for the launches waits for no objects, and no lines.
            memory.lease(buffers)
        if doubts:
            for doubt, (_, location) in zip(doubts, program.checks(sites), strict=True):
                doubt.location = location
        return [*buffers, *block], doubts

    def _launch(
        self, values: bytes, buffers: Sequence[Any], rest: Sequence[int], words: Sequence[Any]
    ) -> None:
        of = self._operands
        rest = [*rest, *of.of_faults(words)]
        self._bundle.add(self._write(of.commands, of.pairs, values, buffers, of.parts, rest))

    def _doubts(
        self, own: Sequence[AnyDoubt | None], inputs: Sequence[CubeTensor], doubts: Sequence[Doubt]
    ) -> Sequence[AnyDoubt | None]:
        if own or not inputs:
            return self._program.doubts.of_distinct(
                own, self._doubt_places, doubts, self._doubt_groups
            )
        return self._program.doubts.of(inputs, doubts)


class _Operands:
    """The values that go into commands: of inputs, numbers, buffers, their parts, and others.

    Each has a number in this order; of numbers and parts only those that launches take.
    """

    def __init__(self, recording: Recording, tensors: int, filling: Filling) -> None:
        self.commands = filling.commands
        arguments, made = recording.arguments, len(recording.sizes)
        first = tensors + made
        begin = first + len(recording.parts)
        end = begin + len(arguments)
        of_inputs = [number for number in filling.numbers if number.operand < end]
        given = [(number, *arguments[number.operand - begin]) for number in of_inputs]
        #: Of numbers that machine code makes words of the positions and kinds; of others the
        #: positions, dtypes, and what makes a word of each.
        native = [x for x in given if _is_native(x[0].format, x[2])]
        other = [x for x in given if not _is_native(x[0].format, x[2])]
        self.taken = [(position - tensors, KINDS[dtype][1]) for _, position, dtype in native]
        self._others = [(position - tensors, dtype, of.pack) for of, position, dtype in other]
        #: Which words of faults launches take, and which numbers, which are not negative.
        words = dict.fromkeys([of for _, of in filling.addresses if of >= end])
        of_faults = [number for number in filling.numbers if number.operand >= end]
        self._words = [of - end for of in words]
        self._faults = [number.operand - end for number in of_faults]
        parts = dict.fromkeys([of for _, of in filling.addresses if first <= of < begin])
        buffers, offsets, _ = recording.part_columns
        count = made + bool(recording.block)
        self.parts = _bytes(
            chain.from_iterable([(buffers[n - first] % count, offsets[n - first]) for n in parts])
        )
        #: The numbers of values, by those of operands that are buffers; and of numbers in order.
        known = tensors + len(native)
        of_operand = {n: n if n < tensors else n + len(native) for n in range(first)}
        of_operand |= {of: known + count + n for n, of in enumerate(parts)}
        rest = known + count + len(parts)
        of_operand |= {of: rest + len(other) + n for n, of in enumerate(words)}
        pairs = [(at, of_operand[of]) for at, of in filling.addresses]
        for begin, all in (
            (tensors, [of for of, *_ in native]), (rest, [of for of, *_ in other]),
            (rest + len(other) + len(words), of_faults),
        ):  # fmt: skip
            pairs += [(at, begin + n) for n, number in enumerate(all) for at in number.places]
        self.pairs = _bytes(chain.from_iterable(sorted(pairs)))

    def others(self, numbers: Sequence[Constant]) -> list[int] | None:
        """Return the words of the other numbers; None where one is of a call that is captured."""
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


class _ResultBuffers:
    """The buffers of results: of inputs, buffers that are made, and parts of these."""

    def __init__(self, recording: Recording, tensors: int) -> None:
        first = tensors + len(recording.sizes)
        operands = recording.result_columns[0]
        self._memory = recording.memory
        self._inputs = [*dict.fromkeys([of for of in operands if of < tensors])]
        parts = [*dict.fromkeys([of for of in operands if of >= first])]
        self._parts = tuple([
            tuple([column[of - first] for of in parts]) for column in recording.part_columns
        ])  # fmt: skip
        #: Where each is among those of inputs, of all buffers, and of parts that results lie in.
        count = len(self._inputs)
        places = {of: n for n, of in enumerate(self._inputs)}
        places |= {of: count + of - tensors for of in range(tensors, first)}
        count += len(recording.sizes) + bool(recording.block)
        places |= {of: count + n for n, of in enumerate(parts)}
        self._choose = chooser([places[of] for of in operands])

    def of(self, inputs: Sequence[CubeTensor], buffers: Sequence[Any]) -> Sequence[Any]:
        """Return the buffer of each result."""
        held = [*[inputs[n].buffer for n in self._inputs], *buffers]
        if self._parts[0]:
            held += self._memory.parts(buffers, *self._parts)
        return self._choose(held)


def native_run(
    program: Repeatable, inputs: Sequence[Any], numbers: Sequence[Constant], bundle: Bundle | None
) -> NativeRun | None:
    """Return a run of launches of a program that ran for such inputs, or of the last ones.

    None where machine code cannot run them.
    """
    recording = program.recording
    memory = recording.memory
    if not (_code and isinstance(bundle, CpuBundle) and isinstance(memory, LentBuffers)):
        return None
    if recording.tail is not None or not all([type(x) is CubeTensor for x in inputs]):
        return None
    filling = bundle.filling
    if filling is None:
        return None
    for of in (numbers, DOUBTS.read(inputs)):
        if len(distinct(of)[0]) > MOST_DIFFERENT:
            return None
    return NativeRun(program, inputs, numbers, filling, bundle, memory)
