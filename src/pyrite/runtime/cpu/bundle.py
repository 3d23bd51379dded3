"""Launches that are made again and again: their commands are written once, then only filled in."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any

from pyrite.runtime.cpu.executor import HEADER
from pyrite.runtime.cpu.memory import BUFFERS
from pyrite.runtime.cpu.stream import Stream
from pyrite.runtime.protocol import BundledLaunch, Fixed

#: The words of a launch, and its nanoseconds.
Command = Callable[[Any, Sequence[Any], Sequence[int]], "tuple[array[int], float]"]
Pack = Callable[[Any], int]


class CpuBundle:
    """The commands of some launches, and which of their words are addresses and numbers."""

    __slots__ = ("_command", "_steps", "_stream", "_template")

    def __init__(self, stream: Stream, command: Command, steps: Sequence[BundledLaunch]) -> None:
        self._stream = stream
        self._command = command
        # They hold the executables, and these the code.
        self._steps = tuple(steps)
        self._template: _Template | None = None

    def launch(self, operands: Sequence[Any]) -> None:
        """Append them; see `pyrite.runtime.protocol.Bundle`."""
        template = self._template
        if template is None:
            template = self._template = self._written(operands)
        addressed = template.addressed
        if addressed is None:
            commands = template.filled(operands)
        else:
            # As `filled` does, in a third of the time: most launches of one op are such.
            addresses = []
            for operand in addressed:
                addresses.append(operands[operand].address)
            commands = template.head + template.pack(*addresses)
        if commands:
            self._stream.extend(commands, template.nanoseconds)

    def _written(self, operands: Sequence[Any]) -> _Template:
        template = _Template()
        for step in self._steps:
            words, nanoseconds = self._command(step.executable, step.bound(operands), step.grid)
            if words:
                template.append(words, step, operands)
                template.nanoseconds += nanoseconds
        template.end()
        return template


class _Template:
    """Commands, and where in them the operands go."""

    __slots__ = (
        "addressed", "addresses", "head", "nanoseconds", "numbers", "pack", "words",
    )  # fmt: skip

    def __init__(self) -> None:
        self.words = array("q")
        self.nanoseconds = 0.0
        self.addresses: list[tuple[int, int]] = []
        self.numbers: list[tuple[int, int, Pack]] = []
        #: Where nothing but the last words differ, and these are addresses: their operands, what
        #: comes before them, and what makes words of addresses.
        self.addressed: tuple[int, ...] | None = None
        self.head = b""
        self.pack: Callable[..., bytes] = Struct("").pack

    def append(self, command: array[int], step: BundledLaunch, operands: Sequence[Any]) -> None:
        first = len(self.words) + HEADER
        self.words += command
        for at, (binding, pack) in enumerate(
            zip(step.bindings, step.executable.pack, strict=True), start=first
        ):
            if isinstance(binding, Fixed):
                continue
            if isinstance(operands[binding], BUFFERS):
                self.addresses.append((at, binding))
            else:
                self.numbers.append((at, binding, pack))

    def end(self) -> None:
        """Find out, when all is appended, whether there is a short way."""
        count, places = len(self.words), [at for at, _ in self.addresses]
        first = count - len(places)
        if count and not self.numbers and places == [*range(first, count)]:
            self.addressed = tuple([operand for _, operand in self.addresses])
            self.head = self.words[:first].tobytes()
            self.pack = Struct(f"={len(places)}q").pack

    def filled(self, operands: Sequence[Any]) -> bytes:
        """Return the commands with addresses and numbers of operands."""
        words = self.words[:]
        for at, operand in self.addresses:
            words[at] = operands[operand].address
        for at, operand, pack in self.numbers:
            words[at] = pack(operands[operand])
        return words.tobytes()
