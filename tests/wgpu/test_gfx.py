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


def test_what_pygfx_cannot_hold_is_refused() -> None:
    with pytest.raises(ShapeError, match="one or two axes with elements, got shape"):
        door.buffer((0, 3))
    with pytest.raises(DTypeError, match=r"requires a dtype of float32, .*, got float64"):
        door.buffer((4,), "float64")
