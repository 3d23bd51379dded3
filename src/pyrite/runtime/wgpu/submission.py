"""What waits to be submitted: commands, and how they become one command buffer.

Commands are kept as objects until the flush and encoded then, all at once.  That costs 0.2 µs more
for each than to encode at once, and buys that one bad command can be told from the good ones: they
run, and only what the bad one was to write is poisoned.

Dispatches share one compute pass; a copy between them ends it, and the next begins another.  So
uploads into storages that no earlier command of the submission touches go before all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from pyrite.runtime.wgpu.adapter import Device
from pyrite.runtime.wgpu.command import Command, Encoder
from pyrite.runtime.wgpu.launches import BoundLaunch, Launches
from pyrite.runtime.wgpu.native import NativeError, Pointer, captured
from pyrite.runtime.wgpu.native_calls import Table, later
from pyrite.runtime.wgpu.timestamps import Timestamps

#: Fewer launches, one after the other, take longer by native code.
LEAST_NATIVE: Final = 3


class Submission:
    """The commands of one submission, in order."""

    __slots__ = ("commands", "number", "size", "uniforms", "uploads")

    def __init__(self, number: int) -> None:
        self.number = number
        self.uploads: list[Command] = []  # into storages that no command before them touches
        self.commands: list[Command] = []
        #: The arguments of its launches, where they travel in a uniform buffer.
        self.uniforms = bytearray()
        #: How many things there are to do.
        self.size = 0

    def append(self, command: Command) -> int:
        """Have a command run after all others; return how many things there are to do."""
        self.commands.append(command)
        size = self.size = self.size + command.count
        return size

    def append_upload(self, command: Command) -> int:
        """Have a command run before those that are no uploads; return what `append` does."""
        self.uploads.append(command)
        size = self.size = self.size + command.count
        return size

    @property
    def tables(self) -> list[Table] | None:
        """The tables of its launches, if it has no other commands.

        Bound launches are rows of one as soon as there is native code.
        """
        if self.uploads or self.uniforms:
            return None
        found: list[Table] = []
        for kind, alike in groupby(self.commands, type):
            tables = _TABLES.get(kind)
            made = None if tables is None else tables([*alike])
            if made is None:
                return None
            found += made
        return found

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Command]:
        yield from self.uploads
        yield from self.commands


def _tables_of_bound(launches: Sequence[Any]) -> list[Table] | None:
    if later.after(0) is None:
        return None
    return [Table(b"".join([launch.row for launch in launches]), len(launches))]


def _tables_of_many(launches: Sequence[Any]) -> list[Table] | None:
    rows = [each.calls.rows for each in launches]
    return None if any([x is None for x in rows]) else [Table(x, len(x)) for x in rows]


#: What makes the tables of commands of a kind, where they can have some.
_TABLES: Final[dict[type, Callable[[Sequence[Any]], list[Table] | None]]] = {
    BoundLaunch: _tables_of_bound,
    Launches: _tables_of_many,
}


def _encode_bound(encoder: Encoder, launches: Sequence[Any]) -> None:
    """Append bound launches, one after the other: where there are many by native code."""
    native = None if encoder.timestamps is not None else later.after(len(launches))
    if native is None or len(launches) < LEAST_NATIVE:
        for launch in launches:
            launch.encode(encoder)
        return
    native.run_each(encoder.compute_pass(""), [launch.row for launch in launches])
    encoder.pipeline = launches[-1].of.pipeline


def encode(
    device: Device, commands: Iterable[Command], timestamps: Timestamps | None = None
) -> Pointer:
    """Return the commands as a command buffer that may be submitted.

    Raises NativeError if one of them is not legal, or cannot even be said to the device, or the
    device is lost.
    """
    with captured():
        encoder = Encoder(device, timestamps)
        try:
            for kind, alike in groupby(commands, type):
                if kind is BoundLaunch:
                    _encode_bound(encoder, [*alike])
                else:
                    for command in alike:
                        command.encode(encoder)
        except Exception as error:
            encoder.finish()  # lets go of what was begun
            raise NativeError(type(error).__name__, f"{type(error).__name__}: {error}") from None
        return encoder.finish()
