"""Launches that are made again and again: checked once, bound once for each set of buffers.

A program that repeats itself meets the same few sets: see bundle_memory.py.  With one that is known
its launches are commands that exist already, but for numbers that vary.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pyrite.columns import chooser
from pyrite.runtime.protocol import BundledLaunch
from pyrite.runtime.wgpu.binding import BindGroups
from pyrite.runtime.wgpu.device_loss import Life
from pyrite.runtime.wgpu.executable import Executable
from pyrite.runtime.wgpu.launches import BoundLaunch, Call, Calls, Launches
from pyrite.runtime.wgpu.memory import CONTENTS, KEYS, Buffer, Contents, Storage
from pyrite.runtime.wgpu.native_calls import address_of
from pyrite.runtime.wgpu.prepared_launch import Bound, Key, PreparedLaunch, prepared, stepped
from pyrite.runtime.wgpu.queue import Queue
from pyrite.runtime.wgpu.varying_numbers import VaryingNumbers

#: Appends a launch of any kind: what a runtime does for one alone.
LaunchOne = Callable[[Executable, list[Buffer], bytes | None, Sequence[int], bool], None]
#: Takes some of the operands.
Choose = Callable[[Sequence[Any]], Sequence[Any]]
#: The counters of a runtime.
Counts = dict[str, int]

#: Sets of buffers that a bundle stays bound to, the least recently used out first.
MOST_BOUND: Final = 8
#: Groups that a launch of a bundle has at hand: in most programs results take turns among a few.
MOST_GROUPS: Final = 64
#: Bundles of fewer launches are bound anew each time: an op that is called in many places meets
#: other buffers in each of them.
LEAST_LAUNCHES: Final = 8


_new = object.__new__


class Parts(NamedTuple):
    """The parts of a runtime that a bundle works with."""

    life: Life
    queue: Queue
    groups: BindGroups
    counts: Counts


@dataclass(frozen=True, slots=True)
class _Piece:
    """So many of the launches as are submitted together.

    ``choose_buffers`` takes what they touch out of the operands, ``choose_results`` what they leave
    wrong if they do not run; ``varying`` are the places of launches whose numbers vary,
    ``numbers`` where these lie, ``names`` their kernels.
    """

    steps: tuple[PreparedLaunch, ...]
    choose_buffers: Choose
    choose_results: Choose
    varying: tuple[int, ...]
    numbers: VaryingNumbers
    names: tuple[str, ...]


class WgpuBundle:
    """Launches of one device, whose bindings fit their kernels."""

    __slots__ = (
        "__weakref__",
        "_bound",
        "_choose_buffers",
        "_largest",
        "_launch",
        "_parts",
        "_pieces",
        "_stays_bound",
        "_steps",
        "_takes_uniforms",
    )

    def __init__(self, parts: Parts, launch: LaunchOne, steps: Sequence[BundledLaunch]) -> None:
        self._parts = parts
        self._launch = launch
        made: list[PreparedLaunch] = []
        for step in steps:
            if 0 not in step.grid:
                made.append(stepped(step, made[-1]) if step.stepped and made else prepared(step))
        pieces = parts.queue.pace.pieces(len(made))
        self._steps = tuple(made)
        self._pieces = tuple([_piece([made[n] for n in piece]) for piece in pieces])
        self._choose_buffers = chooser([*dict.fromkeys(b for step in made for b in step.buffers)])
        self._takes_uniforms = any([step.variant.layout.uniform_size for step in made])
        self._largest = parts.life.device.max_binding
        self._stays_bound = len(made) >= LEAST_LAUNCHES and not self._takes_uniforms
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
            queue.collect_done()
            buffers: Sequence[Buffer] = self._choose_buffers(operands)
            # Each launch that touches an application's buffer is judged alone.
            if Storage.is_any_lent and any([b.contents.storage.is_lent for b in buffers]):
                self._launch_each(operands)
                return
            for piece, calls in zip(self._pieces, self._calls(buffers, operands), strict=True):
                if piece.varying and calls.rows is not None:
                    number = queue.pending.number
                    calls = calls.filled(piece.numbers, operands, number, queue.encoded)
                elif piece.varying:
                    numbers = {n: piece.steps[n].arguments(operands) for n in piece.varying}
                    calls = calls.with_numbers(numbers)
                counts["launches"] += len(calls)
                queue.append_many(
                    Launches(
                        calls,
                        CONTENTS.read(piece.choose_buffers(operands)),
                        CONTENTS.read(piece.choose_results(operands)),
                        piece.names,
                    )
                )

    @property
    def single(self) -> tuple[PreparedLaunch, ...]:
        """The launches that are bound one by one, by the keys of their buffers; else none."""
        return () if self._stays_bound or self._takes_uniforms else self._steps

    def forget(self) -> None:
        """Drop what holds bind groups."""
        self._bound.clear()
        for step in self._steps:
            step.bound.clear()

    def _calls(self, buffers: Sequence[Buffer], operands: Sequence[Any]) -> list[Calls]:
        keys = tuple(KEYS.read(buffers))
        found = self._bound.get(keys)
        if found is not None:
            self._bound.move_to_end(keys)
            for calls in found:
                calls.tabulate()
            return found
        is_plain = self._is_plain(keys)
        found = [
            Calls(self._calls_of(piece.steps, operands, is_plain=is_plain))
            for piece in self._pieces
        ]
        self._bound[keys] = found
        if len(self._bound) > MOST_BOUND:
            self._bound.popitem(last=False)
        return found

    def _calls_of(
        self, steps: Sequence[PreparedLaunch], operands: Sequence[Any], *, is_plain: bool
    ) -> list[Call]:
        found: list[Call] = []
        before = None
        for step in steps:
            # Of launches that are stepped the buffers are those of the first.
            if (
                before is not None
                and step.buffers is before.buffers
                and step.variant is before.variant
            ):
                pipeline, group, _, _ = found[-1]
                found.append((pipeline, group, step.packed, step.counts))
            else:
                found.append(self._call(step, operands, is_plain=is_plain))
            before = step
        return found

    def _call(self, step: PreparedLaunch, operands: Sequence[Any], *, is_plain: bool) -> Call:
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
        # Written for speed: this is run for every op.
        _, queue, groups, counts = self._parts
        for step in self._steps:
            keys: list[Key] = []
            touched: list[Contents] = []
            for n in step.buffers:
                buffer = operands[n]
                keys.append(buffer.key)
                touched.append(buffer.contents)
            key = tuple(keys)
            found = step.bound.get(key)
            if found is not None:
                groups.hits += 1
            else:
                found = self._bind(step, key, operands)
                if found is None:
                    self._launch_one(step, operands)
                    continue
            group, row, values = found
            if values is not None:
                row = step.row(values, operands)
            counts["launches"] += 1
            made = _new(BoundLaunch)  # as by its name, in half the time
            made.of, made.group, made.row, made.touched = step, group, row, touched
            queue.append(made)

    def _bind(
        self, step: PreparedLaunch, keys: tuple[Key, ...], operands: Sequence[Any]
    ) -> Bound | None:
        """Return what a launch is on such buffers; None for one that is made ready each time."""
        if self._takes_uniforms:
            return None
        variant, groups = step.variant, self._parts.groups
        # One that is there was made for such buffers as this layout may bind.
        group = groups.known((variant.layout, keys))
        if group is None:
            if not self._is_plain(keys):
                return None
            bound = [operands[n] for n in step.buffers]
            group = groups.get(variant.layout, bound, None, step.executable.name)
        addresses = (address_of(variant.pipeline), address_of(group))
        is_fixed = step.packed is not None or not step.numbers
        if len(step.bound) >= MOST_GROUPS:
            step.bound.clear()
        values = None if is_fixed else step.values_of(addresses)
        row = step.fixed_row(addresses) if values is None else step.form.pack(*values)
        found = step.bound[keys] = (group, row, values)
        return found

    def _launch_one(self, step: PreparedLaunch, operands: Sequence[Any]) -> None:
        self._launch(
            step.executable, [operands[i] for i in step.buffers], step.arguments(operands),
            step.grid, step.is_folded,
        )  # fmt: skip


def _piece(steps: Sequence[PreparedLaunch]) -> _Piece:
    pairs = [
        (n, is_result)
        for step in steps
        for n, is_result in zip(step.buffers, step.executable.results, strict=True)
    ]
    varying = [n for n, step in enumerate(steps) if step.numbers and step.packed is None]
    return _Piece(
        tuple(steps),
        chooser([*dict.fromkeys(n for n, _ in pairs)]),
        chooser([*dict.fromkeys(n for n, is_result in pairs if is_result)]),
        tuple(varying),
        VaryingNumbers([steps[n].launch_numbers(n) for n in varying]),
        tuple(step.executable.name for step in steps),
    )
