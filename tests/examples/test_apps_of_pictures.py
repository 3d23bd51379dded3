"""The applications in examples/apps that filter, fit and explore pictures: small runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.backend.device import device_problem

from .application import app

pytest.importorskip("sklearn")


def error(x: Any, y: Any) -> float:
    """The root of the mean square, of bytes as shares of white."""
    return float(np.sqrt((((x.astype(float) - y) / 255.0) ** 2).mean()))


def video_filters() -> None:
    video = app("video_filters")
    model = video.trained(60, pyrite.device("cpu"))
    (noisy,), (clean,) = (list(video.frames(1, 48, 64, noise=n)) for n in (video.NOISE, 0))

    got, edges = (
        part.numpy() for part in video.filtered(model, pyrite.tensor(noisy, device="cpu"))
    )

    assert got.shape == edges.shape == (48, 64, 4)
    assert error(got, clean) < 0.75 * error(noisy, clean)
    assert edges[..., 3].min() == 255


def video_filters_through_textures() -> None:
    if problem := device_problem("wgpu"):
        pytest.skip(problem)
    import wgpu

    video = app("video_filters")
    adapter = wgpu.gpu.request_adapter_sync()
    device = pyrite.wgpu.init_device(adapter.request_device_sync())
    pyrite.seed(0)
    model = video.Denoiser(4).to(device)
    screen = video.Screen(device, 16, 24)
    (frame,) = video.frames(1, 16, 24)
    backend: Any = device.backend.root
    before = backend.runtime.report()["read_backs"]

    screen.show(model, frame)

    assert backend.runtime.report()["read_backs"] == before
    want, _ = video.filtered(model.to("cpu"), pyrite.tensor(frame, device="cpu"))
    got = pyrite.wgpu.from_texture(screen.window).numpy()
    assert np.abs(got.astype(int) - want.numpy()).max() <= 1


def splats() -> None:
    splats = app("splats")
    fit = splats.Fit(24, 16, pyrite.device("cpu"))
    place, width, color = (p.numpy() for p in (fit.model.place, fit.model.width, fit.model.color))
    at = (np.arange(16) + 0.5) / 16
    away = (at[:, None, None] - place[:, 0]) ** 2 + (at[None, :, None] - place[:, 1]) ** 2
    want = np.exp(-away * width**2) @ color

    np.testing.assert_allclose(fit.picture.numpy(), want, atol=1e-5)
    first = fit.advance().item()
    for _ in range(20):
        last = fit.advance()
    assert last.item() < 0.5 * first
    assert splats.pixels(fit.picture).numpy()[..., 3].min() == 255


def matrix_explorer() -> None:
    explorer = app("matrix_explorer")
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.normal(size=(20, 20)))[0] for _ in range(2))
    values = np.array([9.0, 4.0, 2.0, 0.01] + [0.001] * 16)
    x = pyrite.tensor((left * values @ right.T).astype("f4"), device="cpu")
    told: list[Any] = []

    last = asyncio.run(
        explorer.explored(
            [
                lambda: explorer.singular_values("rank 3", x, 3),
                lambda: explorer.product("x @ x.T", x, x.mT),
            ],
            told.append,
        )
    )

    # Answers of both come in turns, the first rounds before the values are settled.
    assert [answer.name for answer in told].count("rank 3") >= 2
    assert last["rank 3"].found.startswith("round")
    assert "9.0, 4.0, 2.0, " in last["rank 3"].found
    nearest = (left[:, :3] * values[:3]) @ right.T[:3]
    np.testing.assert_allclose(last["rank 3"].picture.numpy(), nearest, atol=1e-2)
    np.testing.assert_allclose(last["x @ x.T"].picture.numpy(), x.numpy() @ x.numpy().T, atol=1e-4)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "case",
    [video_filters, video_filters_through_textures, splats, matrix_explorer],
    ids=lambda case: case.__name__,
)
def test_an_application(case: Callable[[], None]) -> None:
    case()
