"""Calls on `wgpu` that machine code makes, from the look-up of what was recorded to the launches.

As `native_call` for `cpu`: it does what `CubeBackend.execute` does, and calls that for all that is
not as in most calls.  A call of ``x + y`` takes the thread 3.9 µs of `execute` in Python, a third
of which finds a buffer, another third binds and appends the launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any, Final

from pyrite.backend.cube.native_call import KINDS, NativeReplay, State, view_state
from pyrite.backend.cube.recording import Recording
from pyrite.backend.cube.relayout import Relayout
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.backend.explanation import listeners
from pyrite.op import Constant
from pyrite.recent import Recent
from pyrite.runtime.cpu.module import Compiler
from pyrite.runtime.cpu.native_call import (
    CLASS_FIELD,
    MOST_INPUTS,
    MOST_VALUES,
    address,
    c_function,
    functions,
    native_function,
    places_of,
    word,
)
from pyrite.runtime.wgpu.bundle import WgpuBundle
from pyrite.runtime.wgpu.bundle_memory import WgpuBundleMemory
from pyrite.runtime.wgpu.device_loss import Life
from pyrite.runtime.wgpu.launches import BoundLaunch
from pyrite.runtime.wgpu.memory import Buffer, Contents, Expiry, Lease, Storage, lends
from pyrite.runtime.wgpu.pace import Pace
from pyrite.runtime.wgpu.prepared_launch import PreparedLaunch
from pyrite.runtime.wgpu.queue import LOOK_AFTER, Queue
from pyrite.runtime.wgpu.runtime import WgpuRuntime
from pyrite.runtime.wgpu.submission import Submission

#: The most launches of a call, and the most buffers and numbers that vary of one.
_LAUNCHES: Final = 4
_OPERANDS: Final = 8
_WIDTHS: Final = {"f": 4, "i": 4, "I": 4, "d": 8, "q": 8}
#: What the device of wgpu-py has as long as it is not destroyed: see `Device.is_destroyed`.
_ALIVE: Final = ("_internal", "_poller")

_new: Final = object.__new__


def may_be_native(replay: object) -> bool:
    """Whether machine code may run a replay."""
    if isinstance(replay, Relayout):
        return True
    return (
        isinstance(replay, Recording)
        and replay.only is not None
        and not replay.large
        and replay.tail is None
        and isinstance(replay.bundle, WgpuBundle)
        and 0 < len(replay.bundle.single) <= _LAUNCHES
        and isinstance(replay.memory, WgpuBundleMemory)
        and replay.memory.sizes == replay.sizes
    )


class WgpuCalls:
    """Calls on one device by machine code of a compiler for the host."""

    def __init__(self, compiler: Compiler, runtime: WgpuRuntime) -> None:
        self._compiler, self._runtime = compiler, runtime
        lend_natively(compiler, runtime)

    def executor(
        self, planned: Recent[Any, Any], slow: Callable[..., Any]
    ) -> Callable[..., Any] | None:
        """Return what executes ops; see `execute_of`."""
        return execute_of(self._compiler, self._runtime, planned, slow)

    def replay(self, replay: Any) -> Any:
        """Return what does what a replay does, by machine code if that can be."""
        return NativeReplay(replay, self._state) if may_be_native(replay) else replay

    def _state(self, replay: Recording | Relayout, inputs: Sequence[Any]) -> State:
        """Return the bytes of `call.ll`'s %State, and what there are addresses of in them."""
        if isinstance(replay, Relayout):
            return view_state(replay, 4)
        assert replay.only is not None
        assert isinstance(replay.bundle, WgpuBundle)
        tensors = sum(type(x) is CubeTensor for x in inputs)
        first = tensors + len(replay.sizes)
        at, *result = replay.only
        codes = _codes(replay, first)
        if (
            codes is None or at >= first or len(inputs) > MOST_INPUTS
            or first + len(codes) > MOST_VALUES
        ):  # fmt: skip
            return None
        held: list[object] = [replay, *result]
        counts = (len(replay.sizes), len(replay.arguments), len(replay.bundle.single), at)
        parts = [*map(word, counts), *map(address, result)]
        for nbytes in replay.sizes:
            lent = (self._runtime.pool.free(nbytes), nbytes)
            held += lent
            parts += map(address, lent)
        for position, dtype in replay.arguments:
            parts += (word(position), word(KINDS[dtype][1]))
        for step in replay.bundle.single:
            made = _step(step, first, codes)
            if made is None:
                return None
            held += (step, step.bound)
            parts += made
        return b"".join(parts), tuple(held)


def _codes(replay: Recording, first: int) -> dict[int, str] | None:
    """Return the letters of the operands that are numbers; None where one is of another dtype."""
    if any(dtype not in KINDS for _, dtype in replay.arguments):
        return None
    return {first + n: KINDS[dtype][0] for n, (_, dtype) in enumerate(replay.arguments)}


def _step(step: PreparedLaunch, first: int, codes: dict[int, str]) -> list[bytes] | None:
    """Return the parts of a %Step; None for a launch that machine code cannot make."""
    places = step.number_places()
    if (
        max(len(step.buffers), len(places)) > _OPERANDS
        or any(n >= first for n in step.buffers)
        or any(codes.get(operand) != letter for _, operand, letter in places)
    ):
        return None
    spare = [0] * (_OPERANDS - len(step.buffers))
    words = [
        number for byte, operand, letter in places for number in (byte, operand, _WIDTHS[letter])
    ]
    spare_words = [0] * (3 * _OPERANDS - len(words))
    return [
        address(step), address(step.bound), word(len(step.buffers)),
        *map(word, [*step.buffers, *spare]), word(len(places)), *map(word, [*words, *spare_words]),
    ]  # fmt: skip


def execute_of(
    compiler: Compiler, runtime: WgpuRuntime, planned: Recent[Any, Any], slow: Callable[..., Any]
) -> Callable[..., Any] | None:
    """Return what executes ops by machine code, or else by ``slow``; None where that cannot be."""
    return _function(compiler, runtime, planned, slow, "execute")


def lend_natively(compiler: Compiler, runtime: WgpuRuntime) -> None:
    """Have results of programs lent by machine code, if that can be."""
    pool = runtime.pool
    made = _function(compiler, runtime, None, pool.allocate_one_again, "again")
    if made is not None:
        pool.allocate_again = made


def _function(
    compiler: Compiler, runtime: WgpuRuntime, planned: Recent[Any, Any] | None,
    slow: Callable[..., Any], name: str,
) -> Callable[..., Any] | None:  # fmt: skip
    """Return a function of `call.ll`, or None."""
    places = _places()
    if places is None or type(runtime) is not WgpuRuntime:
        return None
    life, queue, _, _ = runtime.parts
    pool, lock = runtime.pool, life.lock
    classes = (CubeTensor, Constant, NativeReplay, Buffer, Contents, Lease)
    first = (
        None, list, float, int, *classes, listeners, planned, slow, Expiry, BoundLaunch, heappop,
        heappush, lock.acquire, lock.release, queue, queue.go_on, life,
    )  # fmt: skip
    ended = pool.ended
    more = (
        True, False, 0, pool.leases, ended, ended.popleft, ended.append, queue.pace,
        life.device.gpu, *_ALIVE, lends,
    )  # fmt: skip
    numbers = (pool.totals.buffer_info()[0], runtime.made_natively.buffer_info()[0])
    called = ("PyDict_DelItem", "PyTuple_GetItem", "PyLong_FromLongLong", "PyDict_SetItem")
    fields = [
        functions(), *map(address, first), *map(word, places), *map(address, more),
        *map(word, numbers), *map(c_function, called), word(LOOK_AFTER),
    ]  # fmt: skip
    held = (*first, *more, pool, runtime.made_natively)
    return native_function(compiler, "../wgpu/call", b"".join(fields), held, CLASS_FIELD, name)


def _places() -> list[int] | None:
    """Return where objects have their class and their slots, in the order of %Calls."""
    lease = _new(Lease)
    slots: list[tuple[type, str, object]] = [
        *[(CubeTensor, s, None)
          for s in ("buffer", "type", "strides", "offset", "layout", "doubt")],
        (Constant, "value", None),
        (NativeReplay, "state", None),
        *[(Buffer, s, None) for s in ("lease", "contents", "offset", "nbytes", "key")],
        *[(Lease, s, None) for s in ("contents", "nbytes", "origin")],
        (Recent, "young", None),
        *[(Contents, s, None) for s in ("storage", "error", "gone")],
        (Expiry, "storage", Expiry(lease)),
        *[(Storage, s, None)
          for s in ("serial", "capacity", "is_free", "is_listed", "last_use", "home", "whole")],
        (Queue, "pending", None),
        *[(Submission, s, None) for s in ("commands", "size", "number")],
        *[(BoundLaunch, s, None) for s in ("of", "group", "row", "touched")],
        (Life, "failure", None),
        (Pace, "due", None),
    ]  # fmt: skip
    return places_of(slots)
