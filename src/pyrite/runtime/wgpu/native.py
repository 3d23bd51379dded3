"""wgpu-native by raw C calls: the one place that knows what wgpu-py keeps private.

wgpu-py's methods cost 3 to 25 µs each, the C calls under them 0.3 to 2 µs, so what happens for
every launch is called raw; what happens seldom goes through wgpu-py.  Traps rule how:

- A raw call reports its error to wgpu-py's error handler, on the same thread, before it returns:
  `captured` collects it.  Without that it would only be logged.
- wgpu-native **aborts the process** where a *submit* meets an error, and where one waits for a
  submission that never was.  All that a submit could reject is found out before: a lost device and
  a bad command by ``finish``, a destroyed buffer by making a bind group of it.
- ``wgpuDevicePoll`` that waits keeps all other threads from submitting until the device is idle, so
  Pyrite never calls it so: it polls without waiting, and sleeps in between.
- An exception in a callback is dropped, KeyboardInterrupt too, and what the callback was to note
  with it, for which somebody waits.  So Ctrl-C waits for the end of calls that call back.
- A daemon thread that Python ends while wgpu-native calls it back takes the process with it: frames
  of Rust cannot be unwound.  So every call that calls back is made under a lock, and the thread
  that ends the process takes these locks for good: see process.py.

Objects made here are cffi pointers that release themselves.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from typing import Any

from wgpu.backends.wgpu_native import _api
from wgpu.backends.wgpu_native._ffi import ffi as _ffi
from wgpu.backends.wgpu_native._ffi import lib as _lib

from pyrite.runtime.interruption import Uninterrupted
from pyrite.runtime.wgpu.header import read_types

# cffi makes its types when it reads the header, so to a type checker all of it is Any.
ffi: Any = _ffi
lib: Any = _lib
_handler: Any = _api.error_handler

read_types(ffi)

Pointer = Any

#: Held while a device is opened, and while one is polled: both call back.
opening = threading.RLock()
polling = threading.RLock()


class NativeError(Exception):
    """An error of wgpu-native; callers turn it into one of Pyrite's.  ``kind`` is WebGPU's word."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind

    @property
    def is_loss(self) -> bool:
        """Whether it says that the device is lost."""
        return "device is lost" in str(self) or "Device lost" in str(self)


class captured:
    """Raise the last error of the raw calls in the block, as NativeError, at its end."""

    __slots__ = ()

    def __enter__(self) -> None:
        _handler.capture("pyrite")

    def __exit__(self, kind: object, error: object, _: object) -> None:
        found = _handler.release("pyrite")
        if found is not None and kind is None:
            raise native_error(*found)


def error_slot() -> Any:
    """Return where the errors of this thread's calls are noted from now on, the first of them.

    It has a ``type`` and a ``message``, None where there is none.
    """
    _handler.capture("pyrite")
    return _handler._get_proxy_stack()[-1]


def native_error(kind: str, message: str) -> NativeError:
    """Return the error of the handler's kind and message, less the words that say nothing."""
    lines = [line.rstrip() for line in message.splitlines()]
    noise = ("Validation Error", "Caused by:", "")
    return NativeError(kind, "\n".join(line for line in lines if line.strip() not in noise))


def text(string: str) -> tuple[Any, Any]:
    """Return a WGPUStringView of the string, and what must be kept alive while it is used."""
    data = ffi.new("char[]", string.encode())
    view = ffi.new("WGPUStringView *", {"data": data, "length": len(data) - 1})
    return view[0], data


def poll(device: Pointer) -> None:
    """Let the callbacks of finished work run, without waiting."""
    with polling, Uninterrupted():
        lib.wgpuDevicePoll(device, False, ffi.NULL)


def poll_in_turn(device: Pointer) -> bool:
    """Do what `poll` does, unless another thread is at it; return whether it was done.

    Who polls without a pause would keep others from the lock, though it calls back for all.
    """
    with Uninterrupted():  # also so that no lock is kept
        if not polling.acquire(blocking=False):
            return False
        try:
            lib.wgpuDevicePoll(device, False, ffi.NULL)
        finally:
            polling.release()
        return True


def view(address: Pointer, nbytes: int) -> Any:
    """Return the bytes at an address, as a writable buffer."""
    return ffi.buffer(address, nbytes)


class Mapping:
    """A request to map a buffer: ``status`` is None until a poll finds it answered."""

    def __init__(self, buffer: Pointer, mode: int, nbytes: int) -> None:
        self.status: int | None = None
        number = next(_numbers)
        _mappings[number] = self
        info = ffi.new("WGPUBufferMapCallbackInfo *")
        info.mode = lib.WGPUCallbackMode_AllowSpontaneous
        info.callback = _mapped
        info.userdata1 = ffi.cast("void *", number)
        lib.wgpuBufferMapAsync(buffer, mode, 0, nbytes, info[0])

    @property
    def is_mapped(self) -> bool:
        """Whether the buffer is mapped now."""
        return bool(self.status == lib.WGPUMapAsyncStatus_Success)


class Progress:
    """The number of the last submission that the device has completed."""

    def __init__(self) -> None:
        self.completed = 0
        number = next(_numbers)
        _progress[number] = self
        self._info = ffi.new("WGPUQueueWorkDoneCallbackInfo *")
        self._info.mode = lib.WGPUCallbackMode_AllowSpontaneous
        self._info.callback = _work_done
        self._info.userdata1 = ffi.cast("void *", number)

    def watch(self, queue: Pointer, submission: int) -> None:
        """Have `completed` reach the submission when all that was submitted until now is done."""
        self._info.userdata2 = ffi.cast(_ANYTHING, submission)
        lib.wgpuQueueOnSubmittedWorkDone(queue, self._info[0])

    def reach(self, submission: int) -> None:
        """Note that a submission is done; those before it are too."""
        self.completed = max(self.completed, submission)


_ANYTHING = ffi.typeof("void *")
# A callback may come when nobody waits for it any more, so it names its object by a number.
_numbers = itertools.count(1)
_mappings: dict[int, Mapping] = {}
_progress: weakref.WeakValueDictionary[int, Progress] = weakref.WeakValueDictionary()


@ffi.callback("void(WGPUMapAsyncStatus, WGPUStringView, void *, void *)")  # type: ignore[untyped-decorator]
def _mapped(status: int, message: Any, number: Any, _: Any) -> None:
    _mappings.pop(int(ffi.cast("uintptr_t", number))).status = status


@ffi.callback("void(WGPUQueueWorkDoneStatus, WGPUStringView, void *, void *)")  # type: ignore[untyped-decorator]
def _work_done(status: int, message: Any, number: Any, submission: Any) -> None:
    progress = _progress.get(int(ffi.cast("uintptr_t", number)))
    if progress is not None:
        progress.reach(int(ffi.cast("uintptr_t", submission)))
