"""A thread that encodes commands, while the caller's goes on.

To encode a launch takes wgpu-native and the driver 2 to 6 µs, more than half of what a compiled
step takes its caller, a third of a call of one op, and no Python.  So the thread runs machine code
alone: it waits for a job at a semaphore, without the GIL, which it would else wait for as long as
five milliseconds.  It submits nothing, and where anything is wrong the caller encodes the launches
again, to find out which of them it is.
"""

from __future__ import annotations

import atexit
import ctypes
import sys
import threading
import weakref
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from pyrite.runtime.wgpu.native import Pointer, error_slot, ffi, lib
from pyrite.runtime.wgpu.native_calls import Loop, Table, address_of, loop

#: What the machine code reads and writes, in its order; see `Loop.work`.
_FIELDS: Final = (
    "asked", "answered", "wait", "post", "create_encoder", "begin_pass", "end_pass", "release_pass",
    "finish", "release_encoder", "functions", "encoder_form", "pass_form", "commands_form",
    "device", "tables", "count", "is_ended", "is_done", "commands",
)  # fmt: skip
_AT: Final = {name: n for n, name in enumerate(_FIELDS)}

_ENCODER = ffi.new("WGPUCommandEncoderDescriptor *")
_PASS = ffi.new("WGPUComputePassDescriptor *")
_COMMANDS = ffi.new("WGPUCommandBufferDescriptor *")


class EncodingThread:
    """One such thread, for one job at a time.  Its caller holds the lock of the runtime."""

    def __init__(self, native: Loop, device: Pointer) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        #: Room for two semaphores of C.
        self._semaphores = [ctypes.create_string_buffer(128) for _ in range(2)]
        for semaphore in self._semaphores:
            self._libc.sem_init(semaphore, 0, 0)
        self._shared = np.zeros(len(_FIELDS), np.uint64)
        functions = {
            "create_encoder": lib.wgpuDeviceCreateCommandEncoder,
            "begin_pass": lib.wgpuCommandEncoderBeginComputePass,
            "end_pass": lib.wgpuComputePassEncoderEnd,
            "release_pass": lib.wgpuComputePassEncoderRelease,
            "finish": lib.wgpuCommandEncoderFinish,
            "release_encoder": lib.wgpuCommandEncoderRelease,
            "encoder_form": _ENCODER, "pass_form": _PASS, "commands_form": _COMMANDS,
            "device": device,
        }  # fmt: skip
        for name, pointer in functions.items():
            self._set(name, address_of(pointer))
        self._set("functions", ctypes.addressof(native.functions))
        for name in ("wait", "post"):
            function = getattr(self._libc, f"sem_{name}")
            self._set(name, ctypes.cast(function, ctypes.c_void_p).value or 0)
        for name, semaphore in zip(("asked", "answered"), self._semaphores, strict=True):
            self._set(name, ctypes.addressof(semaphore))
        # There is no job: who ends it lets it finish one before.
        self._set("is_done", 1)
        #: What a job reads.
        self._held: Any = None
        self._slots: list[Any] = []
        self._thread = threading.Thread(
            target=_run,
            args=(native, self._shared, self._semaphores, self._slots),
            name="pyrite-wgpu-encoding",
            daemon=True,
        )
        self._thread.start()
        _threads.add(self)
        given_up = weakref.finalize(self, _end, self._libc, self._shared, self._semaphores)
        given_up.atexit = False

    @classmethod
    def of(cls, device: Pointer) -> EncodingThread | None:
        """Return a new one; None where there is no machine code, or are no semaphores of C."""
        native = loop() if sys.platform.startswith("linux") else None
        return None if native is None else cls(native, device)

    @property
    def is_done(self) -> bool:
        """Whether the job is done."""
        return bool(self._shared[_AT["is_done"]])

    def begin(self, tables: Sequence[Table], held: object) -> None:
        """Have the launches of tables encoded; ``held`` is what they refer to."""
        places = np.array([(table.address, table.launches) for table in tables], np.uint64)
        self._held = tables, held, places
        self._set("tables", places.ctypes.data)
        self._set("count", len(tables))
        self._set("is_done", 0)
        self._libc.sem_post(self._semaphores[0])

    def result(self) -> Pointer | None:
        """Return the command buffer of the job, when it is done; None where that had an error."""
        self._wait()
        self._held = None
        buffer = ffi.cast("WGPUCommandBuffer", int(self._shared[_AT["commands"]]))
        commands = ffi.gc(buffer, lib.wgpuCommandBufferRelease) if buffer != ffi.NULL else None
        slot = self._slots[0]
        if slot.message is not None:
            slot.message = slot.type = None
            return None
        return commands

    def end(self) -> None:
        """Let it finish its job, and end."""
        if self._held is not None:
            self._wait()
            self._held = None
        _end(self._libc, self._shared, self._semaphores)
        self._thread.join()

    def _wait(self) -> None:
        # A signal interrupts it.
        while self._libc.sem_wait(self._semaphores[1]):
            pass

    def _set(self, name: str, value: int) -> None:
        self._shared[_AT[name]] = value


def _run(native: Loop, shared: Any, semaphores: object, slots: list[Any]) -> None:
    """Do what is asked for until the end."""
    slots.append(error_slot())
    native.work(shared)


def _end(libc: Any, shared: Any, semaphores: Sequence[Any]) -> None:
    shared[_AT["is_ended"]] = 1
    libc.sem_post(semaphores[0])


_threads: weakref.WeakSet[EncodingThread] = weakref.WeakSet()


@atexit.register
def _at_exit() -> None:
    """End all: what they read is about to go."""
    for thread in list(_threads):
        thread.end()
