"""A dam that breaks: a liquid of particles, drawn by pygfx from the memory that a kernel writes.

    python examples/apps/sph.py [--particles 2048] [--steps 400] [--device wgpu] [--out sph.png]

Shows neighbours by sorting: particles are ordered by the cell that they lie in (`argsort`), cells
begin where `searchsorted` says, and a kernel in plain Python visits nine cells.  On wgpu the places
are written by ``out=`` into the buffer that pygfx draws (extra ``[gfx]``; ``--window`` opens one);
on cpu the picture is made of the places themselves.

On the machine of the tests (cpu, two cores, at real-time priority) a step of 2048 particles took
1.8 ms.
Source: Müller, Charypar & Gross, Particle-based fluid simulation for interactive applications
(2003), whose kernels poly6 and spiky are taken in two dimensions.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

import pyrite
from pyrite import Tensor
from pyrite.extension import KernelScope, TensorArgument, Vector, kernel
from pyrite.types import TensorType


@dataclass(frozen=True)
class Liquid:
    """A liquid in a box of 2 x 1; a particle feels others within ``radius``."""

    radius: float = 0.04
    mass: float = 2e-4
    density: float = 1.0
    stiffness: float = 60.0
    viscosity: float = 0.02
    gravity: float = 9.8
    step: float = 1e-3
    columns: int = 50  # of cells as wide as the radius, in a width of 2
    rows: int = 25


@kernel
def density_kernel(
    k: KernelScope, place: TensorArgument, begin: TensorArgument, out: TensorArgument,
    *, liquid: Liquid,
) -> None:  # fmt: skip
    """The density at a particle, of all in its own cell and the eight around."""
    (i,) = k.at
    here = place[i]
    square, total = liquid.radius * liquid.radius, 0.0
    column = int(k.clamp(here.x / liquid.radius, 0.0, liquid.columns - 1.0))
    row = int(k.clamp(here.y / liquid.radius, 0.0, liquid.rows - 1.0))
    for r in range(max(row - 1, 0), min(row + 2, liquid.rows)):
        # The cells of a row lie one behind the other: one range of particles.
        first = r * liquid.columns + max(column - 1, 0)
        last = r * liquid.columns + min(column + 1, liquid.columns - 1)
        for j in range(begin[first], begin[last + 1]):
            away = place[j] - here
            near = square - away.dot(away)
            if near > 0.0:
                total += near * near * near
    out[i] = total * (liquid.mass * 4.0 / (math.pi * liquid.radius**8))


@kernel(inner=1)
def push_kernel(
    k: KernelScope, place: TensorArgument, velocity: TensorArgument, density: TensorArgument,
    begin: TensorArgument, out: TensorArgument, *, liquid: Liquid,
) -> None:  # fmt: skip
    """The velocity of a particle after a step under pressure, viscosity and gravity."""
    (i,) = k.at
    here, mine = place[i], velocity[i]
    pressure = liquid.stiffness * max(density[i] - liquid.density, 0.0)
    force = Vector(0.0, 0.0)
    column = int(k.clamp(here.x / liquid.radius, 0.0, liquid.columns - 1.0))
    row = int(k.clamp(here.y / liquid.radius, 0.0, liquid.rows - 1.0))
    for r in range(max(row - 1, 0), min(row + 2, liquid.rows)):
        first = r * liquid.columns + max(column - 1, 0)
        last = r * liquid.columns + min(column + 1, liquid.columns - 1)
        for j in range(begin[first], begin[last + 1]):
            away = place[j] - here
            distance = k.sqrt(away.dot(away) + 1e-12)
            near = liquid.radius - distance
            if near > 0.0:
                theirs = liquid.stiffness * max(density[j] - liquid.density, 0.0)
                shared = near / (density[j] * distance)
                force -= away * (0.5 * (pressure + theirs) * near * shared)
                force += (velocity[j] - mine) * (liquid.viscosity * 4.0 / 3.0 * near / density[j])
    scale = liquid.mass * 30.0 / (math.pi * liquid.radius**5) * liquid.step
    out[i] = mine + force * (scale / density[i]) - Vector(0.0, liquid.gravity * liquid.step)


@kernel(inner=1)
def drift_kernel(
    k: KernelScope, place: TensorArgument, velocity: TensorArgument, moved: TensorArgument,
    kept: TensorArgument, *, liquid: Liquid,
) -> None:  # fmt: skip
    """Where a particle is after a step; the walls of the box throw it back, slower."""
    (i,) = k.at
    v, p = velocity[i], place[i] + velocity[i] * liquid.step
    if p.x < 0.0 or p.x > 2.0:
        p, v = Vector(k.clamp(p.x, 0.0, 2.0), p.y), Vector(-0.4 * v.x, v.y)
    if p.y < 0.0 or p.y > 1.0:
        p, v = Vector(p.x, k.clamp(p.y, 0.0, 1.0)), Vector(v.x, -0.4 * v.y)
    moved[i], kept[i] = p, v


@kernel(inner=1)
def lifted_kernel(k: KernelScope, place: TensorArgument, out: TensorArgument) -> None:
    """A place for a renderer, which wants three numbers."""
    p = place[k.at[0]]
    out[k.at[0]] = Vector(p.x, p.y, 0.0)


@pyrite.custom_op(
    infer=lambda place, begin, *, liquid: TensorType(place.shape[:1], place.dtype),
    kernels=[density_kernel],
)
def density(place: Tensor, begin: Tensor, /, *, liquid: Liquid) -> Tensor:
    """Densities of particles that lie in the order of their cells: (N, 2), (cells + 1,) -> (N,)."""
    ...


@pyrite.custom_op(infer=lambda place, *_, liquid: place, kernels=[push_kernel])
def pushed(
    place: Tensor, velocity: Tensor, density: Tensor, begin: Tensor, /, *, liquid: Liquid
) -> Tensor:
    """Velocities a step later: (N, 2), (N, 2), (N,), (cells + 1,) -> (N, 2)."""
    ...


@pyrite.custom_op(infer=lambda place, _, *, liquid: (place, place), kernels=[drift_kernel])
def drifted(place: Tensor, velocity: Tensor, /, *, liquid: Liquid) -> tuple[Tensor, Tensor]:
    """Places and velocities a step later: (N, 2), (N, 2) -> the same."""
    ...


@pyrite.custom_op(
    infer=lambda place: TensorType((place.shape[0], 3), place.dtype), kernels=[lifted_kernel]
)
def lifted(place: Tensor, /) -> Tensor:
    """Places in a plane of space: (N, 2) -> (N, 3)."""
    ...


def dam(particles: int, liquid: Liquid) -> Any:
    """Particles at rest that fill the left of the box, a little out of order."""
    apart = math.sqrt(liquid.mass / liquid.density)
    columns = math.ceil(math.sqrt(particles))
    n = np.arange(particles)
    places = np.stack([n % columns, n // columns], -1) * apart + apart / 2
    return (places + np.random.default_rng(3).uniform(0, apart / 10, places.shape)).astype("f4")


class Simulation:
    """Particles, in the order of the cells that they lie in."""

    def __init__(self, particles: int, device: Any, liquid: Liquid = Liquid()) -> None:
        self.liquid = liquid
        self.place = pyrite.tensor(dam(particles, liquid), device=device)
        self.velocity = self.place * 0.0
        cells = liquid.columns * liquid.rows
        self._cells = pyrite.arange(cells + 1, dtype="int32", device=device)

    def advance(self) -> None:
        """One step: order, densities, forces, places."""
        liquid = self.liquid
        cell = (self.place / liquid.radius).astype("int32")
        column = cell[:, 0].clip(0, liquid.columns - 1)
        number = cell[:, 1].clip(0, liquid.rows - 1) * liquid.columns + column
        order = number.argsort()
        place, velocity = self.place.take(order, 0), self.velocity.take(order, 0)
        begin = pyrite.searchsorted(number.take(order, 0), self._cells).astype("int32")
        thick = density(place, begin, liquid=liquid)
        velocity = pushed(place, velocity, thick, begin, liquid=liquid)
        self.place, self.velocity = drifted(place, velocity, liquid=liquid)


class Scene:
    """The particles in a canvas of pygfx, which draws from the memory that `lifted` writes."""

    def __init__(self, simulation: Simulation, canvas: Any) -> None:
        import pygfx as gfx

        from pyrite.wgpu import gfx as door

        self.simulation = simulation
        points, self.points = door.buffer((simulation.place.shape[0], 3))
        self.renderer, self.scene = gfx.renderers.WgpuRenderer(canvas), gfx.Scene()
        self.camera = gfx.OrthographicCamera(2.1, 1.1)
        self.camera.local.position = (1.0, 0.5, 1.0)
        material = gfx.PointsMaterial(size=4, color="#4af", opacity=0.8)
        self.scene.add(gfx.Background.from_color("#012"))
        self.scene.add(gfx.Points(gfx.Geometry(positions=points), material))
        canvas.request_draw(self.draw)

    def draw(self) -> None:
        """Draw the particles where they are."""
        lifted(self.simulation.place, out=self.points)  # type: ignore[call-arg]
        self.renderer.render(self.scene, self.camera)


def drawn(simulation: Simulation, width: int = 480) -> Any:
    """Return a picture without a renderer: pixels of particles, of fast ones brighter."""
    height, picture = width // 2, np.zeros((width // 2, width, 3), np.uint8)
    picture[:] = (0, 17, 34)
    place, velocity = pyrite.read(simulation.place, simulation.velocity)
    fast = np.clip(np.linalg.norm(velocity, axis=-1) / 3.0, 0, 1)[:, None]
    colors = (1 - fast) * (40, 120, 220) + fast * (230, 245, 255)
    for di, dj in np.ndindex(3, 3):
        i = (height - 1 - place[:, 1] * (height - 3) - di).astype(int).clip(0, height - 1)
        j = (place[:, 0] * (width / 2 - 2) + dj).astype(int).clip(0, width - 1)
        picture[i, j] = colors
    return picture


def main(arguments: Sequence[str] | None = None) -> Any:
    """Run, and save a picture or open a window."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default="cpu", help="cpu, or wgpu: that of pygfx")
    parser.add_argument("--particles", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--out", default="sph.png")
    parser.add_argument("--window", action="store_true")
    given = parser.parse_args(arguments)
    is_drawn = given.window or given.device == "wgpu"
    if is_drawn:
        from pyrite.wgpu import gfx as door
    simulation = Simulation(given.particles, door.device() if is_drawn else pyrite.device("cpu"))
    if given.window:
        watched(simulation)
        return None
    simulation.advance()
    simulation.place.device.synchronize()
    began = time.perf_counter()
    for _ in range(given.steps - 1):
        simulation.advance()
    simulation.place.device.synchronize()
    took = (time.perf_counter() - began) / max(1, given.steps - 1)
    picture = rendered(simulation) if is_drawn else drawn(simulation)
    Image.fromarray(picture).save(given.out)
    print(
        f"{given.out}: {given.steps} steps of {given.particles} particles, {took * 1e3:.2f} ms each"
    )
    return picture


def rendered(simulation: Simulation) -> Any:
    """Return what pygfx draws, without a window."""
    from rendercanvas.offscreen import OffscreenRenderCanvas

    canvas = OffscreenRenderCanvas(size=(480, 240), pixel_ratio=1)
    scene = Scene(simulation, canvas)
    assert scene.simulation is simulation
    return np.asarray(canvas.draw())[..., :3]


def watched(simulation: Simulation) -> None:
    """Advance and draw in a window until it is closed."""
    from rendercanvas.auto import RenderCanvas, loop

    canvas = RenderCanvas(title="sph $fps", update_mode="continuous")
    scene = Scene(simulation, canvas)

    def frame() -> None:
        for _ in range(4):
            simulation.advance()
        scene.draw()

    canvas.request_draw(frame)
    loop.run()


if __name__ == "__main__":
    main()
