"""The applications in examples/apps: small runs without a window, judged by NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import pyrite
from pyrite.backend.device import device_problem

from .application import APPS, app


def test_every_application_has_a_test() -> None:
    tested = (APPS.parents[1] / "tests" / "examples").glob("test_apps*.py")
    text = "".join(path.read_text() for path in tested)
    for path in APPS.glob("*.py"):
        assert f'app("{path.stem}")' in text
        assert (APPS / "pictures" / f"{path.stem}.png").stat().st_size < 60_000


@pytest.mark.parametrize("device", ["cpu", "wgpu"])
def test_gray_scott(device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if problem := device_problem(device):
        pytest.skip(problem)
    gray_scott = app("gray_scott")
    out = tmp_path / "picture.png"
    x = gray_scott.seeded(24, pyrite.device(device)).numpy().astype(np.float64)

    got = gray_scott.main(["--device", device, "--size=24", "--steps=20", "--out", str(out)])

    r = gray_scott.Reaction()
    for _ in range(20):
        beside = sum(np.roll(x, n, axis) for axis in (0, 1) for n in (-1, 1))
        u, v = x[..., 0], x[..., 1]
        spread = np.array([r.spread_of_food, r.spread]) * (beside - 4 * x)
        eaten = u * v * v
        x = x + spread + np.stack([r.feed * (1 - u) - eaten, eaten - (r.feed + r.kill) * v], -1)
    np.testing.assert_allclose(got.numpy(), x, atol=1e-4)
    with Image.open(out) as image:
        pixels = np.asarray(image)
    assert pixels.shape == (24, 24, 3)
    assert pixels[..., 1].max() > 2 * pixels[..., 1].min()
    assert "20 steps of 24²" in capsys.readouterr().out


def test_n_body() -> None:
    pytest.importorskip("pygfx")
    if problem := device_problem("wgpu"):
        pytest.skip(problem)
    n_body = app("n_body")
    place, velocity = (a.astype(np.float64) for a in n_body.disc(30))

    simulation = n_body.Simulation(30)
    still = n_body.drawn(simulation, 0, 64)
    image = n_body.drawn(simulation, 10, 64)

    world = n_body.World()
    for _ in range(10):
        away = place[None] - place[:, None]
        square = (away**2).sum(-1, keepdims=True) + world.softening**2
        velocity = velocity + (away / square**1.5).mean(1) * world.step
        place = place + velocity * world.step
    np.testing.assert_allclose(simulation.position.numpy(), place, atol=1e-4)
    assert 20 < (image[..., 0] > 60).sum() < 64 * 64 // 4
    assert not np.array_equal(image, still)
