"""The liquids of examples/apps: one step judged by NumPy, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.backend.device import device_problem

from .application import app


def pushed(place: Any, velocity: Any, liquid: Any) -> tuple[Any, Any]:
    """Places and velocities after a step, of each pair of particles."""
    away = place[None] - place[:, None]
    distance = np.linalg.norm(away, axis=-1)
    r, m = liquid.radius, liquid.mass
    near = np.clip(r * r - distance**2, 0, None)
    thick = m * 4 / (np.pi * r**8) * (near**3).sum(1)
    pressure = liquid.stiffness * np.clip(thick - liquid.density, 0, None)
    gap = np.clip(r - distance, 0, None)
    scale = m * 30 / (np.pi * r**5)
    unit = away / np.sqrt(distance**2 + 1e-12)[..., None]
    mean = (pressure[:, None] + pressure) / 2 / thick
    force = -(unit * (mean * gap**2)[..., None]).sum(1)
    towards = velocity[None] - velocity[:, None]
    force += liquid.viscosity * 4 / 3 * (towards * (gap / thick)[..., None]).sum(1)
    velocity = velocity + force * scale / thick[:, None] * liquid.step
    velocity[:, 1] -= liquid.gravity * liquid.step
    return place + velocity * liquid.step, velocity


def sph() -> None:
    sph = app("sph")
    simulation = sph.Simulation(90, pyrite.device("cpu"))
    rng = np.random.default_rng(0)
    # In the middle, where no wall is, and moving.
    place = (simulation.place.numpy() + 0.5).astype("f4")
    velocity = rng.normal(0, 1, place.shape).astype("f4")
    simulation.place = pyrite.tensor(place, device="cpu")
    simulation.velocity = pyrite.tensor(velocity, device="cpu")

    simulation.advance()

    want, speed = pushed(place.astype(float), velocity.astype(float), simulation.liquid)
    cells = (place / simulation.liquid.radius).astype(int)
    order = np.argsort(cells[:, 1] * simulation.liquid.columns + cells[:, 0], kind="stable")
    assert len(set(map(tuple, cells))) > 6
    np.testing.assert_allclose(simulation.place.numpy(), want[order], atol=1e-5)
    np.testing.assert_allclose(simulation.velocity.numpy(), speed[order], atol=2e-3)
    for _ in range(3):
        simulation.advance()
    assert (sph.drawn(simulation, 64) != (0, 17, 34)).any(-1).sum() > 20


def sph_is_drawn_from_the_memory_that_it_writes() -> None:
    pytest.importorskip("pygfx")
    if problem := device_problem("wgpu"):
        pytest.skip(problem)
    from pyrite.wgpu import gfx as door

    sph = app("sph")
    simulation = sph.Simulation(40, door.device())

    still = sph.rendered(simulation)
    simulation.place = simulation.place + 0.7
    moved = sph.rendered(simulation)

    # The dam's water is down on the left; moved it is up on the right.
    blue = [np.argwhere(picture[..., 2] > 120).mean(0) for picture in (still, moved)]
    assert blue[0][0] > 190
    assert blue[0][1] < 60
    assert blue[1][0] < blue[0][0] - 100
    assert blue[1][1] > blue[0][1] + 100


def fluid() -> None:
    pytest.importorskip("sklearn")
    fluid = app("fluid")
    rng = np.random.default_rng(0)
    flow = rng.normal(0, 2, (12, 10, 2)).astype("f4")
    x = rng.normal(size=(12, 10, 3)).astype("f4")

    got = fluid.advect(*(pyrite.tensor(a, device="cpu") for a in (x, flow)), step=0.5).numpy()

    i, j = np.mgrid[:12, :10]
    y, z = i - 0.5 * flow[..., 0], j - 0.5 * flow[..., 1]
    i0, j0 = np.floor(y).astype(int), np.floor(z).astype(int)
    down, right = (y - i0)[..., None], (z - j0)[..., None]
    rows = [
        x[(i0 + d) % 12, j0 % 10] * (1 - right) + x[(i0 + d) % 12, (j0 + 1) % 10] * right
        for d in (0, 1)
    ]
    np.testing.assert_allclose(got, rows[0] * (1 - down) + rows[1] * down, atol=1e-5)

    smooth = np.stack([np.sin(2 * np.pi * i / 12), np.cos(2 * np.pi * j / 10)], -1)
    before = pyrite.tensor(smooth.astype("f4"), device="cpu")
    spread = [fluid.divergence(v).abs().max().item() for v in (before, fluid.projected(before, 60))]
    assert spread[0] > 0.4
    assert spread[1] < 0.05 * spread[0]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "case",
    [sph, sph_is_drawn_from_the_memory_that_it_writes, fluid],
    ids=lambda case: case.__name__,
)
def test_an_application(case: Callable[[], None]) -> None:
    case()
