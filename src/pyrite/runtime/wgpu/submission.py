"""What waits to be submitted: commands, and how they become one command buffer.

Commands are kept as objects until the flush and encoded then, all at once.  That costs 0.2 µs more
for each than to encode at once, and buys that one bad command can be told from the good ones: they
run, and only what the bad one was to write is poisoned.

Dispatches share one compute pass; a copy between them ends it, and the next begins another.  So
uploads into storages that no earlier command of the submission touches go before all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from struct import Struct
from typing import Any, Final, Protocol

import numpy as np

from pyrite.errors import PyriteError
from pyrite.runtime.wgpu.adapter import Device
from pyrite.runtime.wgpu.memory import Buffer, Contents
from pyrite.runtime.wgpu.native import NativeError, Pointer, captured, ffi, lib
from pyrite.runtime.wgpu.native_calls import HEAD, ROW, Table, address_of, later, loop
from pyrite.runtime.wgpu.timestamps import Timestamps
from pyrite.runtime.wgpu.varying_numbers import VaryingNumbers, Words, words_of
from pyrite.types import Array

#: Fewer launches, one after the other, take longer by native code.
LEAST_NATIVE: Final = 3

#: Tables of the same runs with numbers of their own that are kept: a small program's are so many in
#: one submission.
MOST_FILLED: Final = 8

#: Bytes of three counts of workgroups.
GRID_BYTES: Final = 12


class Result(Protocol):
    """Where a command writes; ``error`` is why that is not to be trusted."""

    error: PyriteError | None


class Command(Protocol):
    """So many things for the device to do, one or more; ``name`` is for messages.

    ``touched`` are what it reads or writes.
    """

    @property
    def name(self) -> str: ...
    @property
    def count(self) -> int: ...
    @property
    def touched(self) -> Sequence[Contents]: ...
    def written(self) -> Sequence[Result]: ...  # wrong if it does not run
    def encode(self, encoder: Encoder) -> None: ...


class Launch:
    """One run of a pipeline.  ``numbers`` are as the kernel reads them."""

    __slots__ = (
        "dynamic_offset", "grid", "group", "name", "numbers", "pipeline", "results", "touched",
    )  # fmt: skip

    count = 1

    def __init__(
        self,
        name: str,
        pipeline: Pointer,
        group: Pointer,
        grid: tuple[int, int, int],
        numbers: bytes | None,
        dynamic_offset: int | None,
        touched: list[Contents],
        results: tuple[bool, ...],
    ) -> None:
        self.name = name
        self.pipeline = pipeline
        self.group = group
        self.grid = grid
        self.numbers = numbers
        self.dynamic_offset = dynamic_offset
        self.touched = touched
        self.results = results

    def written(self) -> Sequence[Contents]:
        """Return what it computes: what is in an error word is good without it."""
        return [c for c, is_one in zip(self.touched, self.results, strict=True) if is_one]

    def encode(self, encoder: Encoder) -> None:
        """Append it to the encoder."""
        lib.wgpuComputePassEncoderDispatchWorkgroups(self.bind(encoder), *self.grid)

    def bind(self, encoder: Encoder) -> Pointer:
        """Return the pass in which it runs next."""
        compute_pass = encoder.compute_pass(self.name)
        if encoder.pipeline is not self.pipeline:
            encoder.pipeline = self.pipeline
            lib.wgpuComputePassEncoderSetPipeline(compute_pass, self.pipeline)
        if self.dynamic_offset is None:
            lib.wgpuComputePassEncoderSetBindGroup(compute_pass, 0, self.group, 0, ffi.NULL)
        else:
            offsets = ffi.new("uint32_t[1]", [self.dynamic_offset])
            lib.wgpuComputePassEncoderSetBindGroup(compute_pass, 0, self.group, 1, offsets)
        numbers = self.numbers
        if numbers is not None:
            lib.wgpuComputePassEncoderSetImmediates(compute_pass, 0, numbers, len(numbers))
        return compute_pass


class Bindable(Protocol):
    """What a launch is before it is bound: ``results`` says which buffers it computes."""

    @property
    def name(self) -> str: ...
    @property
    def pipeline(self) -> Pointer: ...
    @property
    def results(self) -> tuple[bool, ...]: ...


class BoundLaunch:
    """One run of a pipeline without dynamic offsets, made ready as a row for native code."""

    __slots__ = ("group", "of", "row", "touched")

    count = 1

    def __init__(self, of: Bindable, group: Pointer, row: bytes, touched: list[Contents]) -> None:
        self.of = of
        self.group = group
        self.row = row
        self.touched = touched

    @property
    def name(self) -> str:
        """The kernel's."""
        return self.of.name

    def written(self) -> Sequence[Contents]:
        """Return what it computes."""
        return self._alone().written()

    def encode(self, encoder: Encoder) -> None:
        """Append it to the encoder."""
        self._alone().encode(encoder)

    def _alone(self) -> Launch:
        """Return it as a launch that Python makes."""
        of, row = self.of, self.row
        _, _, _, x, y, z, nbytes = _ROW_HEAD.unpack_from(row)
        numbers = row[_ROW_HEAD.size : _ROW_HEAD.size + nbytes] if nbytes else None
        grid = (x, y, z)
        return Launch(
            of.name, of.pipeline, self.group, grid, numbers, None, self.touched, of.results
        )


class CountedLaunch:
    """One run of a pipeline, on as many workgroups as a buffer says when its turn comes.

    The numbers are copied to where nothing else lies: what says a grid is written by no kernel of
    the same dispatch, also not another part of it.
    """

    __slots__ = ("_counts", "_grid", "_launch", "name", "touched")

    count = 1

    def __init__(self, launch: Launch, counts: StorageRange, grid: Pointer) -> None:
        self.name = launch.name
        self._launch, self._counts, self._grid = launch, counts, grid
        self.touched = [*launch.touched, counts.contents]

    def written(self) -> Sequence[Contents]:
        """Return what it computes."""
        return self._launch.written()

    def encode(self, encoder: Encoder) -> None:
        """Append it to the encoder."""
        encoder.end_pass()
        counts = self._counts
        lib.wgpuCommandEncoderCopyBufferToBuffer(
            encoder.raw, counts.raw, counts.offset, self._grid, 0, GRID_BYTES
        )
        lib.wgpuComputePassEncoderDispatchWorkgroupsIndirect(
            self._launch.bind(encoder), self._grid, 0
        )


#: A pipeline, its bind group, its numbers, and its workgroups.
Call = tuple[Pointer, Pointer, bytes | None, tuple[int, int, int]]


class Calls:
    """Runs of pipelines that are bound, for native code as a table if they are made again.

    To make a row takes longer than to call from Python.
    """

    __slots__ = ("_block", "_filled", "_submission", "_varying", "_words", "held", "rows")

    def __init__(self, calls: Sequence[Call]) -> None:
        self.held = list(calls)
        self.rows: Any = None
        #: Of a table that has them the numbers that vary, and where they lie; and for which
        #: submission they were put there.
        self._block: Array | None = None
        self._words: Words | None = None
        self._varying: VaryingNumbers | None = None
        self._submission = 0
        #: Tables like this one with numbers, the one that was used longest ago first.
        self._filled: deque[Calls] = deque()

    def __len__(self) -> int:
        return len(self.held)

    def tabulate(self) -> None:
        """Make the table, if there is none."""
        if self.rows is not None or loop() is None:
            return
        self.rows = np.zeros(len(self.held), ROW)
        for n, (pipeline, group, numbers, grid) in enumerate(self.held):
            row = self.rows[n]
            row["pipeline"], row["group"] = address_of(pipeline), address_of(group)
            row["grid"] = grid
            if numbers is not None:
                row["numbers"] = address_of(ffi.from_buffer(numbers))
                row["nbytes"] = len(numbers)

    def with_numbers(self, numbers: Mapping[int, bytes | None]) -> Calls:
        """Return the runs with other numbers at some places."""
        made = Calls(self.held)
        for n, given in numbers.items():
            pipeline, group, _, grid = made.held[n]
            made.held[n] = (pipeline, group, given, grid)
        return made

    def filled(
        self, varying: VaryingNumbers, operands: Sequence[Any], submission: int, encoded: int
    ) -> Calls:
        """Return the runs of a table with numbers, for a submission.

        A table of one that is ``encoded`` is filled anew.  Raises KernelError for a number that
        does not fit its dtype.
        """
        if self._filled and self._filled[0]._submission <= encoded:
            made = self._filled.popleft()
            assert made._words is not None
            self._filled.append(made)
            varying.fill(made._words, operands)
        else:
            made = self._with_block(varying, varying.block(operands))
            if len(self._filled) < MOST_FILLED:
                self._filled.append(made)
        made._submission = submission
        return made

    def _with_block(self, varying: VaryingNumbers, block: Array) -> Calls:
        """Return the runs of a table with the numbers of a block of `VaryingNumbers`."""
        made = Calls(self.held)
        made._varying, made._block, made._words = varying, block, words_of(block)
        made.rows = self.rows.copy()
        made.rows["numbers"][varying.places] = varying.starts + np.uint64(block.ctypes.data)
        made.rows["nbytes"][varying.places] = varying.sizes
        return made

    def listed(self) -> list[Call]:
        """Return the runs one by one."""
        varying, block = self._varying, self._block
        if varying is None or block is None:
            return self.held
        found = self.held.copy()
        rows = zip(varying.places, varying.starts, varying.sizes, strict=True)
        for n, start, size in rows:
            pipeline, group, _, grid = found[n]
            data = block[int(start) : int(start) + int(size)].tobytes()
            found[n] = (pipeline, group, data, grid)
        return found


class Launches:
    """Runs of pipelines, one after the other: legal together or not at all.

    ``touched`` is what they read or write, ``results`` what is wrong without them.
    """

    __slots__ = ("_names", "_results", "calls", "count", "touched")

    def __init__(
        self,
        calls: Calls,
        touched: Sequence[Contents],
        results: Sequence[Contents],
        names: Sequence[str],
    ) -> None:
        self.calls = calls
        self.count = len(calls)
        self.touched = touched
        self._results = results
        self._names = names

    @property
    def name(self) -> str:
        """The first one's, and how many there are."""
        more = f" and {len(self.calls) - 1} more" if len(self.calls) > 1 else ""
        return self._names[0] + more

    def written(self) -> Sequence[Contents]:
        """Return what they compute."""
        return self._results

    def encode(self, encoder: Encoder) -> None:
        """Append them to the encoder."""
        if encoder.timestamps is not None:
            self._encode_timed(encoder)
            return
        compute_pass = encoder.compute_pass(self._names[0])
        native = loop() if self.calls.rows is not None else None
        if native is not None:
            native.run(compute_pass, self.calls.rows)
            encoder.pipeline = self.calls.held[-1][0]
            return
        set_pipeline = lib.wgpuComputePassEncoderSetPipeline
        set_group = lib.wgpuComputePassEncoderSetBindGroup
        set_numbers = lib.wgpuComputePassEncoderSetImmediates
        dispatch = lib.wgpuComputePassEncoderDispatchWorkgroups
        null, current = ffi.NULL, encoder.pipeline
        for pipeline, group, numbers, (x, y, z) in self.calls.listed():
            if pipeline is not current:
                current = pipeline
                set_pipeline(compute_pass, pipeline)
            set_group(compute_pass, 0, group, 0, null)
            if numbers is not None:
                set_numbers(compute_pass, 0, numbers, len(numbers))
            dispatch(compute_pass, x, y, z)
        encoder.pipeline = current

    def _encode_timed(self, encoder: Encoder) -> None:
        """Append each in a pass of its own."""
        for name, call in zip(self._names, self.calls.listed(), strict=True):
            pipeline, group, numbers, grid = call
            Launch(name, pipeline, group, grid, numbers, None, [], ()).encode(encoder)


class Staged:
    """A place in a staging buffer, a ``wgpu.GPUBuffer``, which is always good and held here.

    ``error`` is why what was to be read there did not come.
    """

    __slots__ = ("error", "gpu", "offset", "raw")

    def __init__(self, gpu: Any, offset: int) -> None:
        self.gpu = gpu
        self.raw: Pointer = gpu._internal
        self.offset = offset
        self.error: PyriteError | None = None


class StorageRange:
    """A place in a storage."""

    __slots__ = ("contents", "offset", "raw")

    def __init__(self, buffer: Buffer, offset: int = 0) -> None:
        self.contents = buffer.contents
        self.raw: Pointer = buffer.storage.raw
        self.offset = buffer.offset + offset


class Copy:
    """A copy of bytes on the device, of whole words."""

    __slots__ = ("name", "nbytes", "source", "target", "touched")

    count = 1

    def __init__(
        self, name: str, source: Staged | StorageRange, target: Staged | StorageRange, nbytes: int
    ) -> None:
        self.name = name
        self.source, self.target = source, target
        self.nbytes = (nbytes + 3) & ~3
        self.touched = [p.contents for p in (source, target) if isinstance(p, StorageRange)]

    def written(self) -> Sequence[Result]:
        """Return what it writes."""
        return [self.target.contents if isinstance(self.target, StorageRange) else self.target]

    def encode(self, encoder: Encoder) -> None:
        """Append it to the encoder."""
        encoder.end_pass()
        source, target = self.source, self.target
        lib.wgpuCommandEncoderCopyBufferToBuffer(
            encoder.raw, source.raw, source.offset, target.raw, target.offset, self.nbytes
        )


class Submission:
    """The commands of one submission, in order."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.uploads: list[Command] = []  # into storages that no command before them touches
        self.commands: list[Command] = []
        #: The arguments of its launches, where they travel in a uniform buffer.
        self.uniforms = bytearray()
        self._size = 0

    def append(self, command: Command) -> int:
        """Have a command run after all others; return how many things there are to do."""
        self.commands.append(command)
        size = self._size = self._size + command.count
        return size

    def append_upload(self, command: Command) -> int:
        """Have a command run before those that are no uploads; return what `append` does."""
        self.uploads.append(command)
        size = self._size = self._size + command.count
        return size

    @property
    def tables(self) -> list[Table] | None:
        """The tables of its launches, if it has no other commands.

        Bound launches are rows of one as soon as there is native code.
        """
        if self.uploads or self.uniforms:
            return None
        found: list[Table] = []
        for kind, alike in groupby(self.commands, type):
            tables = _TABLES.get(kind)
            made = None if tables is None else tables([*alike])
            if made is None:
                return None
            found += made
        return found

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Command]:
        yield from self.uploads
        yield from self.commands


class Encoder:
    """A command encoder and its compute pass, if one is open."""

    def __init__(self, device: Device, timestamps: Timestamps | None) -> None:
        self.raw: Pointer = lib.wgpuDeviceCreateCommandEncoder(device.raw, _ENCODER)
        self.pipeline: Any = None
        self.timestamps = timestamps
        self._pass: Any = None

    def compute_pass(self, name: str) -> Pointer:
        """Return the open compute pass, or begin one; where passes are timed, one of that name."""
        if self.timestamps is not None:
            self.end_pass()
            self._pass = self.timestamps.begin_kernel(self.raw, name)
        elif self._pass is None:
            self._pass = lib.wgpuCommandEncoderBeginComputePass(self.raw, _PASS)
        return self._pass

    def end_pass(self) -> None:
        """End the compute pass, if one is open."""
        if self._pass is not None:
            lib.wgpuComputePassEncoderEnd(self._pass)
            lib.wgpuComputePassEncoderRelease(self._pass)
            self._pass = self.pipeline = None

    def finish(self) -> Pointer:
        """Return the command buffer."""
        self.end_pass()
        buffer = lib.wgpuCommandEncoderFinish(self.raw, _COMMANDS)
        lib.wgpuCommandEncoderRelease(self.raw)
        return ffi.gc(buffer, lib.wgpuCommandBufferRelease)


def _tables_of_bound(launches: Sequence[Any]) -> list[Table] | None:
    if later.after(0) is None:
        return None
    return [Table(b"".join([launch.row for launch in launches]), len(launches))]


def _tables_of_many(launches: Sequence[Any]) -> list[Table] | None:
    rows = [each.calls.rows for each in launches]
    return None if any([x is None for x in rows]) else [Table(x, len(x)) for x in rows]


#: What makes the tables of commands of a kind, where they can have some.
_TABLES: Final[dict[type, Callable[[Sequence[Any]], list[Table] | None]]] = {
    BoundLaunch: _tables_of_bound,
    Launches: _tables_of_many,
}


def _encode_bound(encoder: Encoder, launches: Sequence[Any]) -> None:
    """Append bound launches, one after the other: where there are many by native code."""
    native = None if encoder.timestamps is not None else later.after(len(launches))
    if native is None or len(launches) < LEAST_NATIVE:
        for launch in launches:
            launch.encode(encoder)
        return
    native.run_each(encoder.compute_pass(""), [launch.row for launch in launches])
    encoder.pipeline = launches[-1].of.pipeline


_ROW_HEAD = Struct("@" + HEAD)
_ENCODER = ffi.new("WGPUCommandEncoderDescriptor *")
_PASS = ffi.new("WGPUComputePassDescriptor *")
_COMMANDS = ffi.new("WGPUCommandBufferDescriptor *")


def encode(
    device: Device, commands: Iterable[Command], timestamps: Timestamps | None = None
) -> Pointer:
    """Return the commands as a command buffer that may be submitted.

    Raises NativeError if one of them is not legal, or cannot even be said to the device, or the
    device is lost.
    """
    with captured():
        encoder = Encoder(device, timestamps)
        try:
            for kind, alike in groupby(commands, type):
                if kind is BoundLaunch:
                    _encode_bound(encoder, [*alike])
                else:
                    for command in alike:
                        command.encode(encoder)
        except Exception as error:
            encoder.finish()  # lets go of what was begun
            raise NativeError(type(error).__name__, f"{type(error).__name__}: {error}") from None
        return encoder.finish()
