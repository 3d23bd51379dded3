"""A device of an application that knows nothing but wgpu-py, and what it does there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("wgpu")

import wgpu

import pyrite
from pyrite.backend.device import Device, device_problem

#: Numbers become twice as many, in another buffer.
TWICE = """
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) i: vec3<u32>) {
    if (i.x < arrayLength(&y)) { y[i.x] = 2.0 * x[i.x]; }
}
"""

Pass = Callable[[Any, Any], None]


@pytest.fixture(scope="session")
def device() -> Device:
    if problem := device_problem("wgpu"):
        pytest.skip(problem)
    return pyrite.device("wgpu")


@pytest.fixture(scope="session")
def adapter(device: Device) -> wgpu.GPUAdapter:
    """The adapter of which an application requests its devices."""
    backend: Any = device.backend.root
    return backend.runtime.device.gpu.adapter


@pytest.fixture
def application(adapter: wgpu.GPUAdapter) -> wgpu.GPUDevice:
    """An application's own device."""
    return adapter.request_device_sync()


@pytest.fixture
def twice(application: wgpu.GPUDevice) -> Pass:
    """A compute pass of the application, from one (buffer, offset, size) to another."""
    module = application.create_shader_module(code=TWICE)
    pipeline = application.create_compute_pipeline(layout="auto", compute={"module": module})

    def run(source: Any, target: Any) -> None:
        parts = [{"buffer": b, "offset": o, "size": s} for b, o, s in (source, target)]
        group = application.create_bind_group(
            layout=pipeline.get_bind_group_layout(0),
            entries=[{"binding": i, "resource": part} for i, part in enumerate(parts)],
        )
        encoder = application.create_command_encoder()
        compute_pass = encoder.begin_compute_pass()
        compute_pass.set_pipeline(pipeline)
        compute_pass.set_bind_group(0, group)
        compute_pass.dispatch_workgroups(-(-source[2] // 256))
        compute_pass.end()
        application.queue.submit([encoder.finish()])

    return run
