"""Where the time of a call of ``x + y`` goes, in µs, and the least that it could take in Python.

Each line is one piece, called alone.  ``in Python`` is what ``execute`` does where machine code
cannot, and those below are parts of it.  ``floor`` does what must be done and nothing else: a
method, one look-up, a buffer from the pool, the words of the launch into the stream, and two
objects; no check, no number, no view, no other device.

Times are processor times, divided by that of a small piece of Python beside which each round ran
and multiplied by what that takes on a quiet machine: so a busy one hardly shows.

    python benchmarks/call_account.py
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable
from struct import Struct
from time import thread_time
from typing import Any

import pyrite
from pyrite import Tensor
from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.native_call import NativeReplay
from pyrite.backend.cube.recording import Recording, operands_of
from pyrite.backend.cube.recording_key import key_of_plan
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.backend.device import Device
from pyrite.op.binding import call_two
from pyrite.runtime.cpu.memory import Allocator

ROUNDS, CALLS = 60, 200
#: What `yardstick` takes on a quiet 2 GHz server, in µs.
QUIET = 0.205

Call = Callable[[], Any]


class Three:
    """An object of three fields."""

    __slots__ = ("a", "b", "c")

    def __init__(self, a: int, b: int, c: int) -> None:
        self.a, self.b, self.c = a, b, c


def yardstick() -> float:
    """Return what a call that makes an object takes now, in µs."""
    return _seconds(lambda: Three(1, 2, 3)) * 1e6


def main() -> None:
    """Print the account."""
    calls = pieces()
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            found[name].append(microseconds(call))
            pyrite.device("cpu").synchronize()
    for name, times in found.items():
        print(f"{name:24} {statistics.median(times):6.2f}")


def pieces() -> dict[str, Call]:
    """The pieces of a call, by name."""
    backend: Any = pyrite.device("cpu").backend.root
    device = Device(backend)
    assert isinstance(backend, CubeBackend)
    x, y = (pyrite.ones((4, 8), device=device) for _ in range(2))
    op: Any = Tensor.add.op  # type: ignore[attr-defined]
    for _ in range(2):
        x + y
    plan = op.plans[(), x._type.key, y._type.key]
    handles: list[Any] = [x._handle, y._handle]
    replay = backend._planned.get(key_of_plan(plan, handles))
    recording = replay.replay if isinstance(replay, NativeReplay) else replay
    assert isinstance(recording, Recording)
    assert recording.bundle is not None
    operands, _ = operands_of(handles)
    inputs = [*operands]
    operands += recording.memory.buffers()
    bundle, pair, launcher = recording.bundle, (x, y), backend.launcher
    return {
        "x + y": lambda: x + y,
        "call_two": lambda: call_two(op, pair, {}, ()),
        "execute": lambda: backend.execute(op, handles, plan),
        "in Python": lambda: CubeBackend.execute(backend, op, handles, plan),
        "  key": lambda: key_of_plan(plan, handles),
        "  run of the recording": lambda: recording.run(launcher, handles, [*inputs], None),
        "    a buffer": recording.memory.buffers,
        "    words to the stream": lambda: bundle.launch(operands),
        "floor": floor(backend, x, y),
    }


def floor(backend: Any, x: Tensor, y: Tensor) -> Call:
    """Return the least that makes a sum of two tensors, without any launch that is handed over."""
    allocator: Allocator = backend.runtime._allocator
    of, new, added = allocator.size_class(128), object.__new__, list[bytes]()
    head, pack, kind = bytes(64), Struct("=qqq").pack, x._type
    known = {(kind.key, kind.key): (kind, x._handle.strides)}

    class Sum:
        def add(self, x: Tensor, y: Tensor) -> Tensor:
            type, strides = known[x._type.key, y._type.key]
            a, b = x._handle.buffer, y._handle.buffer
            out = allocator.lend(of, 128)
            added.append(head + pack(a.address, b.address, out.address))
            handle = new(CubeTensor)
            handle.buffer, handle.type, handle.strides = out, type, strides
            handle.offset, handle.doubt, handle.layout = 0, None, 0
            made = new(Tensor)
            made._handle, made._type, made._backend = handle, type, x._backend
            added.clear()
            return made

    sums = Sum()
    return lambda: sums.add(x, y)


def microseconds(call: Call) -> float:
    """Return the time of a call, as of a quiet machine."""
    while True:
        before = yardstick()
        time = _seconds(call) * 1e6
        after = yardstick()
        if max(before, after) < 1.25 * min(before, after):
            return time / (before + after) * 2 * QUIET


def _seconds(call: Call) -> float:
    gc.disable()
    start = thread_time()
    for _ in range(CALLS):
        call()
    time = thread_time() - start
    gc.enable()
    return time / CALLS


if __name__ == "__main__":
    main()
