"""A fluid that carries the colors of a photograph: stable fluids, in plain tensor ops and a kernel.

    python examples/apps/fluid.py [--device cpu] [--size 256] [--steps 200] [--out fluid.png]

Shows a kernel that reads between elements at the border's own rule (`advect`), a solver that is a
loop over whole tensors (Jacobi's, for the pressure), and forces that change at each step without
another compilation.  The fluid fills a square whose borders meet each other.

On the machine of the tests (cpu, two cores, at real-time priority) a step of 160 x 160 or of 256 x
256 took 16 ms, the first ones included, most of it to record its small ops.
Source: Stam, Stable fluids, SIGGRAPH 1999.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_image

import pyrite
from pyrite import Tensor
from pyrite.extension import KernelScope, TensorArgument, kernel


@kernel
def advect_kernel(
    k: KernelScope, x: TensorArgument, velocity: TensorArgument, out: TensorArgument, *, step: float
) -> None:
    """What is carried to an element: looked up where the flow comes from, between four others."""
    i, j, c = k.at
    y = float(i) - step * velocity[i, j, 0]
    z = float(j) - step * velocity[i, j, 1]
    i0, j0 = int(k.floor(y)), int(k.floor(z))
    down, right = y - float(i0), z - float(j0)
    upper = k.mix(x.get(i0, j0, c, border="wrap"), x.get(i0, j0 + 1, c, border="wrap"), right)
    lower = k.mix(
        x.get(i0 + 1, j0, c, border="wrap"), x.get(i0 + 1, j0 + 1, c, border="wrap"), right
    )
    out[i, j, c] = k.mix(upper, lower, down)


@pyrite.custom_op(infer=lambda x, velocity, *, step: x, kernels=[advect_kernel])
def advect(x: Tensor, velocity: Tensor, /, *, step: float) -> Tensor:
    """x, carried by a flow for some time: (H, W, C), (H, W, 2) -> (H, W, C)."""
    ...


def divergence(velocity: Tensor) -> Tensor:
    """How much more flows out of each element than into it, by central differences: (H, W)."""
    down, right = velocity[..., 0], velocity[..., 1]
    return (down.roll(-1, 0) - down.roll(1, 0) + right.roll(-1, 1) - right.roll(1, 1)) / 2.0


def projected(velocity: Tensor, rounds: int) -> Tensor:
    """Return a flow less the gradient of its pressure, so that it hardly has a divergence.

    The pressure solves Poisson's equation by so many rounds of Jacobi's method.  Differences reach
    over two elements, as `divergence`'s do.
    """
    source = divergence(velocity)
    pressure = source * 0.0
    for _ in range(rounds):
        around = sum(pressure.roll(by, axis) for axis in (0, 1) for by in (-2, 2))
        pressure = (around - 4.0 * source) / 4.0
    down = (pressure.roll(-1, 0) - pressure.roll(1, 0)) / 2.0
    right = (pressure.roll(-1, 1) - pressure.roll(1, 1)) / 2.0
    return velocity - pyrite.stack([down, right], axis=-1)


class Fluid:
    """A flow, and the colors that it carries."""

    def __init__(self, size: int, device: Any, *, rounds: int = 30) -> None:
        self.rounds, self.size, self.time = rounds, size, 0
        picture = Image.fromarray(load_sample_image("flower.jpg")).resize((size, size))
        self.colors = pyrite.tensor(np.asarray(picture, np.float32) / 255.0, device=device)
        self.velocity = pyrite.zeros((size, size, 2), device=device)
        at = pyrite.arange(size, dtype="float32", device=device) / size
        self._row, self._column = at.reshape((-1, 1)), at.reshape((1, -1))

    def stir(self, row: float, column: float, force: tuple[float, float]) -> None:
        """Push what lies around a place, given in shares of the size."""
        square = (self._row - row) ** 2 + (self._column - column) ** 2
        weight = (square * -200.0).exp()
        push = pyrite.tensor(force, dtype="float32", device=weight.device)
        self.velocity = self.velocity + weight.unsqueeze(-1) * push

    def advance(self) -> None:
        """One step: two spoons stir, the flow carries itself, is projected, and carries colors."""
        turn = 0.05 * self.time
        for side in (0.0, math.pi):
            row, column = 0.5 + 0.25 * math.sin(turn + side), 0.5 + 0.25 * math.cos(turn + side)
            self.stir(row, column, (0.1 * math.cos(turn + side), -0.1 * math.sin(turn + side)))
        flow = advect(self.velocity, self.velocity, step=1.0)
        self.velocity = projected(flow, self.rounds)
        self.colors = advect(self.colors, self.velocity, step=1.0)
        self.time += 1


def main(arguments: Sequence[str] | None = None) -> Fluid:
    """Run, and save a picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default=None)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--out", default="fluid.png")
    given = parser.parse_args(arguments)
    fluid = Fluid(given.size, pyrite.device(given.device))
    fluid.advance()
    fluid.colors.device.synchronize()
    began = time.perf_counter()
    for _ in range(given.steps - 1):
        fluid.advance()
    fluid.colors.device.synchronize()
    took = (time.perf_counter() - began) / max(1, given.steps - 1)
    colors = (fluid.colors.clip(0.0, 1.0) * 255.0).astype("uint8").numpy()
    Image.fromarray(colors).save(given.out)
    print(f"{given.out}: {given.steps} steps of {given.size}², {took * 1e3:.1f} ms each")
    return fluid


if __name__ == "__main__":
    main()
