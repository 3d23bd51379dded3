"""Launches that are made again and again: checked once, bound once for each set of buffers.

A program that repeats itself meets the same few sets: see bundle_memory.py.  With one that is known
its launches are commands that exist already, but for numbers that vary.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from struct import Struct
from typing import Any, Final, NamedTuple

from pyrite.runtime.protocol import BundledLaunch, Fixed
from pyrite.runtime.wgpu.binding import BindGroups
from pyrite.runtime.wgpu.device_loss import Life
from pyrite.runtime.wgpu.executable import Executable, Variant
from pyrite.runtime.wgpu.memory import Buffer, Contents, Storage
from pyrite.runtime.wgpu.native import Pointer
from pyrite.runtime.wgpu.native_calls import HEAD, address_of
from pyrite.runtime.wgpu.queue import Queue
from pyrite.runtime.wgpu.submission import BoundLaunch, Call, Calls, Launches
from pyrite.runtime.wgpu.varying_numbers import LaunchNumbers, VaryingNumbers
from pyrite.types import Number

#: Appends a launch of any kind: what a runtime does for one alone.
LaunchOne = Callable[[Executable, list[Buffer], bytes | None, Sequence[int], bool], None]
#: The serial of a buffer's storage, its offset and its bytes.
Key = tuple[int, int, int]
#: The counters of a runtime.
Counts = dict[str, int]

#: Sets of buffers that a bundle stays bound to, the least recently used out first.
MOST_BOUND: Final = 8
#: Groups that a launch of a bundle has at hand: in most programs results take turns among a few.
MOST_GROUPS: Final = 16
#: Values of a row before the numbers.
_IN_HEAD: Final = 7
#: Bundles of fewer launches are bound anew each time: an op that is called in many places meets
#: other buffers in each of them.
LEAST_LAUNCHES: Final = 8


_new = object.__new__
_key_of = attrgetter("key")
_contents_of = attrgetter("contents")


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
    packed: bytes | None
    variant: Variant
    counts: tuple[int, int, int]
    #: What a row is if its numbers vary, and where in it which of the operands are.
    form: Struct
    varying: tuple[tuple[int, int], ...]
    #: By the keys of buffers their group, and the row of the launch: its values where numbers vary.
    bound: dict[tuple[Key, ...], tuple[Pointer, bytes | tuple[Number, ...]]]
    name: str
    pipeline: Pointer
    results: tuple[bool, ...]

    def row(self, values: Sequence[Number], operands: Sequence[Any]) -> bytes:
        """Return the row of a launch, of the values of `values_of`.

        Raises KernelError for a number that does not fit its dtype.
        """
        made = [*values]
        for at, n in self.varying:
            made[at] = operands[n]
        try:
            return self.form.pack(*made)
        except struct.error as error:
            raise self.executable.misfit(made[_IN_HEAD:], error) from None

    def values_of(self, addresses: tuple[int, int]) -> tuple[Number, ...]:
        """Return the values of a row with what is bound at these addresses, 0 where they vary."""
        numbers = [n.value if isinstance(n, Fixed) else 0 for n in self.numbers]
        if self.is_folded:
            numbers.append(self.grid[0])
        nbytes = self.executable.nbytes(is_folded=self.is_folded)
        return (*addresses, 0, *self.counts, nbytes, *numbers)

    def fixed_row(self, addresses: tuple[int, int]) -> bytes:
        """Return the row of every launch with what is bound at these addresses."""
        numbers = self.packed or b""
        head = Struct("@" + HEAD).pack(*addresses, 0, *self.counts, len(numbers))
        return head + numbers + bytes(-len(numbers) % 8)

    def arguments(self, operands: Sequence[Any]) -> bytes | None:
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
        "_steps",
        "_takes_uniforms",
    )

    def __init__(self, parts: Parts, launch: LaunchOne, steps: Sequence[BundledLaunch]) -> None:
        self._parts = parts
        self._launch = launch
        prepared: list[_Prepared] = []
        for step in steps:
            if 0 not in step.grid:
                prepared.append(
                    _stepped(step, prepared[-1]) if step.stepped and prepared else _prepared(step)
                )
        pieces = parts.queue.pace.pieces(len(prepared))
        self._steps = tuple(prepared)
        self._pieces = tuple([_piece([prepared[n] for n in piece]) for piece in pieces])
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
            queue.collect_done()
            buffers: list[Buffer] = [*map(operands.__getitem__, self._buffers)]
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
                queue.append(
                    Launches(
                        calls,
                        [*map(_contents_of, map(operands.__getitem__, piece.buffers))],
                        [*map(_contents_of, map(operands.__getitem__, piece.results))],
                        piece.names,
                    )
                )

    def forget(self) -> None:
        """Drop what holds bind groups."""
        self._bound.clear()
        for step in self._steps:
            step.bound.clear()

    def _calls(self, buffers: Sequence[Buffer], operands: Sequence[Any]) -> list[Calls]:
        keys = tuple(map(_key_of, buffers))
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
        self, steps: Sequence[_Prepared], operands: Sequence[Any], *, is_plain: bool
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
            group, given = found
            row = given if isinstance(given, bytes) else step.row(given, operands)
            counts["launches"] += 1
            made = _new(BoundLaunch)  # as by its name, in half the time
            made.of, made.group, made.row, made.touched = step, group, row, touched
            queue.append(made)

    def _bind(
        self, step: _Prepared, keys: tuple[Key, ...], operands: Sequence[Any]
    ) -> tuple[Pointer, bytes | tuple[Number, ...]] | None:
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
        row = step.fixed_row(addresses) if is_fixed else step.values_of(addresses)
        found = step.bound[keys] = (group, row)
        return found

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
    variant = executable.variant(all_writable=False, is_folded=is_folded)
    return _Prepared(
        executable,
        tuple(b for b in buffers if not isinstance(b, Fixed)),
        numbers,
        step.grid,
        is_folded,
        packed,
        variant,
        executable.counts(step.grid, is_folded=is_folded),
        Struct("@" + HEAD + executable.signature.letters(is_folded) + "0q"),
        tuple((_IN_HEAD + at, n) for at, n in enumerate(numbers) if not isinstance(n, Fixed)),
        {},
        executable.name,
        variant.pipeline,
        executable.results,
    )


def _stepped(step: BundledLaunch, before: _Prepared) -> _Prepared:
    """Return a launch that differs in fixed numbers alone from the one before it."""
    executable: Executable = before.executable
    parameters = zip(executable.signature.parameters, step.bindings, strict=True)
    numbers = tuple([b for dtype, b in parameters if dtype is not None])
    packed = None
    if before.packed is not None:
        values = [n.value for n in numbers if isinstance(n, Fixed)]
        packed = executable.packed(values, step.grid, is_folded=before.is_folded)
    return _Prepared(
        executable, before.buffers, numbers, before.grid, before.is_folded, packed, before.variant,
        before.counts, before.form, before.varying, {}, before.name, before.pipeline,
        before.results,
    )  # fmt: skip


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
