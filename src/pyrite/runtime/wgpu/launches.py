"""Launches that wait to be submitted: one alone, one that is bound, many that are made again."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Any, Final, Protocol

import numpy as np

from pyrite.runtime.wgpu.command import Encoder, StorageRange
from pyrite.runtime.wgpu.memory import Contents
from pyrite.runtime.wgpu.native import Pointer, ffi, lib
from pyrite.runtime.wgpu.native_calls import HEAD, ROW, address_of, loop
from pyrite.runtime.wgpu.varying_numbers import VaryingNumbers, Words, words_of
from pyrite.types import Array

#: Tables of the same runs with numbers of their own that are kept: a small program's are so many in
#: one submission.
MOST_FILLED: Final = 8

#: Bytes of three counts of workgroups.
GRID_BYTES: Final = 12

_ROW_HEAD = Struct("@" + HEAD)


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
        touched: Sequence[Contents],
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

    def __init__(
        self, of: Bindable, group: Pointer, row: bytes, touched: Sequence[Contents]
    ) -> None:
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
