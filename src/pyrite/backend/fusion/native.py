"""What machine code does of Fusion: calls that are handed on, and such as were recorded before.

It calls the Python that does the same for all that is not as in most calls, so that nothing but the
time depends on it: see `handing_on.ll` and `recording.ll`.

Invariant: nothing here names an op.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from pyrite.backend.compiling import FOREIGN
from pyrite.backend.explanation import listeners
from pyrite.backend.fusion.eager import PLAIN, RECORDING
from pyrite.backend.fusion.history import Call
from pyrite.backend.fusion.lazy import External, Lazy
from pyrite.backend.fusion.passage import key_of
from pyrite.backend.fusion.pending import PendingCalls
from pyrite.backend.fusion.task_calls import RECORDED, CallsHere, TaskCalls
from pyrite.backend.protocol import Backend
from pyrite.op import Constant, Op, Plan, restrictions
from pyrite.types import TensorType, bool_

_new = object.__new__


def native_execute(
    inner: Backend, slow: Callable[..., Any], rounds: dict[Any, Any], calls: CallsHere
) -> Callable[..., Any] | None:
    """Return what does the same as `Fusion.execute`, ``slow``, in less time; None without that."""
    again = native_record_again(inner)
    if again is None:
        return None
    held = (
        restrictions, rounds, calls, "of_thread", PLAIN, RECORDING, inner, "execute", FOREIGN, slow,
        None, True, RECORDED, sys.modules, "asyncio", again,
    )  # fmt: skip
    here = _new(TaskCalls)
    slots = [(TaskCalls, name, here) for name in ("state", "pending", "is_in_task", "running")]
    return inner.machine_code(
        "handing_on", held, [*slots, (Op, "kernels", None), (Plan, "is_kept", None)]
    )


def native_record_again(inner: Backend) -> Callable[..., Any] | None:
    """Return what does the same as `PendingCalls.record_again`, or None."""
    return inner.machine_code("recording", (*_RECORDING, PendingCalls.record_again), _SLOTS)


def native_key(inner: Backend) -> Callable[..., Any] | None:
    """Return what does the same as `key_of` of a passage, or None."""
    return inner.machine_code("recording", (*_RECORDING, key_of), _SLOTS, "key")


#: What the code knows, in the order of %Recording; behind it comes the Python that does the same.
_RECORDING = (None, False, list, Lazy, Constant, External, bool_, listeners)
_SLOTS: list[tuple[type, str, object]] = [
    *[(Lazy, name, None) for name in ("type", "place", "value")],
    (Constant, "type", None),
    (TensorType, "dtype", _new(TensorType)),
    *[(PendingCalls, name, None)
      for name in ("at", "is_done", "is_running", "places", "inputs", "numbers", "results")],
    *[(Call, name, None) for name in ("next", "is_checked", "early", "type", "results", "types")],
]  # fmt: skip
