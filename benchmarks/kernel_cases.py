"""What an application computes by kernels of its own: inputs, and what NumPy makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

BODIES, CELLS, WIDTH, COUNT, BINS, SIDE, PART = 2048, 768, 512, 2**20, 256, 512, 4096
ROWS, FEATURES = 256, 64
ROUNDS = 64


@dataclass(frozen=True)
class Case:
    """One computation: ``inputs`` are arrays, ``wanted`` gives the result."""

    name: str
    inputs: tuple[Any, ...]
    wanted: Callable[..., Any]
    tolerance: float = 1e-4
    #: The share of elements that has to be right: on a border a rounding changes all.
    share: float = 1.0


def cases() -> list[Case]:
    """Return all cases."""
    random = np.random.default_rng(0)

    def floats(*shape: int) -> Any:
        return random.normal(size=shape).astype(np.float32)

    plane = np.stack(np.meshgrid(np.linspace(-2, 1, WIDTH), np.linspace(-1.5, 1.5, WIDTH)), -1)
    return [
        Case("n-body", (floats(BODIES, 3),), _forces, 1e-2),
        Case("gray-scott", (floats(CELLS, CELLS), floats(CELLS, CELLS)), _gray_scott),
        Case("mandelbrot", (plane.astype(np.float32),), _mandelbrot, 0.0, 0.99),
        Case("histogram", (random.integers(0, BINS, COUNT).astype(np.int32),), _histogram),
        Case("product", (floats(SIDE, SIDE), floats(SIDE, SIDE)), np.matmul, 1e-2),
        Case("tiled product", (floats(SIDE, SIDE), floats(SIDE, SIDE)), np.matmul, 1e-2),
        Case("scan", (random.integers(-9, 9, COUNT).astype(np.int32),), np.cumsum),
        Case("attention", tuple(floats(ROWS, FEATURES) for _ in range(3)), _attention, 1e-3),
    ]


def _forces(position: Any) -> Any:
    away = position[None] - position[:, None]
    return (away / (np.sum(away * away, -1, keepdims=True) + 1e-2) ** 1.5).sum(1)


def _gray_scott(u: Any, v: Any) -> Any:
    def spread(x: Any) -> Any:
        return sum(np.roll(x, d, a) for a in (0, 1) for d in (-1, 1)) - 4 * x

    reaction = u * v * v
    return u + 0.16 * spread(u) - reaction + 0.035 * (1 - u)


def _mandelbrot(plane: Any) -> Any:
    c = plane[..., 0] + 1j * plane[..., 1]
    z, rounds = np.zeros_like(c), np.zeros(c.shape, np.int32)
    for _ in range(ROUNDS):
        near = z.real**2 + z.imag**2 <= 4.0
        rounds += near
        z = np.where(near, z * z + c, z)
    return rounds


def _histogram(x: Any) -> Any:
    return np.bincount(x, minlength=BINS)


def _attention(q: Any, k: Any, v: Any) -> Any:
    scores = np.exp(q @ k.T / np.sqrt(FEATURES))
    return scores @ v / scores.sum(1, keepdims=True)
