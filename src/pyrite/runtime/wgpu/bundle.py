"""Launches that are made again and again: checked once, bound once for each set of buffers.

A program that repeats itself meets the same few sets: see bundle_memory.py.  With one that is known
its launches are commands that exist already, but for numbers that vary.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pyrite.runtime.protocol import BundledLaunch, Fixed
from pyrite.runtime.wgpu.binding import BindGroups
from pyrite.runtime.wgpu.device_loss import Life
from pyrite.runtime.wgpu.executable import Executable, Variant
from pyrite.runtime.wgpu.memory import Buffer
from pyrite.runtime.wgpu.queue import SUBMIT_AFTER, Queue
from pyrite.runtime.wgpu.submission import Call, Calls, Immediates, Launch, Launches
from pyrite.runtime.wgpu.varying_numbers import LaunchNumbers, VaryingNumbers

#: Appends a launch of any kind: what a runtime does for one alone.
LaunchOne = Callable[[Executable, list[Buffer], Immediates | None, Sequence[int], bool], None]
#: The serial of a buffer's storage, its offset and its bytes.
Key = tuple[int, int, int]
#: The counters of a runtime.
Counts = dict[str, int]

#: Sets of buffers that a bundle stays bound to, the least recently used out first.
MOST_BOUND: Final = 8
#: Bundles of fewer launches are bound anew each time: an op that is called in many places meets
#: other buffers in each of them.
LEAST_LAUNCHES: Final = 8


class Parts(NamedTuple):
    """The parts of a runtime that a bundle works with."""

    life: Life
    queue: Queue
    groups: BindGroups
    counts: Counts


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A launch: where its buffers are among the operands, and its numbers, fixed or there too.

    ``packed`` are the numbers where all of them are fixed, ``variant`` and ``counts`` what runs on
    how many workgroups if each of its buffers is of a storage of its own, and small enough; one
    that stands for two of its parameters is not.
    """

    executable: Executable
    buffers: tuple[int, ...]
    numbers: tuple[int | Fixed, ...]
    grid: tuple[int, ...]
    is_folded: bool
    packed: Immediates | None
    variant: Variant
    counts: tuple[int, int, int]

    def arguments(self, operands: Sequence[Any]) -> Immediates | None:
        """Return the numbers of a run as the kernel reads them."""
        if self.packed is not None or not self.numbers:
            return self.packed
        numbers = [operands[n] if n.__class__ is int else n.value for n in self.numbers]  # type: ignore[union-attr]
        return self.executable.packed(numbers, self.grid, is_folded=self.is_folded)


@dataclass(frozen=True, slots=True)
class _Piece:
    """So many of the launches as are submitted together.

    ``buffers`` are what they touch among the operands, ``results`` what they leave wrong if they do
    not run, ``varying`` the places of launches whose numbers vary, ``numbers`` where these lie,
    ``names`` their kernels.
    """

    steps: tuple[_Prepared, ...]
    buffers: tuple[int, ...]
    results: tuple[int, ...]
    varying: tuple[int, ...]
    numbers: VaryingNumbers
    names: tuple[str, ...]


class WgpuBundle:
    """Launches of one device, whose bindings fit their kernels."""

    __slots__ = (
        "__weakref__",
        "_bound",
        "_buffers",
        "_largest",
        "_launch",
        "_parts",
        "_pieces",
        "_stays_bound",
        "_takes_uniforms",
    )

    def __init__(self, parts: Parts, launch: LaunchOne, steps: Sequence[BundledLaunch]) -> None:
        self._parts = parts
        self._launch = launch
        prepared = [_prepared(step) for step in steps if 0 not in step.grid]
        starts = range(0, len(prepared), SUBMIT_AFTER)
        self._pieces = tuple([_piece(prepared[n : n + SUBMIT_AFTER]) for n in starts])
        self._buffers = tuple(dict.fromkeys(b for step in prepared for b in step.buffers))
        self._takes_uniforms = any([step.variant.layout.uniform_size for step in prepared])
        self._largest = parts.life.device.max_binding
        self._stays_bound = len(prepared) >= LEAST_LAUNCHES and not self._takes_uniforms
        #: By the keys of the buffers the calls of each piece.
        self._bound: OrderedDict[tuple[Any, ...], list[Calls]] = OrderedDict()
        parts.groups.holders.add(self)

    def launch(self, operands: Sequence[Any]) -> None:
        """Append them; see `pyrite.runtime.protocol.Bundle`."""
        life, queue, _, counts = self._parts
        with life.lock:
            life.check()
            if not self._stays_bound:
                self._launch_each(operands)
                return
            buffers: list[Buffer] = [operands[n] for n in self._buffers]
            # Each launch that touches an application's buffer is judged alone.
            if any([b.contents.storage.is_lent for b in buffers]):
                self._launch_each(operands)
                return
            for piece, calls in zip(self._pieces, self._calls(buffers, operands), strict=True):
                if piece.varying and calls.rows is not None:
                    calls = calls.with_block(piece.numbers, piece.numbers.block(operands))
                elif piece.varying:
                    numbers = {n: piece.steps[n].arguments(operands) for n in piece.varying}
                    calls = calls.with_numbers(numbers)
                counts["launches"] += len(calls)
                queue.append(
                    Launches(
                        calls,
                        [operands[n].contents for n in piece.buffers],
                        [operands[n].contents for n in piece.results],
                        piece.names,
                    )
                )

    def forget(self) -> None:
        """Drop what holds bind groups."""
        self._bound.clear()

    def _calls(self, buffers: Sequence[Buffer], operands: Sequence[Any]) -> list[Calls]:
        keys = tuple([buffer.key for buffer in buffers])
        found = self._bound.get(keys)
        if found is not None:
            self._bound.move_to_end(keys)
            for calls in found:
                calls.tabulate()
            return found
        is_plain = self._is_plain(keys)
        found = [
            Calls([self._call(step, operands, is_plain=is_plain) for step in piece.steps])
            for piece in self._pieces
        ]
        self._bound[keys] = found
        if len(self._bound) > MOST_BOUND:
            self._bound.popitem(last=False)
        return found

    def _call(self, step: _Prepared, operands: Sequence[Any], *, is_plain: bool) -> Call:
        variant, name = step.variant, step.executable.name
        bound: Sequence[Buffer] = [operands[n] for n in step.buffers]
        if not is_plain or len(set(step.buffers)) < len(step.buffers):
            variant, bound = step.executable.fit(bound, is_folded=step.is_folded)
        group = self._parts.groups.get(variant.layout, bound, None, name)
        return variant.pipeline, group, step.packed, step.counts

    def _is_plain(self, keys: Sequence[Key]) -> bool:
        """Whether no storage is bound twice, and none in parts: then variants are known."""
        are_apart = len({key[0] for key in keys}) == len(keys)
        return are_apart and all([key[2] <= self._largest for key in keys])

    def _launch_each(self, operands: Sequence[Any]) -> None:
        """Append the launches one by one."""
        _, queue, groups, counts = self._parts
        for piece in self._pieces:
            for step in piece.steps:
                buffers: list[Buffer] = [operands[n] for n in step.buffers]
                if self._takes_uniforms:
                    self._launch_one(step, operands)
                    continue
                keys = tuple([buffer.key for buffer in buffers])
                variant, name = step.variant, step.executable.name
                # One that is there was made for such buffers as this layout may bind.
                group = groups.known((variant.layout, keys))
                if group is None:
                    if not self._is_plain(keys):
                        self._launch_one(step, operands)
                        continue
                    group = groups.get(variant.layout, buffers, None, name)
                counts["launches"] += 1
                queue.append(
                    Launch(
                        name, variant.pipeline, group, step.counts, step.arguments(operands), None,
                        [buffer.contents for buffer in buffers], step.executable.results,
                    )
                )  # fmt: skip

    def _launch_one(self, step: _Prepared, operands: Sequence[Any]) -> None:
        self._launch(
            step.executable, [operands[i] for i in step.buffers], step.arguments(operands),
            step.grid, step.is_folded,
        )  # fmt: skip


def _prepared(step: BundledLaunch) -> _Prepared:
    executable: Executable = step.executable
    parameters = list(zip(executable.signature.parameters, step.bindings, strict=True))
    buffers = [b for dtype, b in parameters if dtype is None]
    assert not any(isinstance(b, Fixed) for b in buffers), "a buffer is an operand"
    numbers = tuple(b for dtype, b in parameters if dtype is not None)
    fixed = [n.value for n in numbers if isinstance(n, Fixed)]
    is_folded = executable.check_grid(step.grid)
    packed = None
    if len(fixed) == len(numbers):
        packed = executable.packed(fixed, step.grid, is_folded=is_folded)
    return _Prepared(
        executable,
        tuple(b for b in buffers if not isinstance(b, Fixed)),
        numbers,
        step.grid,
        is_folded,
        packed,
        executable.variant(all_writable=False, is_folded=is_folded),
        executable.counts(step.grid, is_folded=is_folded),
    )


def _piece(steps: Sequence[_Prepared]) -> _Piece:
    pairs = [
        (n, is_result)
        for step in steps
        for n, is_result in zip(step.buffers, step.executable.results, strict=True)
    ]
    varying = [n for n, step in enumerate(steps) if step.numbers and step.packed is None]
    return _Piece(
        tuple(steps),
        tuple(dict.fromkeys(n for n, _ in pairs)),
        tuple(dict.fromkeys(n for n, is_result in pairs if is_result)),
        tuple(varying),
        VaryingNumbers([_numbers_of(n, steps[n]) for n in varying]),
        tuple(step.executable.name for step in steps),
    )


def _numbers_of(place: int, step: _Prepared) -> LaunchNumbers:
    executable = step.executable
    grid = [Fixed(step.grid[0])] if step.is_folded else []
    letters = executable.signature.letters(step.is_folded)
    return LaunchNumbers(place, executable.name, letters, [*step.numbers, *grid])
