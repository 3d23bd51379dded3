"""The material point method, as an application would bring it along: stages, atomics, matrices.

Points give their momentum to a grid, the grid moves, and points take it back.  It is judged by the
same in NumPy, point by point, with inputs that lie in memory in several ways.
Source: Hu et al., A moving least squares material point method, ACM TOG 37 (2018); parameters as in
Taichi's example of 88 lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import pyrite
from pyrite import Tensor, custom_op
from pyrite.backend.device import Device
from pyrite.extension import Matrix, Vector, kernel, stages
from pyrite.types import TensorType, float32

CELLS, POINTS = 16, 77


@dataclass(frozen=True)
class Matter:
    step: float = 2e-4
    gravity: float = 9.8
    stiffness: float = 400.0
    volume: float = (0.5 / CELLS) ** 2


def weights(f: Any) -> Any:
    """The quadratic spline at three cells."""
    return 0.5 * (1.5 - f) ** 2, 0.75 - (f - 1.0) ** 2, 0.5 * (f - 0.5) ** 2


def cell_of(p: Any) -> Any:
    """The first of the cells around a point, and where it lies in that."""
    a, b = int(p.x * CELLS - 0.5), int(p.y * CELLS - 0.5)
    return a, b, p.x * CELLS - float(a), p.y * CELLS - float(b)


def by_points(x: Any, *_: Any, **__: Any) -> tuple[int, ...]:
    return (-(-x.shape[0] // 32),)


@kernel(workgroup_size=32, grid=by_points, fill={"momentum": 0, "mass": 0})
def give(
    k: Any, x: Any, v: Any, c: Any, j: Any, x2: Any, v2: Any, c2: Any, j2: Any, momentum: Any,
    mass: Any, *, matter: Matter,
) -> None:  # fmt: skip
    p = k.global_id()
    if p >= len(x):
        return
    a, b, fx, fy = cell_of(x[p])
    wx, wy = weights(fx), weights(fy)
    stress = -matter.step * 4 * matter.stiffness * matter.volume * (j[p] - 1) * CELLS**2
    affine = c[p] * matter.volume
    affine = Matrix((affine[0, 0] + stress, affine[0, 1]), (affine[1, 0], affine[1, 1] + stress))
    for m in k.static(range(3)):
        for n in k.static(range(3)):
            away, weight = Vector(m - fx, n - fy) / CELLS, wx[m] * wy[n]
            moved = (v[p] * matter.volume + affine @ away) * weight
            momentum.atomic("add", (a + m, b + n, 0), moved.x)
            momentum.atomic("add", (a + m, b + n, 1), moved.y)
            mass.atomic("add", (a + m, b + n), weight * matter.volume)


@kernel(workgroup_size=(8, 8), grid=lambda *_, **__: (CELLS // 8, CELLS // 8))
def move(
    k: Any, x: Any, v: Any, c: Any, j: Any, x2: Any, v2: Any, c2: Any, j2: Any, momentum: Any,
    mass: Any, *, matter: Matter,
) -> None:  # fmt: skip
    a, b = k.global_id(0), k.global_id(1)
    if mass[a, b] > 0:
        moved = momentum[a, b] / mass[a, b]
        u, w = moved.x, moved.y - matter.step * matter.gravity
        if (a < 3 and u < 0) or (a > CELLS - 3 and u > 0):
            u = 0.0
        if (b < 3 and w < 0) or (b > CELLS - 3 and w > 0):
            w = 0.0
        momentum[a, b] = Vector(u, w)


@kernel(workgroup_size=32, grid=by_points)
def take(
    k: Any, x: Any, v: Any, c: Any, j: Any, x2: Any, v2: Any, c2: Any, j2: Any, momentum: Any,
    mass: Any, *, matter: Matter,
) -> None:  # fmt: skip
    p = k.global_id()
    if p >= len(x):
        return
    a, b, fx, fy = cell_of(x[p])
    wx, wy = weights(fx), weights(fy)
    speed, affine = Vector(0.0, 0.0), Matrix((0.0, 0.0), (0.0, 0.0))
    for m in k.static(range(3)):
        for n in k.static(range(3)):
            away, weight = Vector(m - fx, n - fy) / CELLS, wx[m] * wy[n]
            found = momentum[a + m, b + n]
            speed += found * weight
            affine += Matrix(found.x * away, found.y * away) * (4 * weight * CELLS**2)
    x2[p], v2[p], c2[p] = x[p] + speed * matter.step, speed, affine
    j2[p] = j[p] * (1 + matter.step * (affine[0, 0] + affine[1, 1]))


def types(x: TensorType, v: TensorType, c: TensorType, j: TensorType, **_: Any) -> Any:
    cells = (CELLS, CELLS)
    return x, v, c, j, TensorType((*cells, 2), float32), TensorType(cells, float32)


@custom_op(infer=types, kernels=[stages(give, move, take)])
def stepped(x: Tensor, v: Tensor, c: Tensor, j: Tensor, /, *, matter: Matter) -> Any:
    """A moment later: places, speeds, their changes around, volumes, and the grid."""
    ...


def by_numpy(x: Any, v: Any, c: Any, j: Any, matter: Matter) -> Any:
    momentum, mass = np.zeros((CELLS, CELLS, 2)), np.zeros((CELLS, CELLS))
    first = (x * CELLS - 0.5).astype(int)
    f = x * CELLS - first
    w = np.stack(weights(f))
    around = [
        (p, tuple(first[p] + (m, n)), (np.array((m, n)) - f[p]) / CELLS, w[m, p, 0] * w[n, p, 1])
        for p in range(len(x)) for m in range(3) for n in range(3)
    ]  # fmt: skip
    stress = -matter.step * 4 * matter.stiffness * matter.volume * (j - 1) * CELLS**2
    affine = c * matter.volume + np.eye(2) * stress[:, None, None]
    for p, cell, away, weight in around:
        momentum[cell] += weight * (matter.volume * v[p] + affine[p] @ away)
        mass[cell] += weight * matter.volume
    some = mass > 0
    momentum[some] /= mass[some][:, None]
    momentum[some, 1] -= matter.step * matter.gravity
    for axis, at in enumerate(np.indices(mass.shape)):
        moved = momentum[..., axis]
        moved[some & (((at < 3) & (moved < 0)) | ((at > CELLS - 3) & (moved > 0)))] = 0
    v2, c2 = np.zeros_like(v), np.zeros_like(c)
    for p, cell, away, weight in around:
        v2[p] += weight * momentum[cell]
        c2[p] += 4 * weight * CELLS**2 * np.outer(momentum[cell], away)
    volume = j * (1 + matter.step * np.trace(c2, axis1=1, axis2=2))
    return x + matter.step * v2, v2, c2, volume


def test_points_move_as_in_numpy(anywhere: Device) -> None:
    rng = np.random.default_rng(0)
    x = (rng.random((POINTS, 2)) * 0.4 + 0.2).astype("f4")
    v, c = (rng.normal(size=(POINTS, *s)).astype("f4") for s in ((2,), (2, 2)))
    want: Any = [a.astype("f8") for a in (x, v, c, np.ones(POINTS))]
    got: Any = [
        pyrite.tensor(np.repeat(x, 2, 0), device=anywhere)[::2],
        pyrite.tensor(v.T.copy(), device=anywhere).mT,
        pyrite.tensor(c[::-1].copy(), device=anywhere)[::-1],
        pyrite.ones((1,), device=anywhere).broadcast_to((POINTS,)),
    ]
    for step in (2e-4, 3e-4):
        matter = Matter(step=step)
        got, want = stepped(*got, matter=matter)[:4], by_numpy(*want, matter)
        for one, other in zip(got, want, strict=True):
            np.testing.assert_allclose(one.numpy(), other, rtol=2e-3, atol=2e-3)
