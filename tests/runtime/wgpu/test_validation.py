"""A command that cannot run poisons what it was to write, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

import numpy as np
import pytest

pytest.importorskip("wgpu")

from pyrite.errors import KernelError
from pyrite.kernel import Kernel
from pyrite.runtime.wgpu import WgpuRuntime
from pyrite.runtime.wgpu.command import Copy
from pyrite.runtime.wgpu.launches import Launch
from pyrite.types import float32

Program = Callable[[str], str]


def test_an_illegal_command_poisons_what_it_writes_and_nothing_else(
    runtime: WgpuRuntime, scale: Kernel
) -> None:
    """Launches are checked, so it is made here by hand."""
    kernel = runtime.compile(scale)
    x = runtime.upload(np.ones(64, np.float32))
    y, z, good = (runtime.allocate(256) for _ in range(3))
    runtime.launch(kernel, [x, y, 64, 2.0], [1])
    bad = runtime._queue.pending.commands[-1]
    assert isinstance(bad, Launch)
    bad.grid = (100_000, 1, 1)
    runtime.launch(kernel, [y, z, 64, 2.0], [1])
    runtime.launch(kernel, [x, good, 64, 3.0], [1])

    assert runtime.read(good, float32, (64,))[0] == 3.0
    for poisoned in (y, z):
        with pytest.raises(KernelError, match=r"scale requires a legal command(.|\n)*100000"):
            runtime.read(poisoned, float32, (64,))
    runtime.launch(kernel, [y, x, 64, 2.0], [1])
    with pytest.raises(KernelError, match="scale requires a legal command"):
        runtime.read(x, float32, (64,))


def test_a_command_that_cannot_be_said_to_the_device_blocks_nothing(
    runtime: WgpuRuntime, scale: Kernel
) -> None:
    kernel = runtime.compile(scale)
    x, y = runtime.upload(np.ones(64, np.float32)), runtime.allocate(256)
    runtime.launch(kernel, [x, y, 64, 2.0], [1])
    bad = runtime._queue.pending.commands[-1]
    assert isinstance(bad, Launch)
    bad.grid = (1 << 40, 1, 1)  # no uint32: an OverflowError of cffi

    runtime.flush()

    assert not len(runtime._queue.pending)
    assert runtime.read(x, float32, (64,))[0] == 1.0
    with pytest.raises(KernelError, match=r"scale requires a legal command(.|\n)*OverflowError"):
        runtime.read(y, float32, (64,))


def test_a_read_that_cannot_run_returns_no_stale_memory(runtime: WgpuRuntime) -> None:
    x = runtime.upload(np.ones(64, np.float32))
    runtime.synchronize()  # an upload is a copy too
    with mock.patch.object(Copy, "encode", side_effect=ValueError("no such copy")):
        with pytest.raises(KernelError, match=r"read requires a legal command(.|\n)*no such copy"):
            runtime.read(x, float32, (64,))


def test_pyrites_own_buffers_may_be_destroyed_by_who_was_shown_them(program: Program) -> None:
    printed = program("""
        runtime = WgpuRuntime(open_device())
        kernel, y = runtime.compile(scale()), runtime.allocate(256)
        shown, good = runtime.upload(ones), runtime.upload(ones)
        runtime.launch(kernel, [shown, y, 64, 2.0], [1])
        runtime.get_resource(shown).resource().buffer().destroy()
        for buffer in (shown, good):
            try:
                print(runtime.read(buffer, float32, (64,))[0])
            except DeviceError as error:
                print(error)
        try:
            runtime.launch(kernel, [shown, runtime.allocate(256), 64, 2.0], [1])
        except DeviceError as error:
            print(error)
        del shown, buffer
        print(runtime.read(runtime.upload(ones), float32, (64,))[0])
    """)

    why = "got a wgpu.GPUBuffer of 256 bytes that was destroyed"
    read, went_on, launch, anew = printed.splitlines()
    assert f"read requires buffers that it can use, {why}" in read
    assert f"scale requires buffers that it can use, {why}" in launch
    assert went_on == anew == "1.0"


def test_a_device_that_is_lost_under_external_buffers_is_said_to_be(program: Program) -> None:
    printed = program("""
        from pyrite.runtime.wgpu.native import lib

        device = open_device()
        runtime = WgpuRuntime(init_device(device.gpu))
        usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
        external = runtime.from_buffer(device.gpu.create_buffer(size=256, usage=usage))
        lib.wgpuDeviceDestroy(runtime.device.raw)  # no flag in Python says it
        for _ in range(2):
            try:
                runtime.read(external, float32, (64,))
            except DeviceError as error:
                print(error)
    """)

    first, second = printed.splitlines()
    assert "lost" in first
    assert "wgpu requires a device that works, got: it was lost" in second


def test_external_buffers_may_be_destroyed_before_a_submit(program: Program) -> None:
    printed = program("""
        device = open_device()
        runtime = WgpuRuntime(init_device(device.gpu))
        usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
        kernel, y = runtime.compile(scale()), runtime.allocate(256)
        for _ in range(3):
            own = device.gpu.create_buffer(size=256, usage=usage)
            external = runtime.from_buffer(own)
            runtime.launch(kernel, [external, y, 64, 2.0], [1])
            own.destroy()
            runtime.launch(kernel, [external, y, 64, 2.0], [1])
        try:
            runtime.read(y, float32, (64,))
        except DeviceError as error:
            print(error)
    """)

    assert "scale requires buffers that it can use, got a wgpu.GPUBuffer of 256 bytes" in printed
    assert "that was destroyed" in printed
