"""The pace of a queue: an idle device gets work early, one that has work gets more at a time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("wgpu")

from pyrite.kernel import Kernel
from pyrite.runtime.protocol import BundledLaunch, Fixed
from pyrite.runtime.wgpu import WgpuRuntime
from pyrite.runtime.wgpu.pace import FIRST, FIRST_PIECE, SUBMIT_AFTER, Pace
from pyrite.types import float32

ONES = np.ones(64, np.float32)


@pytest.fixture
def early(device: Any) -> Any:
    """A runtime that takes the device for one in hardware."""
    runtime = WgpuRuntime(replace(device, is_software=False))
    runtime.synchronize()
    yield runtime
    runtime.close()


def test_submissions_grow_until_the_host_has_waited() -> None:
    pace = Pace(is_early=True)
    seen = []
    for _ in range(5):
        seen.append(pace.due)
        pace.submitted()
    pace.rested()

    assert seen == [8, 16, 32, 64, 64]
    assert pace.due == FIRST


def test_jobs_of_single_ops_grow_and_those_of_programs_do_not() -> None:
    pace = Pace(is_early=True)
    for _ in range(3):
        assert not pace.is_steady
        pace.submitted()
    seen = []
    for is_of_ops in (True, True, True, False, True):
        assert pace.is_steady
        seen.append(pace.due)
        pace.begun(is_of_ops=is_of_ops)

    assert [*seen, pace.due] == [64, 128, 256, 256, 64, 128]
    pace.submitted()
    assert pace.due == SUBMIT_AFTER


def test_pieces_are_all_of_a_program_in_order() -> None:
    for is_early in (True, False):
        pace = Pace(is_early=is_early)
        for count in (0, 1, FIRST_PIECE, FIRST_PIECE + 1, 2 * SUBMIT_AFTER + 5, 1000):
            pieces = [*pace.pieces(count)]
            assert [n for piece in pieces for n in piece] == [*range(count)]
            assert all(0 < len(piece) <= SUBMIT_AFTER for piece in pieces)
    assert [len(piece) for piece in Pace(is_early=False).pieces(130)] == [64, 64, 2]


def test_launches_after_a_wait_are_submitted_early(early: WgpuRuntime, scale: Kernel) -> None:
    kernel = early.compile(scale)
    x, y = early.upload(ONES), early.allocate(256)
    early.synchronize()

    def submissions(count: int) -> int:
        before = early.report()["submissions"]
        for n in range(count):
            early.launch(kernel, [x, y, 64, float(n)], [1])
        return int(early.report()["submissions"] - before)

    for wait in (
        early.synchronize,
        lambda: early.read(y, float32, (64,)),
        lambda: asyncio.run(early.synchronize_async()),
        lambda: asyncio.run(early.read_all_async([(y, float32, (64,))])),
    ):
        assert submissions(FIRST - 1) == 0
        assert submissions(1) == 1
        assert submissions(2 * FIRST) == 1
        wait()
    assert submissions(8 + 16 + 32 + 64 + 64) == 5
    assert early.read(y, float32, (64,))[0] == 183.0


def test_a_program_is_begun_before_all_of_it_is_encoded(early: WgpuRuntime, scale: Kernel) -> None:
    executable = early.compile(scale)
    count = 120
    steps = [
        BundledLaunch(executable, (n, n + 1, Fixed(64), count + 1), (1,)) for n in range(count)
    ]
    bundle, memory = early.bundle(steps), early.bundle_memory([256] * count, range(count - 1))
    for number in (1.0, -1.0, -1.0):
        early.synchronize()
        before = early.report()["submissions"]
        operands = [early.upload(ONES), *memory.buffers(), number]
        bundle.launch(operands)
        made = early.report()["submissions"] - before
        assert (made, early.read(operands[count], float32, (64,))[0]) == (3, 1.0)


def test_a_device_that_is_behind_is_not_idle(early: WgpuRuntime, scale: Kernel) -> None:
    kernel = early.compile(scale)
    x, y = early.upload(ONES), early.allocate(256)
    early.launch(kernel, [x, y, 64, 2.0], [1])
    first = early.flush()
    early.launch(kernel, [x, y, 64, 3.0], [1])
    early._queue.flush()
    early._queue._progress.completed = first

    early._queue.note_wait()

    assert early._queue.pace.due > FIRST
