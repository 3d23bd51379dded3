"""Bodies that attract each other, drawn by pygfx from the memory of the tensor that moves them.

    python examples/apps/n_body.py [--bodies 2048] [--steps 300] [--out n_body.png]

Shows the whole way without a copy: a kernel in Python writes by ``out=`` into the buffer that the
renderer draws (`pyrite.wgpu.gfx`), in the order of one queue.  Needs the extra ``[gfx]``; without a
window it draws offscreen, with ``--window`` into one.

On the machine of the tests (lavapipe, a GPU imitated by two cores, at real-time priority) a step of
1024 bodies took 47 ms, and of 2048 bodies 224 ms.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pygfx as gfx
from PIL import Image

import pyrite
from pyrite import Tensor
from pyrite.extension import KernelScope, TensorArgument, Vector, kernel
from pyrite.wgpu import gfx as door


@dataclass(frozen=True)
class World:
    """The time of a step, and the distance within which attraction fades."""

    step: float = 0.01
    softening: float = 0.1


@kernel(inner=1)
def kick_kernel(
    k: KernelScope, position: TensorArgument, velocity: TensorArgument, out: TensorArgument,
    *, world: World,
) -> None:  # fmt: skip
    """The velocity of a body after a step in the field of all."""
    (i,) = k.at
    here, pull = position[i], Vector(0.0, 0.0, 0.0)
    for j in range(position.shape[0]):
        away = position[j] - here
        near = 1.0 / k.sqrt(away.dot(away) + world.softening * world.softening)
        pull += away * (near * near * near)
    out[i] = velocity[i] + pull * (world.step / position.shape[0])


@pyrite.custom_op(infer=lambda position, velocity, *, world: velocity, kernels=[kick_kernel])
def kick(position: Tensor, velocity: Tensor, /, *, world: World = World()) -> Tensor:
    """Velocities a step later, of bodies whose masses are 1 together: (N, 3), (N, 3) -> (N, 3)."""
    ...


@kernel
def drift_kernel(
    k: KernelScope, position: TensorArgument, velocity: TensorArgument, out: TensorArgument,
    *, world: World,
) -> None:  # fmt: skip
    """The place of a body after a step."""
    out[k.at] = position[k.at] + velocity[k.at] * world.step


@pyrite.custom_op(infer=lambda position, velocity, *, world: position, kernels=[drift_kernel])
def drift(position: Tensor, velocity: Tensor, /, *, world: World = World()) -> Tensor:
    """Places a step later: (N, 3), (N, 3) -> (N, 3)."""
    ...


def disc(bodies: int) -> tuple[Any, Any]:
    """A turning disc: places and velocities."""
    rng = np.random.default_rng(2)
    radius, angle = np.sqrt(rng.uniform(0.01, 1.0, bodies)), rng.uniform(0, 2 * np.pi, bodies)
    turn = np.stack([np.cos(angle), np.sin(angle), 0 * angle], -1)
    height = np.stack([0 * angle, 0 * angle, rng.normal(0, 0.02, bodies)], -1)
    speed = np.sqrt(radius * radius / (radius + 0.2))[:, None] * 0.8
    velocity = np.stack([-turn[:, 1], turn[:, 0], 0 * angle], -1) * speed
    return (turn * radius[:, None] + height).astype("f4"), velocity.astype("f4")


class Simulation:
    """Bodies in the memory that is drawn, and one more of the same to step from."""

    def __init__(self, bodies: int, world: World = World()) -> None:
        where = door.device()
        self.world = world
        position, velocity = disc(bodies)
        self.buffer, self.position = door.buffer((bodies, 3))
        self.velocity = pyrite.tensor(velocity, device=where)
        drift(pyrite.tensor(position, device=where), self.velocity * 0.0, out=self.position)  # type: ignore[call-arg]

    def advance(self) -> None:
        """Kick and drift: a leapfrog, whose energy does not wander."""
        self.velocity = kick(self.position, self.velocity, world=self.world)
        drift(self.position, self.velocity, world=self.world, out=self.position)  # type: ignore[call-arg]


def scene_of(simulation: Simulation, canvas: Any) -> Any:
    """Return what draws a simulation on a canvas."""
    renderer = gfx.renderers.WgpuRenderer(canvas)
    scene, camera = gfx.Scene(), gfx.OrthographicCamera(3, 3)
    material = gfx.PointsMaterial(size=2, color="#fc8", opacity=0.7)
    geometry = gfx.Geometry(positions=simulation.buffer)
    scene.add(gfx.Background.from_color("#000"), gfx.Points(geometry, material))
    camera.local.position = (0, -1.5, 1.5)
    camera.look_at((0, 0, 0))
    return lambda: renderer.render(scene, camera)


def watched(simulation: Simulation) -> None:
    """Advance and draw in a window until it is closed."""
    from rendercanvas.auto import RenderCanvas, loop

    canvas = RenderCanvas(title="n-body $fps", update_mode="continuous")
    draw = scene_of(simulation, canvas)

    def frame() -> None:
        simulation.advance()
        draw()

    canvas.request_draw(frame)
    loop.run()


def drawn(simulation: Simulation, steps: int, size: int = 512) -> Any:
    """Return the picture after some steps, without a window."""
    from rendercanvas.offscreen import OffscreenRenderCanvas

    canvas = OffscreenRenderCanvas(size=(size, size), pixel_ratio=1)
    canvas.request_draw(scene_of(simulation, canvas))
    for _ in range(steps):
        simulation.advance()
    return np.asarray(canvas.draw())


def main(arguments: Sequence[str] | None = None) -> Any:
    """Run, and save a picture or open a window."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--bodies", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--out", default="n_body.png")
    parser.add_argument("--window", action="store_true")
    given = parser.parse_args(arguments)
    simulation = Simulation(given.bodies)
    if given.window:
        watched(simulation)
        return None
    began = time.perf_counter()
    image = drawn(simulation, given.steps)
    took = (time.perf_counter() - began) / max(1, given.steps)
    Image.fromarray(image).save(given.out)
    print(f"{given.out}: {given.steps} steps of {given.bodies} bodies, {took * 1e3:.1f} ms each")
    return image


if __name__ == "__main__":
    main()
