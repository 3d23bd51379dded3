"""What an application does next with its GPU, and what was asked of Pyrite before goes first.

A command on an application's memory waits for a flush with all others: to submit each alone took
218 µs, and 35 to append it.  The order of the calls in the program is kept by wgpu-py: the methods
of the application's own objects by which it could see or change that memory flush first.  They are
wrapped on the instances, once, when a command first waits for one.  (An application that submits by
raw C calls is not seen; `pyrite.wgpu.buffer_of` and ``synchronize()`` flush for it.)
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, Protocol

import wgpu

from pyrite.errors import PyriteError

#: By the kind of object, what submits work, or takes memory away from work that waits.
_METHODS: dict[type, tuple[str, ...]] = {
    wgpu.GPUQueue: ("submit", "write_buffer", "write_texture"),
    wgpu.GPUDevice: ("destroy",),
    wgpu.GPUBuffer: ("map_async", "destroy"),
    wgpu.GPUTexture: ("destroy",),
}


class Waiting(Protocol):
    """What has commands that wait."""

    def flush_for_application(self) -> None: ...  # tells `ApplicationQueue.done`


class ApplicationQueue:
    """The queue of an application's ``wgpu.GPUDevice``, and who has commands that go before.

    It holds that one until the flush: commands that write an application's memory are not lost with
    the last tensor of a runtime.
    """

    def __init__(self, gpu: Any) -> None:
        self._waiting: Waiting | None = None
        self.watch(gpu)
        self.watch(gpu.queue)

    def wait(self, who: Waiting) -> None:
        """Have what ``who`` has appended submitted before the application's next call.

        Its caller holds the lock of ``who``, as that of `done` does: what one thread appended is
        submitted when its next call is made, though another thread is at it already.
        """
        if self._waiting is not who:
            self.flush()
            self._waiting = who

    def done(self, who: Waiting) -> None:
        """Note that nothing of ``who`` waits any more."""
        if self._waiting is who:
            self._waiting = None

    def flush(self) -> None:
        """Return when what waits is submitted."""
        who = self._waiting
        if who is not None:
            # It does not concern a call of the application: every read of the results raises it.
            with suppress(PyriteError):
                who.flush_for_application()

    def watch(self, of_application: Any) -> None:
        """Have the methods of an object that matter flush first."""
        for kind, names in _METHODS.items():
            if isinstance(of_application, kind):
                for name in names:
                    if name not in vars(of_application):
                        method = getattr(of_application, name)
                        setattr(of_application, name, self._after_flush(method))

    def _after_flush(self, method: Callable[..., Any]) -> Callable[..., Any]:
        # The object must not hold itself: wgpu-py releases it when nobody does.
        function, owner = method.__func__, weakref.ref(method.__self__)  # type: ignore[attr-defined]

        @wraps(function)
        def call(*given: Any, **named: Any) -> Any:
            self.flush()
            return function(owner(), *given, **named)

        return call


_lock = threading.Lock()


def queue_of(gpu: Any) -> ApplicationQueue:
    """Return the one of a ``wgpu.GPUDevice``, which holds it."""
    with _lock:
        found: ApplicationQueue | None = vars(gpu).get("_pyrite_queue")
        if found is None:
            found = gpu._pyrite_queue = ApplicationQueue(gpu)
        return found
