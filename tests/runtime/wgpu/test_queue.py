"""The queue: commands are submitted together, in order, and can be waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest

pytest.importorskip("wgpu")


from pyrite.errors import DeviceError
from pyrite.kernel import Kernel, KernelBuilder
from pyrite.runtime.wgpu import WgpuRuntime, open_device
from pyrite.runtime.wgpu.pace import SUBMIT_AFTER, Pace
from pyrite.types import float32

Program = Callable[[str], str]


def test_dispatches_share_one_submission(runtime: WgpuRuntime, scale: Kernel) -> None:
    runtime._queue.pace = Pace(is_early=False)
    kernel = runtime.compile(scale)
    x = runtime.upload(np.ones(64, np.float32))
    runtime.flush()
    for _ in range(10):
        runtime.launch(kernel, [x, x, 64, 2.0], [1])

    runtime.flush()

    assert runtime.report()["submissions"] == 2
    assert runtime.flush() == 2


def test_many_launches_submit_by_themselves(runtime: WgpuRuntime, scale: Kernel) -> None:
    runtime._queue.pace = Pace(is_early=False)
    kernel = runtime.compile(scale)
    x, y = runtime.upload(np.ones(64, np.float32)), runtime.allocate(256)
    for i in range(5 * SUBMIT_AFTER):
        runtime.launch(kernel, [x, y, 64, float(i)], [1])

    assert runtime.report()["submissions"] == 5
    assert runtime.read(y, float32, (64,))[0] == 5 * SUBMIT_AFTER - 1


def test_memory_is_used_again_within_a_submission(runtime: WgpuRuntime, scale: Kernel) -> None:
    kernel = runtime.compile(scale)
    x = runtime.upload(np.ones(1 << 20, np.float32))
    for _ in range(20):
        y = runtime.allocate(4 << 20)
        runtime.launch(kernel, [x, y, 1 << 20, 2.0], [1 << 14])
        x = y

    assert runtime.read(x, float32, (1 << 20,))[-1] == 2.0**20
    assert runtime.memory_report().reserved <= 3 * (4 << 20)


def test_a_submission_can_be_waited_for(runtime: WgpuRuntime, scale: Kernel) -> None:
    x = runtime.upload(np.ones(64, np.float32))
    runtime.launch(runtime.compile(scale), [x, x, 64, 2.0], [1])

    submission = runtime.flush()
    runtime.wait(submission)

    assert runtime.is_done(submission)
    with pytest.raises(DeviceError, match="requires a submission that was made, got 5; the last"):
        runtime.wait(5)


def test_default_limits_suffice(device: Any, scale: Kernel) -> None:
    runtime = WgpuRuntime(open_device(limits="default"))
    kernel = runtime.compile(scale)
    x, y = runtime.upload(np.ones(64, np.float32)), runtime.allocate(256)
    # More launches than the uniform buffer has room for arguments.
    for i in range(600):
        runtime.launch(kernel, [x, y, 64, float(i)], [1])

    assert runtime.read(y, float32, (64,))[0] == 599.0
    runtime.close()


@pytest.mark.parametrize("limits", ["adapter", "default"])
@pytest.mark.parametrize("count", [40, 70])
def test_arguments_that_do_not_travel_with_the_launch_come_in_a_buffer(
    device: Any, limits: Literal["adapter", "default"], count: int
) -> None:
    """40 are more than lavapipe's immediates hold, 70 more than one aligned place of the buffer."""
    b = KernelBuilder("total", workgroup_size=64)
    y = b.buffer("y", float32, "write")
    y[b.global_id()] = sum(
        (b.scalar(f"n{i}", float32) for i in range(1, count)), b.scalar("n0", float32)
    )
    runtime = WgpuRuntime(open_device(limits=limits))
    kernel = runtime.compile(b.build())

    outputs = [runtime.allocate(256) for _ in range(3)]
    for i, out in enumerate(outputs):
        runtime.launch(kernel, [out, *[float(i)] * count], [1])

    totals = [runtime.read(out, float32, (64,))[63] for out in outputs]
    assert totals == [0.0, count, 2 * count]
    runtime.close()
