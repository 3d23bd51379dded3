"""Calls on `cpu` that machine code makes, from the look-up of what was recorded to the result.

`NativeReplay` is a replay with what that code has to know of it; `execute_of` is the code, with
what it has to know of a backend.  It does what `CubeBackend.execute` does, and calls that for all
that is not as in most calls, so that nothing but the time depends on it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Final

from pyrite.backend.cube.fault import AnyDoubt
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.recording import Recording
from pyrite.backend.cube.relayout import Relayout
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.backend.explanation import listeners
from pyrite.op import Constant
from pyrite.recent import Recent
from pyrite.runtime.cpu.bundle import Commands, CpuBundle
from pyrite.runtime.cpu.bundle_memory import LentBuffers
from pyrite.runtime.cpu.executor import Executor
from pyrite.runtime.cpu.memory import Block, CpuBuffer, CpuView, Lease
from pyrite.runtime.cpu.native_call import (
    CLASS_FIELD,
    MOST_INPUTS,
    MOST_VALUES,
    address,
    functions,
    native_function,
    places_of,
    word,
)
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.runtime.cpu.stream import BEHIND, MOST
from pyrite.types import DType, float32, float64, int32, int64, uint32

#: What a launch's numbers may be, by their codes of `struct`, and how `call.ll` knows them.
KINDS: Final = {
    float32: ("f", 0), float64: ("d", 1), int32: ("i", 2), int64: ("q", 3), uint32: ("I", 4),
}  # fmt: skip

_new: Final = object.__new__


#: The state of a replay that has run for such inputs, and what it has addresses of, or None.
State = tuple[bytes, tuple[object, ...]] | None
StateOf = Callable[[Recording | Relayout, Sequence[Any]], State]


class NativeReplay:
    """A recording of one result, or a view, with its state: the bytes of a `call.ll`'s %State."""

    __slots__ = ("_held", "_is_tried", "_state_of", "replay", "state")

    def __init__(self, replay: Recording | Relayout, state_of: StateOf | None = None) -> None:
        self.replay, self._state_of = replay, state_of or _state_of
        #: None until it has run once, and where machine code cannot run it.
        self.state: bytes | None = None
        #: What there are addresses of in the state.
        self._held: tuple[object, ...] = ()
        self._is_tried = False

    def run(
        self, launcher: Launcher, inputs: Sequence[Any], operands: list[Any],
        doubt: AnyDoubt | None,
    ) -> Sequence[CubeTensor]:  # fmt: skip
        """Do what `Recording.run` does."""
        made = self.replay.run(launcher, inputs, operands, doubt)
        if not self._is_tried and is_settled(self.replay):
            self._is_tried = True
            found = self._state_of(self.replay, inputs)
            if found is not None:
                # Before the state, which has their addresses.
                self._held = found[1]
                self.state = found[0]
        return made


def may_be_native(replay: object) -> bool:
    """Whether machine code may run a replay, as far as that is known before its first run."""
    if isinstance(replay, Relayout):
        return True
    return (
        isinstance(replay, Recording)
        and replay.only is not None
        and not replay.large
        and isinstance(replay.bundle, CpuBundle)
        and isinstance(replay.memory, LentBuffers)
        and replay.tail is None
    )


def is_settled(replay: Recording | Relayout) -> bool:
    """Whether what a replay does is written: its code may be compiled elsewhere as yet."""
    bundle = replay.bundle if isinstance(replay, Recording) else None
    return not isinstance(bundle, CpuBundle) or bundle.is_settled


def view_state(replay: Relayout, numbers: int) -> State:
    """Return the state of a view, of which so many numbers before those of the result are 0."""
    view = (replay.type, replay.strides, replay.offset, replay.layout)
    return b"".join([word(0)] * numbers + [address(x) for x in view]), view


def _state_of(replay: Recording | Relayout, inputs: Sequence[Any]) -> State:
    """Return the state of a replay on `cpu`."""
    if isinstance(replay, Relayout):
        return view_state(replay, 7)
    assert replay.only is not None
    assert isinstance(replay.memory, LentBuffers)
    assert isinstance(replay.bundle, CpuBundle)
    commands, tensors = replay.bundle.commands, sum(type(x) is CubeTensor for x in inputs)
    first = tensors + len(replay.sizes)
    codes = _codes(replay, first)
    at, *result = replay.only
    if (
        commands is None or codes is None or not commands.words or at >= first
        or len(inputs) > MOST_INPUTS or first + len(codes) > MOST_VALUES
        or any(codes.get(of, "q") != code[0] for _, of, code in commands.given)
        or any(of >= first + len(codes) for _, of, _ in commands.given)
    ):  # fmt: skip
        return None
    return _packed(replay, commands, at, result)


def _codes(replay: Recording, first: int) -> dict[int, str] | None:
    """Return the codes of the operands that are numbers; None where one is of another dtype."""
    if any(dtype not in KINDS for _, dtype in replay.arguments):
        return None
    return {first + n: KINDS[dtype][0] for n, (_, dtype) in enumerate(replay.arguments)}


def _packed(
    replay: Recording, commands: Commands, at: int, result: Sequence[object]
) -> tuple[bytes, tuple[object, ...]]:
    assert isinstance(replay.memory, LentBuffers)
    words = ctypes.create_string_buffer(commands.words, len(commands.words))
    counts = (len(replay.sizes), len(replay.arguments), len(commands.given), at)
    parts = [
        *map(word, counts),
        word(ctypes.addressof(words)), word(len(commands.words)), word(commands.nanoseconds),
        *map(address, result),
    ]  # fmt: skip
    held: list[object] = [replay, words, *result]
    for of, nbytes in replay.memory.wanted:
        lent = (of.ended, of.ended.pop, of.end, nbytes, of)
        held += lent
        parts += map(address, lent)
    for position, dtype in replay.arguments:
        parts += (word(position), word(_kind(dtype)))
    for place, operand, _ in commands.given:
        parts += (word(place), word(operand))
    return b"".join(parts), tuple(held)


def _kind(dtype: DType) -> int:
    return KINDS[dtype][1]


def execute_of(
    runtime: CpuRuntime, planned: Recent[Any, Any], slow: Callable[..., Any]
) -> Callable[..., Any] | None:
    """Return what executes ops by machine code, or else by ``slow``; None where that cannot be."""
    lend = runtime.lend
    places = _places()
    if places is None or lend is None:
        return None
    stream = runtime.stream
    executor = stream.executor
    classes = (CubeTensor, Constant, NativeReplay, CpuBuffer, CpuView, Lease)
    first = (None, list, float, int, *classes, listeners, planned, slow)
    others = (stream.added, stream.hand_over, lend, executor)
    numbers = (executor.programs_at, float(stream.together), BEHIND, MOST)
    parts = [functions(), *map(address, first), word(stream.totals_at), *map(address, others)]
    fields = b"".join([*parts, *map(word, (*numbers, *places))])
    held = (*first, *others, stream)
    return native_function(runtime.compiler, "call", fields, held, CLASS_FIELD)


def _places() -> list[int] | None:
    """Return where objects have their class and their slots, in the order of %Calls."""
    buffer = CpuBuffer.__new__(CpuBuffer)
    slots: list[tuple[type, str, object]] = [
        *[(CubeTensor, s, None)
          for s in ("buffer", "type", "strides", "offset", "layout", "doubt")],
        (Constant, "value", None),
        (NativeReplay, "state", None),
        *[(CpuBuffer, s, None) for s in ("block", "address", "nbytes", "origin")],
        (CpuView, "offset", None),
        (Lease, "block", Lease(buffer)),
        (Block, "address", None),
        (Block, "lease", None),
        (Recent, "young", None),
        (Executor, "why_closed", None),
        (CpuView, "base", None),
    ]  # fmt: skip
    return places_of(slots)
