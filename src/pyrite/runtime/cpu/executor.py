"""Programs of launches, run in order by threads that Python does not hold up.

The threads' loop is `executor.ll`, compiled at first use: one call of it runs until the executor
ends, without the GIL.  An idle worker looks for work for some 30 µs, so that kernels in quick
succession find it awake, and then sleeps in the kernel, where it costs nothing to others.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import struct
import threading
import time
import weakref
from array import array
from collections import deque
from collections.abc import Callable
from importlib.resources import files
from typing import Final

import numpy as np

from pyrite.errors import DeviceError
from pyrite.runtime.cpu.linker import Code
from pyrite.runtime.cpu.module import Compiler
from pyrite.runtime.cpu.thread_parking import parking
from pyrite.runtime.interruption import Uninterrupted

#: Words of the state in `executor.ll` that Python reads or sets.
_HEAD, _COMPLETED, _WIDTH, _SPINS, _SEAT_OF, _SEATS = 24, 25, 48, 49, 2112, 3136
_CPUS: Final = 1024

#: A seat that is none.
NO_SEAT: Final = -1
#: Bytes of a workgroup of the copy function.
COPY_GROUP: Final = 1 << 20
#: Nanoseconds that it takes, roughly.
COPY_WORK: Final = 20_000.0
#: The most chunks of one command: what a share has bits for.
MOST_CHUNKS: Final = (1 << 24) - 1

_SUBMIT = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64)
_SUBMIT_BYTES = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64)
_FUNCTIONS = {
    "work": ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64),
    "sit": ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p),
    "wait": ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int64),
    "submit": _SUBMIT,
    "submit_aside": _SUBMIT,
    "submit_seated": _SUBMIT,
    "rouse": ctypes.CFUNCTYPE(None, ctypes.c_void_p),
    "stop": ctypes.CFUNCTYPE(None, ctypes.c_void_p),
    "commands": ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64),
}


class CommandBuffer:
    """Commands in order.  None is added once it was submitted: its memory must not move."""

    __slots__ = ("_count", "_counted", "words")

    def __init__(self, count: Callable[[int, int], int] | None = None) -> None:
        self.words = array("q")
        #: What counts those of many words, by the address of the first: `Executor.count`.
        self._count = count
        #: How many commands the first so many words are.
        self._counted = (0, 0)

    def __len__(self) -> int:
        """Count the commands, by the length of each."""
        words = self.words
        at, count = self._counted
        if self._count is not None and len(words) - at >= _MANY:
            first = words.buffer_info()[0] + at * words.itemsize
            at, count = len(words), count + self._count(first, len(words) - at)
        while at < len(words):
            at += words[at + _LENGTH]
            count += 1
        self._counted = at, count
        return count


#: So many words are not counted by Python.
_MANY: Final = 256
#: Words of a command before its slots.
HEADER: Final = 8
_HEADER_BYTES: Final = struct.Struct(f"={HEADER}q")
#: Which of them is the address of its code, and which says how many words it has.
FUNCTION: Final = 0
_LENGTH: Final = 4


def command(function: int, grid: tuple[int, int, int], slots: bytes, chunk: int) -> bytes:
    """Return a launch as the words that `executor.ll` reads.

    ``grid`` has at least one workgroup; ``chunk`` is how many one thread takes at a time.
    """
    x, y, z = grid
    count = x * y * z
    chunk = max(chunk, -(-count // MOST_CHUNKS))
    length = HEADER + len(slots) // 8
    return _HEADER_BYTES.pack(function, count, chunk, -(-count // chunk), length, x, y, z) + slots


class Executor:
    """Threads that run commands in the order of `submit`; `CpuConfig` says what patience is."""

    #: Each call by machine code asks why it is closed: of a slot that takes no look-up.
    __slots__ = ("__dict__", "__weakref__", "why_closed")

    def __init__(self, compiler: Compiler, threads: int | None = None, *, patience: int) -> None:
        cpus = _cpus()
        self.width = threads or len(cpus) or os.cpu_count() or 1
        # With fewer threads than processors the system knows better where there is room.
        self.cpus = cpus if self.width == len(cpus) and cpus[-1] < _CPUS else []
        self._lock = threading.Lock()
        #: Programs that may not be done, so that their memory stays.
        self._submitted_buffers: deque[tuple[int, CommandBuffer | bytes]] = deque()
        #: Why it runs nothing any more; None while it does.
        self.why_closed: str | None = None
        self._state = np.zeros(_SEATS + 8 * self.width + 8, dtype=np.int64)
        # The first word begins a cache line.
        self._words = self._state[-self._state.ctypes.data // 8 % 8 :]
        self._at = self._words.ctypes.data
        # NumPy takes ten times as long to read a number.
        self._counters = self._words.data
        self._words[_WIDTH], self._words[_SPINS] = self.width, patience
        self._words[_SEAT_OF:_SEATS] = -1
        self._words[[_SEAT_OF + cpu for cpu in self.cpus]] = range(len(self.cpus))
        #: What the threads run.
        self._code = _load(compiler)
        addresses = self._code.addresses
        #: The address of a function that copies bytes: see its head.
        self.copy_function = addresses["copy"]
        #: And of those of a launch that is counted when its turn comes.
        self._counting, self._nothing = addresses["count"], addresses["nothing"]
        self._work = _FUNCTIONS["work"](addresses["work"])
        self._sit = _FUNCTIONS["sit"](addresses["sit"])
        self._wait = _FUNCTIONS["wait"](addresses["wait"])
        self._submit = _FUNCTIONS["submit"](addresses["submit"])
        self._submit_aside = _FUNCTIONS["submit_aside"](addresses["submit_aside"])
        self._submit_seated = _FUNCTIONS["submit_seated"](addresses["submit_seated"])
        self._put_bytes = _SUBMIT_BYTES(addresses["submit"])
        self._put_bytes_aside = _SUBMIT_BYTES(addresses["submit_aside"])
        self._rouse = _FUNCTIONS["rouse"](addresses["rouse"])
        self._stop = _FUNCTIONS["stop"](addresses["stop"])
        #: Counts the commands of so many words at an address.
        self.count: Callable[[int, int], int] = _FUNCTIONS["commands"](addresses["commands"])
        self._threads: list[threading.Thread] = []
        self._start()
        _EXECUTORS.add(self)

    @property
    def submitted(self) -> int:
        """The number of the last submission."""
        return self._counters[_HEAD]

    @property
    def completed(self) -> int:
        """The number of the last submission that is done."""
        return self._counters[_COMPLETED]

    def counted(self, counts: int, function: int, slots: bytes, fewest: int, most: int) -> bytes:
        """Return a launch whose grid three uint32 at an address say when its turn comes.

        It has chunks of the ``fewest`` workgroups or more, and so ``most`` chunks at most.
        """
        given = struct.pack("=4q", counts, fewest, min(most, MOST_CHUNKS), self._nothing)
        # What follows is what `count` fills in.
        return command(self._counting, (1, 1, 1), given, 1) + command(function, (1, 1, 1), slots, 1)

    @property
    def programs_at(self) -> int:
        """The address of the numbers `submitted` and `completed`, 8 bytes each."""
        return self._at + 8 * _HEAD

    @property
    def is_idle(self) -> bool:
        """Whether all that was submitted is done."""
        return self._counters[_HEAD] == self._counters[_COMPLETED]

    @property
    def is_closed(self) -> bool:
        """Whether it runs nothing any more."""
        return self.why_closed is not None

    def submit(self, commands: CommandBuffer) -> int:
        """Run commands after those before them; return its number at once.

        Waits only when a thousand command buffers are under way.
        Raises DeviceError when the executor is closed.
        """
        self.check()
        return self._enqueue(commands, self._submit, NO_SEAT)[0]

    def submit_aside(self, commands: CommandBuffer) -> int:
        """Submit as `submit` does for who has more to record: its worker is not woken yet."""
        self.check()
        return self._enqueue(commands, self._submit_aside, NO_SEAT)[0]

    def submit_seated(self, commands: CommandBuffer) -> tuple[int, int]:
        """Submit as `submit` does for who helps right after: return a seat for `help` too.

        Taken before others are woken, so that none is woken for it, nor for the work of one thread.
        """
        self.check()
        seat = self._sit(self._at)
        put = self._submit if seat == NO_SEAT else self._submit_seated
        return self._enqueue(commands, put, seat)

    def submit_bytes(self, commands: bytes, count: int, *, aside: bool) -> bool:
        """Submit so many commands, without a copy, if there is room; return whether there was.

        Noted before, so that Ctrl-C in the middle frees nothing that runs: the number of what was
        not submitted after all is the next one's.
        """
        submitted = self._submitted_buffers
        put = self._put_bytes_aside if aside else self._put_bytes
        with self._lock:
            submitted.append((self.submitted + 1, commands))
            is_put = bool(put(self._at, commands, count))
            completed = self.completed
            while submitted and submitted[0][0] <= completed:
                submitted.popleft()
        return is_put

    def rouse(self) -> None:
        """Wake also the worker of this processor, if there is work: who recorded it goes away."""
        self._rouse(self._at)

    def help(self, number: int, seat: int) -> bool:
        """Work on a seat, which is free then, for a while; whether that submission is done."""
        return bool(self._wait(self._at, number, seat))

    def wait(self, number: int) -> None:
        """Return when the submission of that number is done; this thread helps."""
        self.check()
        while self.completed < number:
            # A seat that nobody knows of would stay taken.  Signals are treated between the turns.
            with Uninterrupted():
                self.help(number, self._sit(self._at))
            self.check()

    def _enqueue(
        self, commands: CommandBuffer, put: Callable[[int, int, int], int], seat: int
    ) -> tuple[int, int]:
        first, count = commands.words.buffer_info()[0], len(commands)
        with self._lock:
            while not (number := put(self._at, first, count)):
                self.help(self.completed + 1, seat)
                put, seat = self._submit, NO_SEAT
            self._submitted_buffers.append((number, commands))
            completed = self.completed
            while self._submitted_buffers and self._submitted_buffers[0][0] <= completed:
                self._submitted_buffers.popleft()
        return number, seat

    def close(self) -> None:
        """Finish what was submitted and end the threads; idempotent."""
        if self.why_closed is None:
            self.wait(self.submitted)
            self._end("it was closed")

    def abandon(self) -> None:
        """End the threads as Python ends: what they have not begun never runs, nobody can read it.

        Whole, also at a second Ctrl-C: memory that a thread writes to must outlive it.
        """
        if self.why_closed is None:
            with Uninterrupted():
                self._end(_ENDING)

    def _end(self, why: str) -> None:
        self.why_closed = why
        self._stop(self._at)
        for thread in self._threads:
            thread.join()
        # Threads of others that help finish their chunks too.
        while self._words[_SEATS + 1 : _SEATS + 8 * self.width : 8].any():
            time.sleep(0.001)
        self._submitted_buffers.clear()

    def _start(self) -> None:
        """Start the threads; where the system refuses one, end those before it."""
        for i in range(self.width):
            name = f"pyrite-cpu-{i}"
            thread = threading.Thread(target=self._run, args=(i,), name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                self._end("the system refused one of them")
                raise DeviceError(
                    f"cpu requires {self.width} threads, got {i} ({error}); set PYRITE_THREADS to "
                    "fewer"
                ) from None
            self._threads.append(thread)

    def _run(self, number: int) -> None:
        if self.cpus:
            _pin(self.cpus[number])
        self._work(self._at, number)

    def check(self) -> None:
        """Raise DeviceError if it is closed, or this process was forked off.

        A daemon thread that still asks while Python ends goes no further, as Python has it anyway.
        """
        if self.why_closed is not None:
            if self.why_closed == _ENDING and threading.current_thread().daemon:
                threading.Event().wait()
            raise DeviceError(f"cpu requires its threads, but {self.why_closed}")

    def forked(self) -> None:
        """Note that this is a copy in a child process, where the threads are not."""
        self.why_closed = (
            "this process was forked from one that used it; start processes with the method "
            "'spawn' or 'forkserver'"
        )


_ENDING: Final = "Python is ending"

_EXECUTORS: weakref.WeakSet[Executor] = weakref.WeakSet()


@atexit.register
def _at_exit() -> None:
    """The threads must end before Python does, wherever their executor is still held."""
    for executor in list(_EXECUTORS):
        executor.abandon()


def _after_fork() -> None:
    for executor in _EXECUTORS:
        executor.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def slot(value: int | float, code: str) -> int:
    """Return a number as the 8 bytes in which a kernel gets it; ``code`` is that of `struct`.

    >>> slot(1.0, "f") == 0x3F800000, slot(-1, "i")
    (True, 4294967295)
    """
    bits = struct.pack("<" + code, value)
    return int.from_bytes(bits.ljust(8, b"\0"), "little", signed=True)


def _load(compiler: Compiler) -> Code:
    key = compiler.key("executor")

    def make() -> bytes:
        text = files(__package__).joinpath("executor.ll").read_text()
        triple = compiler.target.triple
        return compiler.compile(f'target triple = "{triple}"\n{text}{parking(triple)}')

    return compiler.cached(key, make, *_FUNCTIONS, "copy", "count", "nothing")


def _cpus() -> list[int]:
    """Return the processors that this process may use; none where no thread can be kept on one."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def _pin(cpu: int) -> None:
    """Keep the calling thread on one processor: its caches stay warm, and its seat is there."""
    os.sched_setaffinity(0, {cpu})
