"""Textures of an application as tensors and back, judged by wgpu-py's own copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("wgpu")

import wgpu

import pyrite
from pyrite.backend.device import Device
from pyrite.config import config
from pyrite.errors import ArgumentError, DeviceError, DTypeError, ShapeError
from pyrite.wgpu import copy_to_texture, from_texture
from pyrite.wgpu.texture import texels

USAGE = wgpu.TextureUsage.COPY_SRC | wgpu.TextureUsage.COPY_DST

FORMATS = [
    "r8unorm", "r8snorm", "r8uint", "r8sint", "rg8unorm", "rgba8unorm", "rgba8unorm-srgb",
    "bgra8unorm", "r16uint", "r16float", "rg16float", "rgba16float", "rgba16sint", "r32uint",
    "r32float", "rg32float", "rgba32sint", "rgba32float",
]  # fmt: skip


@pytest.fixture
def shared(application: wgpu.GPUDevice) -> Device:
    return pyrite.wgpu.init_device(application)


def texture_of(gpu: wgpu.GPUDevice, format: str, size: Any, **options: Any) -> Any:
    return gpu.create_texture(size=size, format=format, **{"usage": USAGE, **options})


def stored(gpu: wgpu.GPUDevice, texture: Any, level: int = 0, layers: int = 1) -> Any:
    """What wgpu-py reads of all layers of a level."""
    channels, element = texels(texture.format) or (0, pyrite.uint8)
    width, height = (max(1, n >> level) for n in texture.size[:2])
    data = gpu.queue.read_texture(
        {"texture": texture, "mip_level": level},
        {"bytes_per_row": width * channels * element.itemsize, "rows_per_image": height},
        (width, height, layers),
    )
    return np.frombuffer(data, element.numpy).reshape(layers, height, width, channels)


def values(format: str, shape: Any) -> Any:
    _, element = texels(format) or (0, pyrite.uint8)
    numbers = np.random.default_rng(len(format)).integers(0, 120, shape)
    return numbers.astype(element.numpy)


@pytest.mark.parametrize("size", [(5, 3), (64, 2), (1, 1)])
def test_every_format_goes_there_and_back(
    application: wgpu.GPUDevice, shared: Device, size: tuple[int, int]
) -> None:
    for format in FORMATS:
        channels, element = texels(format) or (0, pyrite.uint8)
        texture = texture_of(application, format, (*size, 1))
        array = values(format, (size[1], size[0], channels))

        copy_to_texture(pyrite.tensor(array, device=shared), texture)
        x = from_texture(texture)

        assert (x.shape, x.dtype) == (array.shape, element)
        np.testing.assert_array_equal(x.numpy(), array, err_msg=format)
        np.testing.assert_array_equal(stored(application, texture)[0], array, err_msg=format)


def test_levels_and_layers_are_apart(application: wgpu.GPUDevice, shared: Device) -> None:
    texture = texture_of(application, "rg16float", (13, 7, 3), mip_level_count=3)
    small, whole = values("rg16float", (3, 6, 2)), values("rg16float", (3, 7, 13, 2))

    copy_to_texture(pyrite.tensor(whole, device=shared), texture, layer=None)
    copy_to_texture(pyrite.tensor(small, device=shared), texture, layer=1, mip_level=1)

    assert np.array_equal(stored(application, texture, 0, 3), whole)
    assert np.array_equal(stored(application, texture, 1, 3), [0 * small, small, 0 * small])
    assert np.array_equal(from_texture(texture, layer=2).numpy(), whole[2])
    assert np.array_equal(from_texture(texture, layer=None).numpy(), whole)
    assert np.array_equal(from_texture(texture, layer=1, mip_level=1).numpy(), small)
    assert from_texture(texture, layer=None, mip_level=2).shape == (3, 1, 3, 2)


def test_a_volume_shrinks_in_depth_too(application: wgpu.GPUDevice, shared: Device) -> None:
    texture = texture_of(application, "r32float", (4, 3, 6), dimension="3d", mip_level_count=2)
    x = pyrite.arange(6, device=shared, dtype="float32").reshape((3, 1, 2, 1))

    copy_to_texture(x, texture, layer=None, mip_level=1)

    assert from_texture(texture, layer=2, mip_level=1).flatten().tolist() == [4.0, 5.0]
    with pytest.raises(ArgumentError, match="0 <= layer < 3, or None for all, got 3"):
        from_texture(texture, layer=3, mip_level=1)


def test_what_is_copied_may_lie_in_any_order(application: wgpu.GPUDevice, shared: Device) -> None:
    texture = texture_of(application, "rgba8unorm", (64, 5, 1))
    array = values("rgba8unorm", (4, 64, 9))
    x = pyrite.tensor(array, device=shared)

    for y, want in [
        (x.permute_dims((2, 1, 0))[::-1][2:7], array.transpose(2, 1, 0)[::-1][2:7]),
        (x[:, :1, 2:7].mT.permute_dims((1, 2, 0)).broadcast_to((5, 64, 4)), None),
    ]:
        copy_to_texture(y, texture)
        expected = y.numpy() if want is None else want
        assert np.array_equal(stored(application, texture)[0], expected)
        assert np.array_equal((from_texture(texture)[1:, ::2] + 0).numpy(), expected[1:, ::2])


@pytest.mark.skipif(config.guard is not None, reason="guarded mode makes copies")
def test_a_pipeline_stays_on_the_device_and_in_order(
    application: wgpu.GPUDevice, shared: Device
) -> None:
    source, target = (texture_of(application, "r32float", (16, 16, 1)) for _ in range(2))
    place = {"texture": source}
    rows = {"bytes_per_row": 64, "rows_per_image": 16}
    backend: Any = shared.backend.root
    pyrite.zeros((1,), device=shared).numpy()
    before = backend.runtime.report()
    results = []
    for step in range(3):
        # Not submitted yet is what the step before asked for: it goes first.
        frame = np.full((16, 16), step, np.float32)
        application.queue.write_texture(place, frame, rows, (16, 16, 1))
        results.append(from_texture(source) * 2.0 + 1.0)
        copy_to_texture(results[-1], target)
    after = backend.runtime.report()

    assert (stored(application, target) == 5.0).all()
    assert after["read_backs"] == before["read_backs"]
    assert after["uploads"] == before["uploads"]
    assert [float(r.mean().item()) for r in results] == [1.0, 3.0, 5.0]


@pytest.mark.skipif(config.guard is not None, reason="guarded mode makes copies")
def test_frames_allocate_nothing_and_are_one_submission_each(
    application: wgpu.GPUDevice, shared: Device
) -> None:
    source, target = (texture_of(application, "rgba8unorm", (20, 10, 1)) for _ in range(2))
    backend: Any = shared.backend.root

    def frame() -> None:
        x = from_texture(source).astype("float32") / 255.0
        copy_to_texture(((1.0 - x) * 255.0).round().astype("uint8"), target)

    def counts() -> list[int]:
        shared.synchronize()
        told = backend.runtime.report()
        names = ("bind_group_misses", "uploads", "read_backs", "kernels", "submissions")
        return [backend.runtime.memory_report().reserved, *(told[name] for name in names)]

    for _ in range(4):
        frame()
    before = counts()
    for _ in range(8):
        frame()

    after = counts()
    assert after[:-1] == before[:-1]
    assert after[-1] <= before[-1] + 8 + 1
    assert (from_texture(target) == 255).all().item()


@pytest.mark.parametrize("lift", [pyrite.fusion, pyrite.autodiff])
def test_a_tensor_under_decorators_is_copied(
    application: wgpu.GPUDevice, shared: Device, lift: Any
) -> None:
    texture = texture_of(application, "rg32float", (3, 2, 1))
    x = pyrite.arange(12, dtype="float32", device=lift(shared)).reshape((2, 3, 2))

    copy_to_texture(x * 2.0 + 1.0, texture)

    assert from_texture(texture).flatten().tolist() == [2.0 * n + 1.0 for n in range(12)]


def test_a_texture_that_was_destroyed_is_an_error_of_the_read_alone(
    application: wgpu.GPUDevice, shared: Device
) -> None:
    texture = texture_of(application, "r32float", (4, 4, 1))
    seen = from_texture(texture)
    texture.destroy()  # a submit that uses it would abort the process
    late = from_texture(texture)

    assert not seen.numpy().any()
    with pytest.raises(DeviceError, match=r"from_texture requires a texture .* was destroyed"):
        late.numpy()
    assert pyrite.ones((2,), device=shared).tolist() == [1.0, 1.0]


def test_a_write_of_a_failed_result_is_an_error_at_once(
    application: wgpu.GPUDevice, shared: Device
) -> None:
    gone = texture_of(application, "r32float", (64, 4, 1))
    gone.destroy()
    lost, target = from_texture(gone), texture_of(application, "r32float", (64, 4, 1))

    with pytest.raises(DeviceError, match="was destroyed"):
        copy_to_texture(lost, target)


# ---- mistakes ----


def test_mistakes_say_what_to_write(application: wgpu.GPUDevice, shared: Device) -> None:
    texture = texture_of(application, "rgba8unorm", (4, 2, 1))
    x = pyrite.zeros((2, 4, 4), device=shared)
    scaled = r"got float32; write \(x\.clip\(0\.0, 1\.0\) \* 255\.0\)\.round\(\)\.astype\('uint8'\)"
    with pytest.raises(DTypeError, match=f"uint8 for a texture of rgba8unorm, {scaled}"):
        copy_to_texture(x, texture)
    with pytest.raises(ShapeError, match=r"the shape \(2, 4, 4\) of .* got \(4, 2, 4\)"):
        copy_to_texture(pyrite.zeros((4, 2, 4), device=shared, dtype="uint8"), texture)
    with pytest.raises(DeviceError, match="a tensor of a wgpu device, got cpu"):
        copy_to_texture(pyrite.zeros((2, 4, 4), device="cpu", dtype="uint8"), texture)
    with pytest.raises(DTypeError, match="a NumPy array"):
        copy_to_texture(np.zeros((2, 4, 4), np.uint8), texture)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="0 <= mip_level < 1, got 1"):
        from_texture(texture, mip_level=1)
    with pytest.raises(DeviceError, match=r"requires a wgpu\.GPUTexture, got GPUTextureView"):
        from_texture(texture.create_view())


def test_textures_that_cannot_be_copied_are_refused(
    application: wgpu.GPUDevice, shared: Device
) -> None:
    depth = texture_of(application, "depth32float", (4, 4, 1))
    with pytest.raises(DTypeError, match=r"numbers a texel, .* got depth32float"):
        from_texture(depth)
    bound = texture_of(application, "r8unorm", (4, 4, 1), usage=wgpu.TextureUsage.TEXTURE_BINDING)
    with pytest.raises(DeviceError, match="the usage flag COPY_SRC, got a texture without; add"):
        from_texture(bound)
    with pytest.raises(DeviceError, match="the usage flag COPY_DST, got a texture without"):
        copy_to_texture(pyrite.zeros((4, 4, 1), device=shared), bound)
    usage = USAGE | wgpu.TextureUsage.RENDER_ATTACHMENT
    samples = texture_of(application, "rgba8unorm", (4, 4, 1), sample_count=4, usage=usage)
    with pytest.raises(DeviceError, match="one sample, got 4; resolve it"):
        from_texture(samples)


def test_a_texture_of_an_unknown_device_is_refused(application: wgpu.GPUDevice) -> None:
    texture = texture_of(application, "r8unorm", (4, 4, 1))
    with pytest.raises(DeviceError, match=r"call init_device\(your device\) first"):
        from_texture(texture)
