"""A device that was closed, destroyed or lost is an error of every call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("wgpu")

import wgpu

from pyrite.errors import DeviceError, KernelError
from pyrite.kernel import Kernel
from pyrite.runtime.wgpu import WgpuRuntime, init_device, open_device
from pyrite.types import float32

Program = Callable[[str], str]


def test_a_closed_runtime_says_so(device: Any, scale: Kernel) -> None:
    runtime = WgpuRuntime(device, name="wgpu:7")
    kernel, x = runtime.compile(scale), runtime.upload(np.ones(64, np.float32))
    runtime.close()
    runtime.close()

    for call in (
        lambda: runtime.allocate(1),
        lambda: runtime.upload(np.ones(1)),
        lambda: runtime.compile(scale),
        lambda: runtime.launch(kernel, [x, x, 1, 1.0], [1]),
        lambda: runtime.read(x, float32, (64,)),
        lambda: runtime.flush(),
        lambda: runtime.synchronize(),
        lambda: runtime.is_done(1),
    ):
        with pytest.raises(
            DeviceError, match="wgpu:7 requires a device that works, got: it was clo"
        ):
            call()


def test_a_device_destroyed_under_it_is_an_error_of_every_call(program: Program) -> None:
    printed = program("""
        runtime = WgpuRuntime(open_device())
        kernel, x, y = runtime.compile(scale()), runtime.upload(ones), runtime.allocate(256)
        runtime.launch(kernel, [x, y, 64, 2.0], [1])
        runtime.device.gpu.destroy()
        for call in (
            lambda: runtime.flush(),
            lambda: runtime.read(y, float32, (64,)),
            lambda: runtime.upload(ones),
            lambda: runtime.launch(kernel, [x, y, 64, 2.0], [1]),
            lambda: runtime.synchronize(),
            lambda: runtime.compile(scale()),
        ):
            try:
                call()
            except DeviceError as error:
                print(error)
        runtime.close()
    """)

    assert printed.splitlines() == ["wgpu requires a device that works, got: it was destroyed"] * 6


def test_a_device_that_is_lost_unseen_is_found_out_before_the_submit(program: Program) -> None:
    """Destroyed through the C library, so that no flag in Python says it."""
    printed = program("""
        from pyrite.runtime.wgpu.native import lib
        runtime = WgpuRuntime(open_device())
        kernel, x, y = runtime.compile(scale()), runtime.upload(ones), runtime.allocate(256)
        runtime.launch(kernel, [x, y, 64, 2.0], [1])
        lib.wgpuDeviceDestroy(runtime.device.raw)
        for _ in range(2):
            try:
                runtime.read(y, float32, (64,))
            except DeviceError as error:
                print(error)
    """)

    message = "wgpu requires a device that works, got: it was lost (Parent device is lost)"
    assert printed.splitlines() == [message] * 2


def test_an_applications_device_outlives_the_runtime(device: Any, scale: Kernel) -> None:
    own = device.gpu.adapter.request_device_sync()
    runtime = WgpuRuntime(init_device(own))
    runtime.read(runtime.upload(np.ones(4, np.float32)), float32, (4,))
    runtime.close()

    usage = wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
    buffer = own.create_buffer_with_data(data=b"12345678", usage=usage)
    assert bytes(own.queue.read_buffer(buffer)) == b"12345678"


def test_two_devices_work_side_by_side(device: Any, scale: Kernel) -> None:
    runtimes = [WgpuRuntime(open_device(), name=f"wgpu:{i}") for i in range(2)]
    buffers = [r.upload(np.full(64, i, np.float32)) for i, r in enumerate(runtimes)]
    for r, x in zip(runtimes, buffers, strict=True):
        r.launch(r.compile(scale), [x, x, 64, 2.0], [1])

    assert [r.read(x, float32, (64,))[0] for r, x in zip(runtimes, buffers, strict=True)] == [0, 2]
    with pytest.raises(KernelError, match=r"requires buffers to bind, got\n"):
        runtimes[0].launch(runtimes[0].compile(scale), [*buffers, 64, 2.0], [1])
    for r in runtimes:
        r.close()
