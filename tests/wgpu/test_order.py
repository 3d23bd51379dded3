"""Commands on an application's memory wait, and go before what the application does next."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest

pytest.importorskip("wgpu")

import wgpu

import pyrite
from pyrite.backend.device import Device
from pyrite.config import config
from pyrite.extension import kernel
from pyrite.wgpu import from_buffer

U = wgpu.BufferUsage
ALL = U.STORAGE | U.COPY_SRC | U.COPY_DST


@kernel
def doubled_kernel(k: Any, x: Any, out: Any) -> None:
    out[k.at] = 2.0 * x[k.at]


@pyrite.custom_op(infer=lambda x: x, kernels=[doubled_kernel])
def doubled(x: pyrite.Tensor, /) -> pyrite.Tensor:
    """Twice as much."""
    ...


@pytest.fixture
def shared(application: wgpu.GPUDevice) -> Device:
    return pyrite.wgpu.init_device(application)


def buffer_with(gpu: wgpu.GPUDevice, values: Any) -> wgpu.GPUBuffer:
    return gpu.create_buffer_with_data(data=np.asarray(values, np.float32), usage=ALL)


def submissions(device: Device) -> int:
    backend: Any = device.backend.root
    number: int = backend.runtime.report()["submissions"]
    return number


@pytest.mark.skipif(config.guard is not None, reason="guarded mode makes copies")
def test_ops_on_a_buffer_are_submitted_together(
    application: wgpu.GPUDevice, shared: Device
) -> None:
    frames = [from_buffer(buffer_with(application, [n] * 4), (4,), "float32") for n in range(2)]
    doubled(frames[0], out=frames[1])  # type: ignore[call-arg]
    shared.synchronize()
    before = submissions(shared)

    for n in range(8):
        now, then = frames[n % 2], frames[1 - n % 2]
        doubled(now.invalidate() + 1.0, out=then)  # type: ignore[call-arg]
    assert submissions(shared) == before
    values = frames[0].tolist()

    assert values == [510.0] * 4
    assert submissions(shared) == before + 1


def test_each_call_that_could_see_or_change_memory_comes_after(
    application: wgpu.GPUDevice, shared: Device
) -> None:
    queue, target = application.queue, buffer_with(application, [0.0] * 4)

    def written(buffer: Any) -> None:
        queue.write_buffer(buffer, 0, np.full(4, 7, np.float32))

    def submitted(buffer: Any) -> None:
        encoder = application.create_command_encoder()
        encoder.copy_buffer_to_buffer(target, 0, buffer, 0, 16)
        queue.submit([encoder.finish()])

    changes = [written, submitted, lambda buffer: buffer.destroy()]
    for change in changes:
        buffer = buffer_with(application, [1, 2, 3, 4])
        y = from_buffer(buffer, (4,), "float32") + 1.0
        change(buffer)
        assert y.tolist() == [2.0, 3.0, 4.0, 5.0]


def test_a_flush_that_another_thread_began_is_waited_for(
    application: wgpu.GPUDevice, shared: Device
) -> None:
    buffer = buffer_with(application, [1, 2, 3, 4])
    backend: Any = shared.backend.root

    def submit() -> None:
        application.queue.submit([application.create_command_encoder().finish()])

    other = threading.Thread(target=submit)
    with backend.runtime._life.lock:  # so that the other thread is in the middle of its flush
        y = from_buffer(buffer, (4,), "float32") + 1.0
        other.start()
        time.sleep(0.05)
        application.queue.write_buffer(buffer, 0, np.full(4, -9, np.float32))
    other.join()

    assert y.tolist() == [2.0, 3.0, 4.0, 5.0]


def test_what_is_written_to_a_buffer_outlives_the_tensors(application: wgpu.GPUDevice) -> None:
    buffer = buffer_with(application, [1, 2, 3, 4])
    shared = pyrite.wgpu.init_device(application)
    x = pyrite.tensor([1.0, 2.0, 3.0, 4.0], device=shared)
    doubled(x, out=from_buffer(buffer, (4,), "float32"))  # type: ignore[call-arg]
    del x, shared
    gc.collect()

    assert np.frombuffer(application.queue.read_buffer(buffer), "f4").tolist() == [2, 4, 6, 8]


def test_nothing_is_held_for_it(adapter: wgpu.GPUAdapter) -> None:
    gpu = adapter.request_device_sync()
    buffer = buffer_with(gpu, [1, 2, 3, 4])
    y = from_buffer(buffer, (4,), "float32", device=pyrite.wgpu.init_device(gpu)) + 1.0
    held = [weakref.ref(gpu), weakref.ref(buffer)]
    del gpu, buffer, y
    gc.collect()

    assert [ref() for ref in held] == [None, None]
