"""Values that travel between processes: their arrays through shared memory, the rest as a message.

The memory has no name (memfd_create, or a file deleted at once), so nothing is left of it when the
processes are gone, whatever ended them, and /dev/shm, which containers keep small, is not used.
Its pages are reserved when it is made: memory that ends is an OSError, not a signal.

Only between a process and those that it started: what is unpickled here was pickled by ourselves.
On Windows descriptors cannot be passed like this, and arrays travel in the message.
"""

from __future__ import annotations

import copyreg
import io
import mmap
import os
import sys
import tempfile
import weakref
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler, recv_handle, send_handle
from typing import Any, NamedTuple

PASSES_DESCRIPTORS = sys.platform != "win32"

_ALIGNMENT = 64


class Message(NamedTuple):
    """A pickled value; its arrays lie at spans (offset, length) of a segment.

    A segment of `renewed` bytes follows the message, in the place of the one before; 0 for none.
    """

    head: bytes
    spans: list[tuple[int, int]]
    renewed: int = 0


class Segment:
    """Memory that processes share: a descriptor and its mapping.

    With is_private what one process writes is not seen by others.
    """

    def __init__(self, descriptor: int, size: int, *, is_private: bool = False) -> None:
        self.descriptor = descriptor
        self.size = size
        access = mmap.ACCESS_COPY if is_private else mmap.ACCESS_WRITE
        self._closing = weakref.finalize(self, os.close, descriptor)
        self.memory = mmap.mmap(descriptor, size, access=access)

    @classmethod
    def create(cls, size: int) -> Segment:
        """Return a segment of size bytes.  Raises OSError if there is no memory for it."""
        descriptor = _nameless_file()
        try:
            os.ftruncate(descriptor, size)
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, 0, size)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(descriptor, size)

    def close(self) -> None:
        """Give the descriptor back; the memory goes when nothing refers to it."""
        self._closing()


class Sender:
    """Sends values over one connection, through one segment that grows with them."""

    def __init__(self, connection: Connection, peer: int) -> None:
        self._connection = connection
        self._peer = peer
        self._segment: Segment | None = None

    def send(self, value: Any) -> None:
        """Send a value; the one before must have been received.

        Raises OSError if the other process is gone or there is no memory; what pickling raises if
        the value does not pickle.
        """
        head, buffers = pickled(value)
        spans, size = _laid_out(buffers)
        renewed = 0
        if size and (self._segment is None or self._segment.size < size):
            self.close()
            self._segment = Segment.create(size + size // 4)
            renewed = self._segment.size
        if self._segment is not None:
            _fill(self._segment, buffers, spans)
        self._connection.send(Message(head, spans, renewed))
        if renewed and self._segment is not None:
            send_handle(self._connection, self._segment.descriptor, self._peer)

    def close(self) -> None:
        """Give the segment back."""
        if self._segment is not None:
            self._segment.close()
            self._segment = None


class Receiver:
    """Receives what a Sender sent over the connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._segment: Segment | None = None

    def receive(self) -> Any:
        """Return the next value; its arrays are its own.

        Raises EOFError or OSError if the other process is gone.
        """
        message: Message = self._connection.recv()
        if message.renewed:
            self.close()
            descriptor = recv_handle(self._connection)
            self._segment = Segment(descriptor, message.renewed)
        # Copied, because the sender writes its next value over this one.
        return _loaded(message, self._segment, bytearray)

    def close(self) -> None:
        """Give the segment back."""
        if self._segment is not None:
            self._segment.close()
            self._segment = None


class Parcel:
    """A value that several processes receive, its arrays in memory that all of them share.

    Raises what pickling raises if the value does not pickle; OSError if there is no memory.
    """

    def __init__(self, value: Any) -> None:
        head, buffers = pickled(value)
        spans, size = _laid_out(buffers)
        self._segment = Segment.create(size) if size else None
        if self._segment is not None:
            _fill(self._segment, buffers, spans)
        self._message = Message(head, spans, size)

    def send(self, connection: Connection, peer: int) -> None:
        """Send the value to the process peer.  Raises OSError if that is gone."""
        connection.send(self._message)
        if self._segment is not None:
            send_handle(connection, self._segment.descriptor, peer)

    @staticmethod
    def receive(connection: Connection) -> Callable[[], Any]:
        """Return what gives the value: what is written to its arrays stays in this process.

        Raises EOFError or OSError if the other process is gone; the function, what unpickling does.
        """
        message: Message = connection.recv()
        if not message.renewed:
            return lambda: _loaded(message, None, memoryview)
        segment = Segment(recv_handle(connection), message.renewed, is_private=True)
        segment.close()
        return lambda: _loaded(message, segment, memoryview)


def pickled(value: Any) -> tuple[bytes, list[memoryview]]:
    """Return the value pickled, and the memory of its contiguous arrays, which is left out."""
    stream, buffers = io.BytesIO(), list[Any]()
    pickler = ForkingPickler(stream, 5, True, buffers.append if PASSES_DESCRIPTORS else None)
    # By value: PyTorch registers handles of tensors here, which only one process may take.
    pickler.dispatch_table = copyreg.dispatch_table
    pickler.dump(value)
    return stream.getvalue(), [buffer.raw() for buffer in buffers]


def _laid_out(buffers: Sequence[memoryview]) -> tuple[list[tuple[int, int]], int]:
    """Return where each buffer goes in a segment, aligned, and the size of all."""
    spans, end = [], 0
    for buffer in buffers:
        spans.append((end, buffer.nbytes))
        end += -(-buffer.nbytes // _ALIGNMENT) * _ALIGNMENT
    return spans, end


def _fill(
    segment: Segment, buffers: Sequence[memoryview], spans: Sequence[tuple[int, int]]
) -> None:
    with memoryview(segment.memory) as memory:
        for buffer, (start, length) in zip(buffers, spans, strict=True):
            memory[start : start + length] = buffer


def _loaded(message: Message, segment: Segment | None, hold: Any) -> Any:
    """Return the value of a message, its arrays over what hold makes of their bytes."""
    if segment is None:
        return ForkingPickler.loads(message.head, buffers=[hold(b"") for _ in message.spans])
    memory = memoryview(segment.memory)
    buffers = [hold(memory[start : start + length]) for start, length in message.spans]
    return ForkingPickler.loads(message.head, buffers=buffers)


def _nameless_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("pyrite-loader", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
