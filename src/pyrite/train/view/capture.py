"""Capture: what the process writes to its terminal, kept back while a dashboard has the terminal.

Descriptors are redirected, not streams, so that what C libraries and other processes write is
caught too.  They lead into memory and not into a pipe: a pipe that is full would stop a library
that writes while it holds the interpreter's lock, for ever.  The memory is bounded: what was read
is given back, and of output that comes faster than `LIMIT` a look the last of it is read.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

#: The descriptors of standard output and error, and what they are called in events.
STREAMS = {1: "stdout", 2: "stderr"}
#: Lines that are written to the terminal when it is free again; all of them stand in the events.
REPLAYED = 200
#: The longest line; what is longer is told in pieces.
LONGEST = 4000
#: The most bytes of a stream that are read in a look; and that are held after they were read.
LIMIT = 1 << 20


@dataclass
class _Stream:
    """One descriptor: where it led before, where it leads now, what of that was read and freed."""

    before: int
    now: int
    position: int = 0
    freed: int = 0
    begun: bytes = b""

    def skip(self) -> tuple[int, int]:
        """Go on where `LIMIT` bytes are left; return where they end, and how many were left out."""
        end = os.fstat(self.now).st_size
        left_out = max(0, end - LIMIT - self.position)
        if left_out:
            self.position, self.begun = self.position + left_out, b""
        return end, left_out

    def free(self) -> None:
        """Give back the memory of what was read, where that is much."""
        if self.position - self.freed >= LIMIT:
            _punch(self.now, self.freed, self.position - self.freed)
            self.freed = self.position


@dataclass
class Capture:
    """Redirects those of standard output and error that lead to a terminal, until `release`."""

    streams: dict[int, _Stream] = field(default_factory=dict)
    _last: deque[tuple[int, bytes]] = field(default_factory=lambda: deque(maxlen=REPLAYED))
    _count: int = 0

    def begin(self) -> None:
        """Redirect.  Raises OSError where there is no memory for it."""
        _flush()
        for descriptor in STREAMS:
            if os.isatty(descriptor):
                stream = _Stream(os.dup(descriptor), _memory())
                self.streams[descriptor] = stream
                os.dup2(stream.now, descriptor)

    @property
    def memories(self) -> Mapping[str, int]:
        """Descriptors of what was caught, by the name of the stream."""
        return {STREAMS[descriptor]: stream.now for descriptor, stream in self.streams.items()}

    def lines(self, *, also_begun: bool = False) -> Iterator[tuple[str, str]]:
        """Give the lines that are new, each with the name of its stream."""
        for descriptor, stream in self.streams.items():
            end, left_out = stream.skip()
            if left_out:
                note = (
                    f"({left_out:,} bytes left out: output is read up to {LIMIT >> 20} MiB a look)"
                )
                yield from self._tell(descriptor, note.encode())
            while stream.position < end:  # and no further: somebody may write for ever
                piece = os.pread(stream.now, min(1 << 16, end - stream.position), stream.position)
                if not piece:
                    break
                stream.position += len(piece)
                *whole, stream.begun = (stream.begun + piece).split(b"\n")
                if len(stream.begun) > LONGEST:
                    whole, stream.begun = [*whole, stream.begun], b""
                for line in whole:
                    yield from self._tell(descriptor, line)
            stream.free()
            if also_begun and stream.begun:
                line, stream.begun = stream.begun, b""
                yield from self._tell(descriptor, line)

    def release(self) -> None:
        """Lead the descriptors where they led before; what was caught can still be read."""
        _flush()
        for descriptor, stream in self.streams.items():
            os.dup2(stream.before, descriptor)
            os.close(stream.before)

    def close(self) -> None:
        """Write the last lines that were read where they belong, and forget all."""
        with suppress(OSError):  # the terminal may be gone
            if self._count > len(self._last):
                left_out = self._count - len(self._last)
                note = f"({left_out} earlier lines stand in the events)\n"
                os.write(min(self.streams), note.encode())
            for descriptor, line in self._last:
                os.write(descriptor, line + b"\n")
        for stream in self.streams.values():
            os.close(stream.now)
        self.streams = {}

    def _tell(self, descriptor: int, line: bytes) -> Iterator[tuple[str, str]]:
        # A progress bar writes over its line: what stood there last is what it says.
        text = line.rstrip(b"\r").rsplit(b"\r", 1)[-1]
        self._last.append((descriptor, text))
        self._count += 1
        told = text.decode("utf-8", "replace")
        for start in range(0, max(1, len(told)), LONGEST):
            yield STREAMS[descriptor], told[start : start + LONGEST]


def _memory() -> int:
    """A file that has no name: in memory where the system has such, for a disk may be full."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("pyrite-output", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    return descriptor


#: fallocate's PUNCH_HOLE | KEEP_SIZE, of Linux's <linux/falloc.h>: whoever writes goes on at the
#: same place, and so no byte is lost, as one may be where a file is cut off.
_PUNCH_HOLE = 0x02 | 0x01


def _punch(descriptor: int, begin: int, count: int) -> None:
    """Free bytes of a file in memory.  Elsewhere than on Linux it is one on disk, and stays."""
    if sys.platform == "linux":
        fallocate = ctypes.CDLL(None).fallocate
        fallocate.argtypes = ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long
        fallocate(descriptor, _PUNCH_HOLE, begin, count)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
