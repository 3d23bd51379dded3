"""What becomes of open devices when the process forks, and when it ends.

A child has none of the driver's threads: nothing of its parent's devices works there, and it must
not get a lock that another thread held.  At the end of the process, daemon threads are stopped
before they call wgpu-native again, because Python would end them inside a callback: see native.py.
"""

from __future__ import annotations

import atexit
import os
import weakref
from threading import RLock

from pyrite.runtime.wgpu.device_loss import Life
from pyrite.runtime.wgpu.native import opening, polling

_lives: weakref.WeakSet[Life] = weakref.WeakSet()


def enroll(life: Life) -> None:
    """Have a runtime's life end with the process, and in its forks."""
    with opening:
        _lives.add(life)


def _stop_others() -> None:
    opening.acquire()
    polling.acquire()


def _let_others() -> None:
    opening.release()
    polling.release()


def _end_lives() -> None:
    for life in _lives:
        life.lock = RLock()
        life.fail(
            "this process is a fork of the one that opened it; start processes with the method "
            "'spawn' or 'forkserver'"
        )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_stop_others, after_in_parent=_let_others, after_in_child=_let_others
    )
    os.register_at_fork(after_in_child=_end_lives)


@atexit.register
def _at_exit() -> None:
    """Take the locks for good; this thread still may read."""
    opening.acquire()
    for life in _lives:
        life.lock.acquire()
    polling.acquire()
