"""A command that cannot run poisons what it was to write, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("wgpu")

from pyrite.errors import KernelError
from pyrite.kernel import Kernel
from pyrite.runtime.wgpu import WgpuRuntime
from pyrite.runtime.wgpu.submission import Launch
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

    assert "scale requires external buffers that it can use, got one that was destroyed" in printed
