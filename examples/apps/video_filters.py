"""Filters over the frames of a camera: a small convolutional network that removes noise, and edges.

    python examples/apps/video_filters.py [--device cpu] [--frames 120] [--steps 150] [--out f.png]

The frames are real: a camera pans over the photograph of a flower that scikit-learn ships.  The
network is trained before, on the other photograph, with noise as the camera's.  On a wgpu device a
frame arrives in a texture and leaves in one, as from a decoder to a window: nothing is read back.
The picture shows the camera's frame, what the network makes of it, and its edges.

On the machine of the tests (cpu, two cores, at real-time priority) a frame of 320 x 240 took 11 ms:
90 a second.
Source: the residual that the network computes is from Zhang et al., Beyond a Gaussian denoiser,
arXiv:1608.03981.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_image

import pyrite
from pyrite import Tensor, nn

#: The standard deviation of the camera's noise, where white is 1.
NOISE = 0.12


class Denoiser(nn.Module):
    """Three convolutions that compute the noise of a picture: (N, 3, H, W) -> (N, 3, H, W)."""

    def __init__(self, channels: int = 16) -> None:
        self.first = nn.Conv2d(3, channels, 3, padding=1)
        self.inner = nn.Conv2d(channels, channels, 3, padding=1)
        self.last = nn.Conv2d(channels, 3, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Return x without its noise."""
        return x - self.last(self.inner(self.first(x).relu()).relu())


def photograph(name: str) -> Any:
    """One of scikit-learn's two photographs, as (3, H, W) of 0 to 1."""
    return (load_sample_image(name).astype(np.float32) / 255.0).transpose(2, 0, 1)


def trained(steps: int, device: Any, *, seed: int = 0) -> Denoiser:
    """Return a network trained on pieces of a photograph of roofs."""
    rng, picture = np.random.default_rng(seed), photograph("china.jpg")
    pyrite.seed(seed)
    model, optimizer = Denoiser().to(device), pyrite.optim.Adam(learning_rate=3e-3)

    def loss(model: Denoiser, noisy: Tensor, clean: Tensor) -> Tensor:
        return ((model(noisy) - clean) ** 2).mean()

    for _ in range(steps):
        places = rng.integers(0, (picture.shape[1] - 32, picture.shape[2] - 32), (8, 2))
        clean = np.stack([picture[:, i : i + 32, j : j + 32] for i, j in places])
        noisy = clean + rng.normal(0, NOISE, clean.shape).astype(np.float32)
        batch = (pyrite.tensor(part, device=device) for part in (noisy, clean))
        _, gradients = pyrite.value_and_grad(loss)(model, *batch)
        model = optimizer.step(model, gradients)
    return model


def frames(count: int, height: int, width: int, *, noise: float = NOISE) -> Iterator[Any]:
    """What a camera sees that pans over the flower: uint8 of (H, W, 4), with its noise."""
    rng, picture = np.random.default_rng(1), Image.fromarray(load_sample_image("flower.jpg"))
    side = min(picture.width, picture.height * width / height)
    for n in range(count):
        left = max(0.0, picture.width - side) * n / max(1, count - 1)
        view = picture.resize((width, height), box=(left, 0, left + side, picture.height))
        seen = np.asarray(view, np.float32) / 255.0
        seen = seen + rng.normal(0, noise, seen.shape) if noise else seen
        opaque = np.full((*seen.shape[:2], 1), 1.0)
        yield (np.concatenate([seen, opaque], -1).clip(0, 1) * 255).round().astype(np.uint8)


def filtered(model: Denoiser, frame: Tensor) -> tuple[Tensor, Tensor]:
    """Return a frame without noise, and its edges: uint8 (H, W, 4) -> twice the same."""
    x = frame[..., :3].permute_dims((2, 0, 1)).astype("float32") / 255.0
    clean = model(x.unsqueeze(0)).squeeze(0).clip(0.0, 1.0)
    padded = clean.mean(0).pad(((1, 1), (1, 1)), mode="edge")
    down, right = padded[2:, 1:-1] - padded[:-2, 1:-1], padded[1:-1, 2:] - padded[1:-1, :-2]
    edges = ((down**2 + right**2).sqrt() * 4.0).clip(0.0, 1.0)
    return _pixels(clean), _pixels(edges.unsqueeze(0).broadcast_to(clean.shape))


def _pixels(x: Tensor) -> Tensor:
    opaque = pyrite.ones((1, *x.shape[1:]), device=x.device)
    colors = pyrite.concat([x, opaque], axis=0).permute_dims((1, 2, 0))
    return (colors * 255.0).round().astype("uint8")


class Screen:
    """Textures of a GPU that a frame goes through, from a camera to a window."""

    def __init__(self, device: Any, height: int, width: int) -> None:
        import wgpu

        self.gpu = pyrite.wgpu.buffer_of(pyrite.zeros((1,), device=device)).buffer()._device
        usage = wgpu.TextureUsage.COPY_DST | wgpu.TextureUsage.COPY_SRC
        size = (width, height, 1)
        self.size, self.camera, self.window = (
            size,
            *(
                self.gpu.create_texture(size=size, format="rgba8unorm", usage=usage)
                for _ in range(2)
            ),
        )

    def show(self, model: Denoiser, frame: Any) -> None:
        """Take a frame from the camera and put what is made of it on the screen."""
        rows = {"bytes_per_row": 4 * self.size[0], "rows_per_image": self.size[1]}
        self.gpu.queue.write_texture({"texture": self.camera}, frame, rows, self.size)
        clean, _ = filtered(model, pyrite.wgpu.from_texture(self.camera))
        pyrite.wgpu.copy_to_texture(clean, self.window)


def main(arguments: Sequence[str] | None = None) -> Any:
    """Train, filter, and save a picture of the last frame; return it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default=None)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--frames", type=int, default=60)
    parser.add_argument("--size", type=int, default=240)
    parser.add_argument("--out", default="video_filters.png")
    given = parser.parse_args(arguments)
    device = pyrite.device(given.device)
    model = trained(given.steps, device)
    height, width = given.size, given.size * 4 // 3
    film = list(frames(given.frames, height, width))
    shown = [pyrite.tensor(film[0], device=device)]
    shown[1:] = filtered(model, shown[0])
    device.synchronize()
    began = time.perf_counter()
    for frame in film:
        shown = [pyrite.tensor(frame, device=device)]
        shown[1:] = filtered(model, shown[0])
        device.synchronize()
    took = (time.perf_counter() - began) / len(film)
    picture = np.concatenate([part.numpy()[..., :3] for part in shown], 1)
    Image.fromarray(picture).save(given.out)
    print(f"{given.out}: frames of {width} x {height}, {took * 1e3:.1f} ms each")
    return picture


if __name__ == "__main__":
    main()
