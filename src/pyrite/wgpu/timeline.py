"""Kernels and an application's own passes on one time line, by the device's clock."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyrite.backend.device import DeviceLike
from pyrite.backend.device import device as as_device
from pyrite.backend.explanation import chrome_event
from pyrite.op import public
from pyrite.runtime.wgpu.timestamps import Timestamps
from pyrite.synchronization import note_sync
from pyrite.wgpu.memory import runtime_of


@dataclass(frozen=True, slots=True)
class TimedPass:
    """A pass that the device ran: a kernel of Pyrite's, or a pass of the application's.

    ``start`` and ``seconds`` are of the device's clock; the first pass starts at 0.
    """

    name: str
    is_kernel: bool
    start: float
    seconds: float


class Timeline:
    """What `timeline` found."""

    def __init__(self, device: str, timestamps: Timestamps) -> None:
        self._device = device
        self._timestamps = timestamps
        self._passes: list[TimedPass] | None = None
        self._is_open = True

    def writes(self, name: str) -> dict[str, Any]:
        """Return ``timestamp_writes=`` of one ``begin_render_pass`` or ``begin_compute_pass``.

        ``name`` is what the pass is called on the time line; submit it before `passes` is asked.
        """
        return self._timestamps.application_pass(name)

    @property
    def passes(self) -> list[TimedPass]:
        """The passes in the order of their starts.  To ask waits for the device."""
        if self._passes is None or self._is_open:
            note_sync("Timeline.passes")
            found = sorted(self._timestamps.read(), key=lambda one: one[1])
            first = found[0][1] if found else 0.0
            self._passes = [
                TimedPass(one.name, one.is_kernel, begin - first, end - begin)
                for one, begin, end in found
            ]
        return self._passes

    def chrome_trace(self) -> str:
        """Return the passes as JSON for chrome://tracing or Perfetto, as `pyrite.explain` does."""
        events = [
            chrome_event(
                one.name, self._device, "kernels" if one.is_kernel else "passes",
                one.start, one.seconds,
            )
            for one in self.passes
        ]  # fmt: skip
        return json.dumps({"traceEvents": events})


@public
@contextmanager
def timeline(device: DeviceLike) -> Iterator[Timeline]:
    """Time what a device runs in the block: kernels, and passes that take `Timeline.writes`.

    Unlike `pyrite.explain` it waits for nothing and times what runs as it runs: by the queries of
    the device, which costs a pass for each kernel.  Copies and uploads are not timed.

    Raises DeviceError for a device that is no wgpu, or lacks the feature ``timestamp-query``.

    >>> import pyrite
    >>> with pyrite.wgpu.timeline("wgpu") as times:
    ...     y = pyrite.ones((64, 64), device="wgpu") @ pyrite.ones((64, 64), device="wgpu")
    >>> [one.name for one in times.passes if "gemm" in one.name]
    ['tiled_gemm']
    """
    where = as_device(device)
    runtime = runtime_of(where, "timeline")
    found = Timeline(where.backend.root.name, Timestamps(runtime.device))
    with runtime.timed(found._timestamps):
        yield found
    found._is_open = False
