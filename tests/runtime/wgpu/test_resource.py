"""One device shared with an application that knows nothing but wgpu-py, in both directions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("wgpu")

import wgpu

from pyrite.errors import DeviceError
from pyrite.kernel import Kernel
from pyrite.runtime.wgpu import WgpuRuntime, init_device
from pyrite.types import float32

ALL = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST

NEGATE = """
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) i: vec3<u32>) { x[i.x] = -x[i.x]; }
"""


@pytest.fixture
def application(device: Any) -> wgpu.GPUDevice:
    """An application's own device."""
    return device.gpu.adapter.request_device_sync()


@pytest.fixture
def shared(application: wgpu.GPUDevice) -> Iterator[WgpuRuntime]:
    runtime = WgpuRuntime(init_device(application))
    yield runtime
    runtime.close()


def negate(gpu: wgpu.GPUDevice, buffer: wgpu.GPUBuffer, offset: int, size: int) -> None:
    """The application's compute pass."""
    module = gpu.create_shader_module(code=NEGATE)
    pipeline = gpu.create_compute_pipeline(layout="auto", compute={"module": module})
    resource = {"buffer": buffer, "offset": offset, "size": size}
    group = gpu.create_bind_group(
        layout=pipeline.get_bind_group_layout(0), entries=[{"binding": 0, "resource": resource}]
    )
    encoder = gpu.create_command_encoder()
    compute_pass = encoder.begin_compute_pass()
    compute_pass.set_pipeline(pipeline)
    compute_pass.set_bind_group(0, group)
    compute_pass.dispatch_workgroups(size // 256)
    compute_pass.end()
    gpu.queue.submit([encoder.finish()])


def test_an_application_works_on_pyrites_memory_without_a_copy(
    application: wgpu.GPUDevice, shared: WgpuRuntime, scale: Kernel
) -> None:
    x = shared.upload(np.arange(128, dtype=np.float32))
    y = shared.allocate(512)
    shared.launch(shared.compile(scale), [x, y, 128, 2.0], [2])

    resource = shared.get_resource(y.view(256, 256)).resource()
    negate(application, resource.buffer(), resource.offset, resource.size)

    got = shared.read(y, float32, (128,))
    np.testing.assert_array_equal(got[:64], np.arange(64.0) * 2)
    np.testing.assert_array_equal(got[64:], np.arange(64.0, 128) * -2)


def test_pyrite_works_on_an_applications_buffer_without_a_copy(
    application: wgpu.GPUDevice, shared: WgpuRuntime, scale: Kernel
) -> None:
    own = application.create_buffer_with_data(data=np.ones(128, np.float32), usage=ALL)
    buffer = shared.from_buffer(own, offset=256)
    kernel = shared.compile(scale)

    shared.launch(kernel, [buffer, buffer, 64, 5.0], [1])
    shared.flush()

    got = np.frombuffer(application.queue.read_buffer(own), np.float32)
    assert got.tolist() == [1.0] * 64 + [5.0] * 64


def test_who_holds_a_resource_holds_the_memory(shared: WgpuRuntime) -> None:
    x = shared.upload(np.full(64, 7, np.float32))
    resource = shared.get_resource(x).resource()
    gpu = resource.buffer()
    del x

    others = [shared.upload(np.zeros(64, np.float32)) for _ in range(3)]

    assert all(other.storage.gpu is not gpu for other in others)
    assert (resource.offset, resource.size) == (0, 256)
    del resource
    assert shared.allocate(256).storage.gpu is gpu


def test_an_external_buffer_is_never_given_to_another(
    application: wgpu.GPUDevice, shared: WgpuRuntime
) -> None:
    own = application.create_buffer(size=256, usage=ALL)
    shared.from_buffer(own)

    assert shared.allocate(256).storage.gpu is not own
    assert shared.memory_report().reserved == 256


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda gpu: gpu.create_buffer(size=64, usage="STORAGE"), r"got a buffer without COPY_SRC"),
        (lambda gpu: gpu.create_buffer(size=66, usage=ALL), "whole vectors of 16 bytes"),
        (lambda gpu: b"bytes", r"requires a wgpu\.GPUBuffer of the device of wgpu, got bytes"),
    ],
)
def test_a_buffer_that_cannot_be_used_is_refused(
    application: wgpu.GPUDevice,
    shared: WgpuRuntime,
    make: Callable[[wgpu.GPUDevice], Any],
    message: str,
) -> None:
    with pytest.raises(DeviceError, match=message):
        shared.from_buffer(make(application))


def test_a_buffer_of_another_device_is_refused(
    application: wgpu.GPUDevice, runtime: WgpuRuntime
) -> None:
    with pytest.raises(DeviceError, match="of the device of wgpu"):
        runtime.from_buffer(application.create_buffer(size=256, usage=ALL))


def test_what_was_asked_for_before_the_application_writes_sees_what_was_there(
    application: wgpu.GPUDevice, shared: WgpuRuntime, scale: Kernel
) -> None:
    own = application.create_buffer_with_data(data=np.ones(64, np.float32), usage=ALL)
    external, y = shared.from_buffer(own), shared.allocate(256)
    shared.launch(shared.compile(scale), [external, y, 64, 3.0], [1])

    application.queue.write_buffer(own, 0, np.zeros(64, np.float32))

    assert shared.read(y, float32, (64,)).tolist() == [3.0] * 64


def test_a_renewed_buffer_takes_the_place_of_the_one_before(
    application: wgpu.GPUDevice, shared: WgpuRuntime, scale: Kernel
) -> None:
    own = application.create_buffer(size=256, usage=ALL)
    before, y = shared.from_buffer(own), shared.allocate(256)
    application.queue.write_buffer(own, 0, np.ones(64, np.float32))

    after = shared.renew(before)

    assert after.storage is before.storage
    assert shared.read(after, float32, (64,)).tolist() == [1.0] * 64
    shared.launch(shared.compile(scale), [before, y, 64, 3.0], [1])
    for stale in (before, y):
        with pytest.raises(DeviceError, match=r"got a view or clone from before invalidate\(\)"):
            shared.read(stale, float32, (64,))


def test_pyrites_own_memory_is_not_renewed(shared: WgpuRuntime) -> None:
    with pytest.raises(DeviceError, match="invalidate requires memory of the application"):
        shared.renew(shared.allocate(256))


def test_a_destroyed_buffer_poisons_what_is_made_of_it_and_nothing_else(
    application: wgpu.GPUDevice, shared: WgpuRuntime, scale: Kernel
) -> None:
    kernel = shared.compile(scale)
    own = application.create_buffer(size=256, usage=ALL)
    external, x = shared.from_buffer(own), shared.upload(np.ones(64, np.float32))
    y, z, good = (shared.allocate(256) for _ in range(3))
    shared.launch(kernel, [external, y, 64, 1.0], [1])

    own.destroy()  # a submit would abort the process now
    shared.launch(kernel, [external, y, 64, 1.0], [1])
    shared.launch(kernel, [y, z, 64, 1.0], [1])
    shared.launch(kernel, [x, good, 64, 3.0], [1])

    for poisoned in (y, z):
        with pytest.raises(DeviceError, match=r"scale requires buffers .* that was destroyed"):
            shared.read(poisoned, float32, (64,))
    assert shared.read(good, float32, (64,)).tolist() == [3.0] * 64


def test_a_read_of_a_destroyed_buffer_says_which_it_was(
    application: wgpu.GPUDevice, shared: WgpuRuntime
) -> None:
    own = application.create_buffer(size=256, usage=ALL, label="vertices")
    external = shared.from_buffer(own)
    own.destroy()

    with pytest.raises(DeviceError, match=r"got a wgpu\.GPUBuffer 'vertices' of 256 bytes that"):
        shared.read(external, float32, (64,))


def test_a_mapped_buffer_poisons_what_is_made_of_it(
    application: wgpu.GPUDevice, shared: WgpuRuntime
) -> None:
    own = application.create_buffer(size=256, usage=ALL, mapped_at_creation=True)
    y = shared.allocate(256)
    shared.copy(shared.from_buffer(own), y)

    with pytest.raises(DeviceError, match="GPUBuffer of 256 bytes that is mapped; unmap it before"):
        shared.read(y, float32, (64,))

    own.unmap()
    again = shared.allocate(256)
    shared.copy(shared.from_buffer(own), again)
    assert shared.read(again, float32, (64,)).tolist() == [0.0] * 64


def test_memory_that_was_poisoned_is_good_for_its_next_holder(
    application: wgpu.GPUDevice, shared: WgpuRuntime
) -> None:
    own = application.create_buffer(size=256, usage=ALL)
    y, external = shared.allocate(256), shared.from_buffer(own)
    own.destroy()
    shared.copy(external, y)
    storage = y.storage
    del y

    again = shared.upload(np.ones(64, np.float32))

    assert again.storage is storage
    assert shared.read(again, float32, (64,)).tolist() == [1.0] * 64
