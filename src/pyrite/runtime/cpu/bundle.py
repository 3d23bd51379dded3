"""Launches that are made again and again: their commands are written once, then only filled in."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from struct import Struct
from struct import error as StructError
from typing import Any, Final, NamedTuple

from pyrite.runtime.cpu.compilation import Compilation
from pyrite.runtime.cpu.executor import FUNCTION, HEADER
from pyrite.runtime.cpu.memory import CpuBuffer, CpuView
from pyrite.runtime.cpu.module import Compiler
from pyrite.runtime.cpu.native_call import Slot, machine_code
from pyrite.runtime.cpu.stream import Late, Stream
from pyrite.runtime.protocol import BundledLaunch, Fixed


class Words(NamedTuple):
    """The words of a launch, its nanoseconds, and its code while that is compiled elsewhere."""

    words: bytes
    nanoseconds: float
    late: Compilation | None = None


Command = Callable[[Any, Sequence[Any], Sequence[int]], Words]
Pack = Callable[[Any], int]
Write = Callable[[Sequence[Any]], bytes]

#: So many addresses are looked up together.
MANY = 64


class Commands(NamedTuple):
    """Commands, and at which of their words operands are: which, and its code of `struct`."""

    words: bytes
    given: tuple[tuple[int, int, str], ...]
    nanoseconds: float


class Filling(NamedTuple):
    """Commands, and of which operands their words are.

    ``addresses`` are pairs of a word and the operand whose address it is.
    """

    commands: bytes
    addresses: tuple[tuple[int, int], ...]
    numbers: tuple[FilledNumber, ...]
    nanoseconds: float


class FilledNumber(NamedTuple):
    """An operand that is a number: its code of `struct`, if any, what makes a word, and where."""

    operand: int
    format: str
    pack: Pack
    places: tuple[int, ...]


class CpuBundle:
    """The commands of some launches, and which of their words are addresses and numbers."""

    __slots__ = (
        "_command",
        "_commands",
        "_count",
        "_nanoseconds",
        "_steps",
        "_stream",
        "_template",
        "_write",
    )

    def __init__(self, stream: Stream, command: Command, steps: Sequence[BundledLaunch]) -> None:
        self._stream = stream
        self._command = command
        # They hold the executables, and these the code.
        self._steps = tuple(steps)
        #: The commands as they were written at the first launch, and their work.
        self._template: _Template | None = None
        self._nanoseconds = 0.0
        #: How many there are: a launch of no workgroups is none.
        self._count = 0
        #: What returns their bytes: found at the second launch, which for most sizes never comes.
        self._write: Write | None = None
        self._commands: list[Commands | None] = []

    def launch(self, operands: Sequence[Any]) -> None:
        """Append them; see `pyrite.runtime.protocol.Bundle`."""
        write = self._write
        if write is not None:
            commands = write(operands)
        elif self._template is not None:
            self._write = self._template.writing()
            commands = self._write(operands)
        else:
            commands = self._written(operands)
        if commands:
            self._stream.extend(commands, self._nanoseconds)

    @property
    def is_settled(self) -> bool:
        """Whether the commands were written: not before all code is compiled."""
        return self._template is not None

    @property
    def commands(self) -> Commands | None:
        """Them, once they were written, where all their numbers have codes."""
        if self._template is None:
            return None
        if not self._commands:
            self._commands.append(self._template.commands())
        return self._commands[0]

    @property
    def filling(self) -> Filling | None:
        """What its commands are filled with, once they were written."""
        return None if self._template is None else self._template.filling()

    def add(self, commands: bytes) -> None:
        """Append its commands, in which the operands are."""
        self._stream.extend_many(commands, self._nanoseconds, self._count)

    def _written(self, operands: Sequence[Any]) -> bytes:
        """Return the commands, which are kept; none where code is late: then they are added."""
        template, late = _Template(), list[tuple[int, Compilation]]()
        made, run = Words(b"", 0.0), 0
        for n, step in enumerate(self._steps):
            if n < run:
                continue
            made = self._command(step.executable, step.bound(operands), step.grid)
            run = self._end_of_run(n)
            if made.late is not None:
                place, length = len(template.words), len(made.words) // 8
                late += [(place + m * length + FUNCTION, made.late) for m in range(run - n)]
            template.append(made.words, made.nanoseconds, self._steps[n:run])
        if late:
            self._stream.extend_late(Late(template.words, tuple(late)), template.nanoseconds)
            return b""
        self._count = self._stream.executor.count(*template.words.buffer_info())
        self._nanoseconds, self._template = template.nanoseconds, template
        return template.words.tobytes()

    def _end_of_run(self, first: int) -> int:
        """Return where the launches end that differ in some numbers from one, which is first."""
        steps, end = self._steps, first + 1
        while end < len(steps) and steps[end].stepped:
            end += 1
        return end


class _Template:
    """Commands, and where in them the operands go."""

    def __init__(self) -> None:
        self.words = array("q")
        self.nanoseconds = 0.0
        self.addresses: list[tuple[int, int]] = []
        self.numbers: list[tuple[int, int, Pack]] = []
        #: The code of `struct` for each word that an operand gives, "" where there is none.
        self._formats: dict[int, str] = {}
        #: Launches, and where the words of each begin, of which no operand is noted as yet.
        self._left: list[tuple[int, BundledLaunch]] = []

    def append(self, command: bytes, nanoseconds: float, run: Sequence[BundledLaunch]) -> None:
        """Add the words of launches that differ from the first in some numbers."""
        if not command:
            return
        for _ in run:
            self.nanoseconds += nanoseconds
        words, first, length = array("q"), len(self.words), len(command) // 8
        words.frombytes(command)
        self.words += words * len(run)
        self._left += [(first + n * length + HEADER, step) for n, step in enumerate(run)]
        for n in run[-1].stepped:
            pack = run[0].executable.pack[n]
            values = [pack(_number(step.bindings[n])) for step in run]
            self.words[first + HEADER + n :: length] = array("q", values)

    def _note_operands(self) -> None:
        """Note which words are operands, which nobody needs at first."""
        left, self._left = self._left, []
        for first, step in left:
            executable = step.executable
            for at, (binding, parameter, pack, format) in enumerate(
                zip(
                    step.bindings, executable.kernel.parameters, executable.pack,
                    executable.formats, strict=True,
                ),
                start=first,
            ):  # fmt: skip
                if isinstance(binding, Fixed):
                    continue
                self._formats[at] = format
                if parameter.kind == "buffer":
                    self.addresses.append((at, binding))
                else:
                    self.numbers.append((at, binding, pack))

    def _writing_all(self) -> Write:
        """Return what writes operands into a copy of the words."""
        if len(self.addresses) >= MANY:
            return _writing_many(self.filling())
        template, addresses, numbers = self.words, self.addresses, self.numbers

        def write(operands: Sequence[Any]) -> bytes:
            words = template[:]
            for at, operand in addresses:
                words[at] = operands[operand].address
            for at, operand, pack in numbers:
                words[at] = pack(operands[operand])
            return words.tobytes()

        return write

    def commands(self) -> Commands | None:
        """Return them, with the first operands; None where a number has to be looked at."""
        self._note_operands()
        operand_of = dict(self.addresses) | {at: operand for at, operand, _ in self.numbers}
        given = [(at, operand_of[at], self._formats[at]) for at in sorted(self._formats)]
        if not given or not all(format for _, _, format in given):
            return None
        return Commands(self.words.tobytes(), tuple(given), self.nanoseconds)

    def filling(self) -> Filling:
        """Return what they are filled with."""
        self._note_operands()
        # One number goes to all launches that take it as one type.
        shared: dict[tuple[int, str, int], tuple[Pack, list[int]]] = {}
        for at, operand, pack in self.numbers:
            format = self._formats[at]
            key = operand, format, 0 if format else at
            shared.setdefault(key, (pack, []))[1].append(at)
        numbers = [
            FilledNumber(operand, format, pack, tuple(at))
            for (operand, format, _), (pack, at) in shared.items()
        ]
        return Filling(
            self.words.tobytes(), tuple(self.addresses), tuple(numbers), self.nanoseconds
        )

    def writing(self) -> Write:
        """Return what writes the commands with the addresses and numbers of operands.

        There is a short way where these are the last words, as in most launches of one op.
        """
        self._note_operands()
        fill = self._writing_all()
        places, formats = sorted(self._formats), [self._formats[at] for at in sorted(self._formats)]
        first = len(self.words) - len(places)
        if not places or places != [*range(first, len(self.words))] or not all(formats):
            return fill
        head, pack = self.words[:first].tobytes(), Struct("=" + "".join(formats)).pack
        last = {at: (operand, False) for at, operand in self.addresses}
        last |= {at: (operand, True) for at, operand, _ in self.numbers}
        if self.numbers:
            return _writing_numbers(head, pack, [last[at] for at in places], fill)
        return _writing_addresses(head, pack, [last[at][0] for at in places])


def _number(binding: int | Fixed) -> Any:
    assert isinstance(binding, Fixed), "it differs in numbers that are the same in every run"
    return binding.value


def _writing_many(filling: Filling) -> Write:
    """Return what writes many operands: first buffers, and numbers behind them."""
    first = 1 + max([operand for _, operand in filling.addresses])
    pairs = [
        *filling.addresses,
        *[(at, first + n) for n, number in enumerate(filling.numbers) for at in number.places],
    ]
    places = array("q", [word for pair in sorted(pairs) for word in pair]).tobytes()
    commands = filling.commands

    def write(operands: Sequence[Any]) -> bytes:
        numbers = [number.pack(operands[number.operand]) for number in filling.numbers]
        return fillers[0](commands, places, [*operands[:first], *numbers])

    return write


def filled(commands: bytes, places: bytes, operands: Sequence[Any]) -> bytes:
    """Return commands with the addresses of buffers, or whole numbers, in them.

    ``places`` are pairs of words: which of the commands is which operand.
    """
    words, pairs = array("q"), array("q")
    words.frombytes(commands)
    pairs.frombytes(places)
    for at, which in zip(pairs[::2], pairs[1::2], strict=True):
        operand = operands[which]
        words[at] = operand if operand.__class__ is int else operand.address
    return words.tobytes()


#: What does so: machine code, once there is some.
fillers: Final[list[Callable[[bytes, bytes, Sequence[Any]], bytes]]] = [filled]


def fill_natively(compiler: Compiler) -> None:
    """Have commands filled by machine code, from now on."""
    if fillers[0] is filled:
        held = (CpuBuffer, CpuView, int, filled)
        slots: list[Slot] = [(CpuBuffer, "address", None)]
        slots += [(CpuView, name, None) for name in ("base", "offset")]
        fillers[0] = machine_code(compiler, "filling", held, slots) or filled


def _writing_addresses(head: bytes, pack: Callable[..., bytes], last: Sequence[int]) -> Write:
    """Return what writes operands' addresses behind a head."""
    # Without a loop in half the time: of an op of one input, and of two.
    if len(last) == 2:
        a, b = last

        def write_two(x: Sequence[Any]) -> bytes:
            return head + pack(x[a].address, x[b].address)

        return write_two
    if len(last) == 3:
        a, b, c = last

        def write_three(x: Sequence[Any]) -> bytes:
            return head + pack(x[a].address, x[b].address, x[c].address)

        return write_three
    return lambda x: head + pack(*[x[n].address for n in last])


def _writing_numbers(
    head: bytes, pack: Callable[..., bytes], last: Sequence[tuple[int, bool]], fill: Write
) -> Write:
    """Return what writes operands' addresses and numbers behind a head."""

    def write(x: Sequence[Any]) -> bytes:
        found: list[Any] = []
        for n, is_number in last:
            found.append(x[n] if is_number else x[n].address)
        try:
            return head + pack(*found)
        except (StructError, OverflowError):
            # A number that is to be rounded first, or that its dtype does not hold.
            return fill(x)

    return write
