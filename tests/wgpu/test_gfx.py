"""pygfx draws from the memory of a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("wgpu")
pytest.importorskip("pygfx")

import pygfx as gfx
from rendercanvas.offscreen import OffscreenRenderCanvas

import pyrite
from pyrite import Tensor, custom_op
from pyrite.errors import DTypeError, ShapeError
from pyrite.extension import Vector, kernel
from pyrite.wgpu import gfx as door
from pyrite.wgpu.texture import texels


@kernel(inner=1)
def shifted_kernel(k: Any, x: Any, out: Any, *, by: float) -> None:
    out[k.at] = x[k.at] + Vector(by, 0.0, 0.0)


@custom_op(infer=lambda x, *, by: x, kernels=[shifted_kernel])
def shifted(x: Tensor, /, *, by: float) -> Tensor:
    """Points moved to the right."""
    ...


class Scene:
    """Points on black, drawn without a window."""

    def __init__(self, positions: Any) -> None:
        self.canvas = OffscreenRenderCanvas(size=(64, 64), pixel_ratio=1)
        self.renderer = gfx.renderers.WgpuRenderer(self.canvas)
        self.scene, self.camera = gfx.Scene(), gfx.OrthographicCamera(10, 10)
        material = gfx.PointsMaterial(size=8, color="#fff", aa=False)
        self.scene.add(gfx.Points(gfx.Geometry(positions=positions), material))
        self.canvas.request_draw(lambda: self.renderer.render(self.scene, self.camera))

    def picture(self) -> Any:
        return np.asarray(self.canvas.draw())[..., 0].copy()


def test_what_a_kernel_writes_is_drawn() -> None:
    points = np.array([[-3, 1, 0], [2, -2, 0], [0, 3, 0]], np.float32)
    buffer, tensor = door.buffer((3, 3))
    scene = Scene(buffer)

    shifted(pyrite.tensor(points, device=door.device()), by=0.0, out=tensor)  # type: ignore[call-arg]
    first = scene.picture()
    shifted(tensor, by=1.5, out=tensor)  # type: ignore[call-arg]
    second = scene.picture()

    moved = points + np.array([1.5, 0, 0], np.float32)
    want = [Scene(gfx.Buffer(array)).picture() for array in (points, moved)]
    assert 100 < (want[0] > 128).sum() < 400
    assert np.array_equal(first, want[0])
    assert np.array_equal(second, want[1])
    assert not np.array_equal(first, second)


def test_the_memory_is_one_and_begins_as_zeros() -> None:
    buffer, tensor = door.buffer((5,), "uint32")

    assert tensor.tolist() == [0] * 5
    assert pyrite.wgpu.buffer_of(tensor).buffer() is buffer._wgpu_object
    assert (buffer.nitems, buffer.format, buffer.nbytes) == (5, "u4", 20)
    # Renderers have the device that tensors are on.
    assert gfx.renderers.wgpu.get_shared().device is buffer._wgpu_object._device


def picture_of(texture: Any) -> Any:
    """A texture, drawn as an image texel by texel."""
    canvas = OffscreenRenderCanvas(size=(8, 4), pixel_ratio=1)
    renderer = gfx.renderers.WgpuRenderer(canvas)
    renderer.pixel_scale = 1
    renderer.ppaa = "none"
    image = gfx.Image(
        gfx.Geometry(grid=texture),
        gfx.ImageBasicMaterial(clim=(0, 1 if "f" in texture.format else 255)),
    )
    camera = gfx.OrthographicCamera(8, 4)
    camera.local.position = (3.5, 1.5, 0)
    camera.local.scale_y = -1
    scene = gfx.Scene()
    scene.add(image)
    canvas.request_draw(lambda: renderer.render(scene, camera))
    return np.asarray(canvas.draw())[..., :3].astype(int)


@pytest.mark.parametrize("format", ["rgba8unorm", "rgba8unorm-srgb", "r32float", "rgba16float"])
def test_what_is_copied_to_a_texture_is_drawn(format: str) -> None:
    channels, element = texels(format) or (0, pyrite.uint8)
    rng = np.random.default_rng(3)
    pixels = rng.uniform(0, 1, (4, 8, channels))
    pixels = pixels * 255 if element == pyrite.uint8 else pixels
    array = pixels.astype(element.numpy)
    array[..., 3:] = 255 if element == pyrite.uint8 else 1
    texture, target = door.texture((4, 8), format)
    x = pyrite.tensor(array, device=door.device())

    pyrite.wgpu.copy_to_texture(x, target)

    space = "tex-srgb" if format.endswith("-srgb") else "srgb"
    want = picture_of(gfx.Texture(array, dim=2, colorspace=space))
    got = picture_of(texture)
    assert want.std() > 30
    assert np.abs(got - want).max() <= 1
    pyrite.wgpu.copy_to_texture(x * 0, target)
    assert picture_of(texture)[..., 0].max() == 0
    assert pyrite.wgpu.from_texture(target).sum().item() == 0


def test_what_pygfx_cannot_hold_is_refused() -> None:
    with pytest.raises(ShapeError, match="one or two axes with elements, got shape"):
        door.buffer((0, 3))
    with pytest.raises(DTypeError, match=r"requires a dtype of float32, .*, got float64"):
        door.buffer((4,), "float64")
    with pytest.raises(ShapeError, match=r"a height and a width of 1 or more, got shape \(4,\)"):
        door.texture((4,))
    with pytest.raises(DTypeError, match=r"a format of numbers, .* got depth24plus"):
        door.texture((4, 4), "depth24plus")


def test_the_module_is_imported_when_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(pyrite.wgpu, "gfx")

    assert pyrite.wgpu.gfx is door
    with pytest.raises(AttributeError, match=r"'pyrite.wgpu' has no attribute 'nonesuch'"):
        pyrite.wgpu.nonesuch  # noqa: B018
