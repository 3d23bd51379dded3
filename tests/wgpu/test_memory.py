"""Tensors and an application's buffers are the same memory, in both directions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("wgpu")

import wgpu

import pyrite
from pyrite import Tensor
from pyrite.backend.device import Device
from pyrite.errors import ArgumentError, DeviceError, DTypeError, IndexRangeError, ShapeError
from pyrite.wgpu import buffer_of, from_buffer, init_device

ALL = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST

Pass = Callable[[Any, Any], None]


@pytest.fixture
def shared(application: wgpu.GPUDevice) -> Device:
    return init_device(application)


def buffer_with(gpu: wgpu.GPUDevice, values: Any) -> wgpu.GPUBuffer:
    return gpu.create_buffer_with_data(data=np.asarray(values, np.float32), usage=ALL)


def part(x: Tensor) -> tuple[wgpu.GPUBuffer, int, int]:
    """What an application binds of a tensor, by the calls that Burn has."""
    found = x.primitive()
    resource = found.client.get_resource(found.handle.binding()).resource()
    return resource.buffer(), resource.offset, resource.size


def report(device: Device) -> dict[str, Any]:
    backend: Any = device.backend.root
    found: dict[str, Any] = backend.runtime.report()
    return found


# ---- both directions ----


def test_a_pipeline_of_the_application_and_pyrite_copies_nothing(
    application: wgpu.GPUDevice, shared: Device, twice: Pass
) -> None:
    source, frame = buffer_with(application, range(64)), buffer_with(application, [0] * 64)
    result = buffer_with(application, [0] * 64)
    x = from_buffer(frame, (8, 8), "float32")

    twice((source, 0, 256), (frame, 0, 256))
    y = x.invalidate() @ pyrite.eye(8, device=shared) + 1.0
    twice(part(y), (result, 0, 256))

    got = np.frombuffer(application.queue.read_buffer(result), np.float32)
    assert got.tolist() == [2.0 * (2.0 * i + 1.0) for i in range(64)]
    assert (report(shared)["uploads"], report(shared)["read_backs"]) == (0, 0)


def test_the_application_sees_the_values_of_a_tensor(
    application: wgpu.GPUDevice, shared: Device
) -> None:
    x = pyrite.tensor(np.arange(12, dtype=np.float32).reshape(3, 4), device=shared) * 3.0

    resource = buffer_of(x[1])

    size, offset = resource.size, resource.offset
    data = application.queue.read_buffer(resource.buffer(), buffer_offset=offset, size=size)
    assert np.frombuffer(data, np.float32).tolist() == [12.0, 15.0, 18.0, 21.0]


def test_a_primitive_is_that_of_the_tensor_under_the_decorators(shared: Device) -> None:
    x = pyrite.tensor([1.0, 2.0], device=shared)
    lifted = x.to(pyrite.autodiff(shared)).require_grad()

    assert part(lifted) == part(x)


def test_whoever_holds_the_buffer_holds_the_memory(shared: Device) -> None:
    x = pyrite.tensor(np.full(64, 7, np.float32), device=shared)
    resource = buffer_of(x)
    gpu = resource.buffer()
    del x

    others = [pyrite.tensor(np.zeros(64, np.float32), device=shared) for _ in range(3)]

    assert all(part(other)[0] is not gpu for other in others)
    del resource
    assert part(pyrite.tensor(np.zeros(64, np.float32), device=shared))[0] is gpu


# ---- sharing among tensors ----


@pytest.mark.parametrize("level", [0, 1])
def test_clone_and_detach_share_and_a_write_does_not(shared: Device, level: int) -> None:
    where = pyrite.autodiff(shared) if level else shared
    x = pyrite.tensor([1.0, 2.0, 3.0], device=where)
    y = x.clone()
    before = part(x)
    assert part(y) == part(x.detach()) == before

    y = y.at[1].set(9.0)

    assert part(y)[0] is not part(x)[0]
    assert part(x) == before
    assert (x.tolist(), y.tolist()) == ([1.0, 2.0, 3.0], [1.0, 9.0, 3.0])


def test_a_view_shares_and_tells_where_it_begins(shared: Device) -> None:
    x = pyrite.tensor(np.zeros((4, 3), np.float32), device=shared)

    assert part(x[2]) == part(x)
    assert x[2].primitive().offset == 6
    assert buffer_of(x[2]).offset == part(x)[1] + 24


# ---- external memory has versions ----


def test_what_was_asked_for_before_a_write_keeps_its_value(
    application: wgpu.GPUDevice, shared: Device
) -> None:
    buffer = buffer_with(application, [1, 2, 3, 4])
    x = from_buffer(buffer, (4,), "float32")
    y = (x + 10.0).exp().log()

    application.queue.write_buffer(buffer, 0, np.zeros(4, np.float32))

    assert x.invalidate() is x
    assert x.tolist() == [0.0, 0.0, 0.0, 0.0]
    np.testing.assert_allclose(y.numpy(), [11, 12, 13, 14], rtol=1e-6)


def test_a_view_from_before_is_an_error_and_its_results_too(
    application: wgpu.GPUDevice, shared: Device
) -> None:
    x = from_buffer(buffer_with(application, range(4)), (2, 2), "float32")
    view, clone = x[0], x.clone()
    x.invalidate()

    for stale in (view, clone, clone + 1.0):
        with pytest.raises(DeviceError, match=r"got a view or clone from before invalidate\(\)"):
            stale.numpy()
    assert (x + 1.0).tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_an_index_into_a_view_from_before_is_an_error_of_that_alone(
    application: wgpu.GPUDevice, shared: Device
) -> None:
    x = from_buffer(buffer_with(application, range(4)), (4,), "float32")
    index = pyrite.tensor([1, 3], device=shared)
    view = x.clone()
    before = x.take(index, 0)
    x.invalidate()
    stale, after = view.take(index, 0), x.take(index, 0)

    for _ in range(2):
        with pytest.raises(DeviceError, match=r"got a view or clone from before invalidate\(\)"):
            stale.numpy()
        assert before.tolist() == after.tolist() == [1.0, 3.0]
    with pytest.raises(IndexRangeError):
        x.take(index * 2, 0).numpy()


def test_a_gradient_never_comes_of_a_version_that_is_gone(
    application: wgpu.GPUDevice, shared: Device
) -> None:
    x = from_buffer(buffer_with(application, range(4)), (4,), "float32")
    w = pyrite.ones((4,), device=pyrite.autodiff(shared)).require_grad()
    loss = (w * x.clone()).sum()
    x.invalidate()

    with pytest.raises(DeviceError, match="got a view or clone from before"):
        loss.backward()[w].numpy()


def test_pyrite_never_writes_or_gives_away_an_applications_memory(
    application: wgpu.GPUDevice, shared: Device
) -> None:
    buffer = buffer_with(application, range(64))
    x = from_buffer(buffer, (64,), "float32")
    x = x.at[0].set(5.0)
    del x

    made = [pyrite.tensor(np.zeros(64, np.float32), device=shared) for _ in range(4)]

    assert all(part(t)[0] is not buffer for t in made)
    got = np.frombuffer(application.queue.read_buffer(buffer), np.float32)
    assert got.tolist() == list(range(64))


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "bfloat16"])
def test_a_part_of_a_buffer_may_have_any_dtype(
    application: wgpu.GPUDevice, shared: Device, dtype: str
) -> None:
    array = np.arange(128, dtype=pyrite.dtype(dtype).numpy)
    data = np.concatenate([np.zeros(256, np.uint8), array.view(np.uint8)])
    buffer = application.create_buffer_with_data(data=data, usage=ALL)

    x = from_buffer(buffer, (4, 32), dtype, offset=256)

    assert np.array_equal(x.numpy(), array.reshape(4, 32))
    assert np.array_equal((x[1:] + 0).numpy(), array.reshape(4, 32)[1:])


def test_a_buffer_of_pyrites_own_device_needs_its_name(device: Device) -> None:
    backend: Any = device.backend.root
    buffer = buffer_with(backend.runtime.device.gpu, [1, 2, 3, 4])

    with pytest.raises(DeviceError, match=r"call init_device\(your device\) first"):
        from_buffer(buffer, (4,), "float32")

    assert from_buffer(buffer, (4,), "float32", device=device).tolist() == [1.0, 2.0, 3.0, 4.0]


# ---- mistakes, at the line that makes them ----


@pytest.mark.parametrize(
    ("usage", "shape", "message"),
    [
        ("STORAGE", (4,), r"the usage flags .* got a buffer without COPY_SRC \| COPY_DST; add"),
        (ALL, (5,), r"from_buffer requires 20 bytes for float32\[5\], got 16 from offset 0"),
    ],
)
def test_a_buffer_that_cannot_hold_the_tensor_is_refused(
    application: wgpu.GPUDevice, shared: Device, usage: Any, shape: tuple[int], message: str
) -> None:
    buffer = application.create_buffer(size=16, usage=usage)

    with pytest.raises(DeviceError, match=message) as caught:
        from_buffer(buffer, shape, "float32")
    assert str(caught.value.location).startswith(__file__)


@pytest.mark.parametrize("offset", [-256, 256.0])
def test_an_offset_before_the_buffer_is_refused(
    application: wgpu.GPUDevice, shared: Device, offset: Any
) -> None:
    buffer = buffer_with(application, [0] * 4)

    with pytest.raises(ArgumentError, match=f"an offset of 0 bytes or more, got {offset}"):
        from_buffer(buffer, (4,), "float32", offset=offset)
    with pytest.raises(ShapeError, match=r"from_buffer requires sizes >= 0, got shape \(-4,\)"):
        from_buffer(buffer, (-4,), "float32")
    assert from_buffer(buffer, (4,), "float32").tolist() == [0.0] * 4


def test_what_is_no_buffer_is_refused() -> None:
    with pytest.raises(DeviceError, match=r"requires a wgpu\.GPUBuffer, got bytes"):
        from_buffer(b"1234", (1,), "float32")


def test_a_buffer_of_another_device_is_refused(application: wgpu.GPUDevice, device: Device) -> None:
    with pytest.raises(DeviceError, match=r"of the device of wgpu, got GPUBuffer"):
        from_buffer(buffer_with(application, [0] * 4), (4,), "float32", device=device)


@pytest.mark.parametrize("name", ["cpu", "numpy"])
def test_only_wgpu_has_such_buffers(name: str) -> None:
    x = pyrite.ones((2,), device=name)

    with pytest.raises(DeviceError, match=f"buffer_of requires a tensor of a wgpu.* got {name}"):
        buffer_of(x)
    with pytest.raises(DeviceError, match="invalidate requires"):
        x.invalidate()


def test_an_array_has_no_buffer() -> None:
    with pytest.raises(DTypeError, match=r"buffer_of requires a tensor .*, got a NumPy array; c"):
        buffer_of(np.ones(2))  # type: ignore[arg-type]


def test_a_strided_view_has_no_buffer_of_its_own(shared: Device) -> None:
    with pytest.raises(ShapeError, match=r"row-major order, got strides \(1, 2\) of shape"):
        buffer_of(pyrite.ones((3, 2), device=shared).mT)


def test_invalidate_is_for_memory_of_the_application(shared: Device) -> None:
    with pytest.raises(DeviceError, match="got Pyrite's own, which nobody else writes to"):
        pyrite.ones((2,), device=shared).invalidate()
    with pytest.raises(DeviceError, match="on its own device, got one of autodiff"):
        pyrite.ones((2,), device=pyrite.autodiff(shared)).invalidate()
