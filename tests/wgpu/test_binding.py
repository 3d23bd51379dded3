"""What a tensor on an application's device may be bound as."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("wgpu")

import wgpu

import pyrite
from pyrite.backend.device import Device
from pyrite.errors import ArgumentError, DeviceError
from pyrite.wgpu import buffer_of, from_buffer

#: Two triangles by an index buffer, moved and scaled by a uniform.
DRAW = """
@group(0) @binding(0) var<uniform> place: vec4<f32>;
@vertex fn corner(@location(0) p: vec2<f32>) -> @builtin(position) vec4<f32> {
    return vec4<f32>(p * place.zw + place.xy, 0.0, 1.0);
}
@fragment fn white() -> @location(0) vec4<f32> { return vec4<f32>(1.0); }
"""


@pytest.fixture
def shared(application: wgpu.GPUDevice) -> Device:
    return pyrite.wgpu.init_device(application)


def drawn(gpu: Any, corners: Any, order: Any, place: Any, counts: Any) -> Any:
    """The picture of a pass that takes corners, order, place and counts from tensors."""
    module = gpu.create_shader_module(code=DRAW)
    attribute = {"format": "float32x2", "offset": 0, "shader_location": 0}
    pipeline = gpu.create_render_pipeline(
        layout="auto",
        vertex={
            "module": module, "entry_point": "corner",
            "buffers": [{"array_stride": 8, "attributes": [attribute]}],
        },
        fragment={
            "module": module, "entry_point": "white", "targets": [{"format": "r8unorm"}],
        },
    )  # fmt: skip
    usage = wgpu.TextureUsage.RENDER_ATTACHMENT | wgpu.TextureUsage.COPY_SRC
    target = gpu.create_texture(size=(8, 8, 1), format="r8unorm", usage=usage)
    held = buffer_of(place, alignment=256)  # until the pass is submitted: it may be a copy
    group = gpu.create_bind_group(
        layout=pipeline.get_bind_group_layout(0),
        entries=[{"binding": 0, "resource": held.binding()}],
    )
    encoder = gpu.create_command_encoder()
    attachment = {"view": target.create_view(), "load_op": "clear", "store_op": "store"}
    draw = encoder.begin_render_pass(color_attachments=[attachment])
    draw.set_pipeline(pipeline)
    draw.set_bind_group(0, group)
    vertices, number = (buffer_of(t, alignment=4) for t in (corners, counts))
    # Copied: lavapipe misses the last indices where they begin inside of a buffer.
    indices = buffer_of(order, alignment=256)
    draw.set_vertex_buffer(0, vertices.buffer(), vertices.offset, vertices.size)
    draw.set_index_buffer(indices.buffer(), "uint32", indices.offset, indices.size)
    draw.draw_indexed_indirect(number.buffer(), number.offset)
    draw.end()
    gpu.queue.submit([encoder.finish()])
    return pyrite.wgpu.from_texture(target)[..., 0].numpy() // 255


def test_tensors_are_vertices_indices_uniforms_and_counts(
    application: wgpu.GPUDevice, shared: Device
) -> None:
    corners = pyrite.tensor(
        [[9, 9], [-1, -1], [1, -1], [1, 1], [-1, 1]], dtype="float32", device=shared
    )
    order = pyrite.tensor([[9, 9, 9], [0, 1, 2], [2, 3, 0]], dtype="uint32", device=shared)
    places = pyrite.tensor([[0, 0, 1, 1], [0.5, 0.5, 0.25, 0.5]], dtype="float32", device=shared)
    counts = pyrite.tensor([6, 1, 0, 0, 0], dtype="uint32", device=shared)

    # The second place and all triangles but the first are slices that begin inside.
    got = drawn(application, corners[1:], order[1:], places[1], counts)

    want = np.zeros((8, 8), np.uint8)
    want[0:4, 5:7] = 1
    assert np.array_equal(got, want)


def test_a_slice_is_bound_or_copied_or_refused(application: wgpu.GPUDevice, shared: Device) -> None:
    x = pyrite.arange(256, device=shared, dtype="float32").reshape((4, 64))
    x.device.synchronize()
    inside = x[1:, :].reshape((-1,))[3:67]

    assert buffer_of(x[1]).binding()["buffer"] is buffer_of(x).buffer()  # 256 bytes: as it is
    with pytest.raises(DeviceError, match=r"a multiple of \d+ bytes, got 268; take buffer_of\(x, "):
        buffer_of(inside).binding()
    copied = buffer_of(inside, alignment=256)

    assert copied.binding() == {"buffer": copied.buffer(), "offset": 0, "size": 256}
    values = application.queue.read_buffer(copied.buffer(), 0, 256)
    assert np.array_equal(np.frombuffer(values, np.float32), np.arange(67, 131, dtype=np.float32))
    assert buffer_of(inside, alignment=4).buffer() is buffer_of(x).buffer()
    with pytest.raises(ArgumentError, match="a power of two up to 256, got 24"):
        buffer_of(inside, alignment=24)


def test_an_offset_inside_is_refused_with_the_way_to_it(
    application: wgpu.GPUDevice, shared: Device
) -> None:
    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
    data = np.arange(128, dtype=np.float32)
    buffer = application.create_buffer_with_data(data=data, usage=usage)

    with pytest.raises(DeviceError, match="take what begins at 256 and slice the tensor"):
        from_buffer(buffer, (4,), "float32", offset=264)
    assert from_buffer(buffer, (6,), "float32", offset=256)[2:].tolist() == [66, 67, 68, 69]
