"""When the device began and ended a pass, by its own clock: timestamp queries.

WebGPU writes times at the ends of a pass alone, so while somebody asks each launch has a pass of
its own; copies, which are in none, have no times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import wgpu

from pyrite.errors import DeviceError
from pyrite.runtime.wgpu.adapter import Device
from pyrite.runtime.wgpu.native import Pointer, ffi, lib

#: Queries of a set, two for each pass: the most that WebGPU grants.
QUERIES = 4096

_NANOSECOND = 1e-9


@dataclass(slots=True)
class Pass:
    """A pass that is timed: in which query set, the number of its first query, if it was begun."""

    name: str
    is_kernel: bool
    queries: Any
    first: int
    is_begun: bool = False


class PassTimes(dict[str, Any]):
    """``timestamp_writes`` that note the pass that takes them: a query without one is garbage."""

    def __init__(self, of: Pass, writes: dict[str, Any]) -> None:
        super().__init__(writes)
        self._of = of

    def __getitem__(self, key: str) -> Any:
        self._of.is_begun = True
        return super().__getitem__(key)


class Timestamps:
    """The passes of one device that are timed, kernels and an application's own.

    Raises DeviceError for a device without the feature ``timestamp-query``.
    """

    def __init__(self, device: Device) -> None:
        if "timestamp-query" not in device.features:
            raise DeviceError(
                "timeline requires the feature timestamp-query, got a device without; name it in "
                "request_device_sync(required_features=...), as pyrite.wgpu.required_features does"
            )
        self._gpu = device.gpu
        self._period: float = lib.wgpuQueueGetTimestampPeriod(device.queue) * _NANOSECOND
        self._passes: list[Pass] = []

    def begin_kernel(self, encoder: Pointer, name: str) -> Pointer:
        """Return a new compute pass that is timed."""
        one = self._next(name, is_kernel=True)
        one.is_begun = True
        times = {
            "querySet": one.queries._internal,
            "beginningOfPassWriteIndex": one.first,
            "endOfPassWriteIndex": one.first + 1,
        }
        writes = ffi.new("WGPUPassTimestampWrites *", times)
        descriptor = ffi.new("WGPUComputePassDescriptor *", {"timestampWrites": writes})
        return lib.wgpuCommandEncoderBeginComputePass(encoder, descriptor)

    def application_pass(self, name: str) -> dict[str, Any]:
        """Return ``timestamp_writes`` for a pass of the application."""
        one = self._next(name, is_kernel=False)
        writes = {
            "query_set": one.queries,
            "beginning_of_pass_write_index": one.first,
            "end_of_pass_write_index": one.first + 1,
        }
        return PassTimes(one, writes)

    def read(self) -> list[tuple[Pass, float, float]]:
        """Return the passes with when they began and ended, in seconds of the device's clock."""
        begun = [one for one in self._passes if one.is_begun]
        ticks = {id(one.queries): self._ticks(one.queries) for one in begun}
        found = []
        for one in begun:
            begin, end = ticks[id(one.queries)][one.first : one.first + 2]
            found.append((one, float(begin) * self._period, float(end) * self._period))
        return found

    def _next(self, name: str, *, is_kernel: bool) -> Pass:
        # Kernels and the application have sets of their own: a set is resolved up to its last.
        last = next((p for p in reversed(self._passes) if p.is_kernel == is_kernel), None)
        if last is None or last.first + 2 >= QUERIES:
            queries = self._gpu.create_query_set(type="timestamp", count=QUERIES)
            one = Pass(name, is_kernel, queries, 0)
        else:
            one = Pass(name, is_kernel, last.queries, last.first + 2)
        self._passes.append(one)
        return one

    def _ticks(self, queries: Any) -> Any:
        count = 2 + max(one.first for one in self._passes if one.queries is queries)
        usage = wgpu.BufferUsage.QUERY_RESOLVE | wgpu.BufferUsage.COPY_SRC
        target = self._gpu.create_buffer(size=8 * count, usage=usage)
        encoder = self._gpu.create_command_encoder()
        encoder.resolve_query_set(queries, 0, count, target, 0)
        self._gpu.queue.submit([encoder.finish()])
        return np.frombuffer(self._gpu.queue.read_buffer(target), np.uint64)
