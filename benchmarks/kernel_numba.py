"""The cases in numba, with threads by `prange`."""

# mypy: ignore-errors
# Numba types by what it is given, and Taichi by its own annotations.

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from kernel_cases import BINS, COUNT, FEATURES, PART, ROUNDS, SIDE
from numba import njit, prange

PARTS = COUNT // PART


@njit(parallel=True, fastmath=True)
def forces(position, out):
    for i in prange(position.shape[0]):
        a = b = c = np.float32(0)
        for j in range(position.shape[0]):
            x, y = position[j, 0] - position[i, 0], position[j, 1] - position[i, 1]
            z = position[j, 2] - position[i, 2]
            near = np.float32(1) / np.sqrt(x * x + y * y + z * z + np.float32(1e-2))
            near = near * near * near
            a, b, c = a + x * near, b + y * near, c + z * near
        out[i, 0], out[i, 1], out[i, 2] = a, b, c


@njit(parallel=True, fastmath=True)
def gray_scott(u, v, out):
    m, n = u.shape
    for i in prange(m):
        for j in range(n):
            here = u[i, j]
            around = u[i - 1, j] + u[(i + 1) % m, j] + u[i, j - 1] + u[i, (j + 1) % n]
            reaction = here * v[i, j] * v[i, j]
            spread = np.float32(0.16) * (around - np.float32(4) * here)
            out[i, j] = here + spread - reaction + np.float32(0.035) * (np.float32(1) - here)


@njit(parallel=True, fastmath=True)
def mandelbrot(plane, out):
    for i in prange(out.shape[0]):
        for j in range(out.shape[1]):
            re, im = plane[i, j, 0], plane[i, j, 1]
            a = b = np.float32(0)
            rounds = 0
            while a * a + b * b <= np.float32(4) and rounds < ROUNDS:
                a, b = a * a - b * b + re, np.float32(2) * a * b + im
                rounds += 1
            out[i, j] = rounds


@njit(parallel=True)
def histogram(x, out):
    own = np.zeros((16, BINS), np.int32)
    for part in prange(16):
        for n in range(part * (COUNT // 16), (part + 1) * (COUNT // 16)):
            own[part, x[n]] += 1
    out[:] = own.sum(0)


@njit(parallel=True, fastmath=True)
def product(x, y, out):
    for i in prange(SIDE):
        out[i] = 0
        for n in range(SIDE):
            for j in range(SIDE):
                out[i, j] += x[i, n] * y[n, j]


@njit(parallel=True)
def scan(x, out):
    sums = np.zeros(PARTS, np.int32)
    for part in prange(PARTS):
        total = 0
        for n in range(PART):
            total += x[part * PART + n]
        sums[part] = total
    for part in prange(PARTS):
        total = 0
        for n in range(part):
            total += sums[n]
        for n in range(PART):
            total += x[part * PART + n]
            out[part * PART + n] = total


@njit(parallel=True, fastmath=True)
def attention(q, key, v, out):
    for i in prange(q.shape[0]):
        total = np.zeros(FEATURES, np.float32)
        most, weight = np.float32(-1e30), np.float32(0)
        for j in range(key.shape[0]):
            score = np.float32(0)
            for d in range(FEATURES):
                score += q[i, d] * key[j, d]
            score = score * np.float32(FEATURES**-0.5)
            now = max(most, score)
            old, new = math.exp(most - now), math.exp(score - now)
            for d in range(FEATURES):
                total[d] = total[d] * old + v[j, d] * new
            most, weight = now, weight * old + new
        out[i] = total / weight


FUNCTIONS: dict[str, Any] = {
    "n-body": forces, "gray-scott": gray_scott, "mandelbrot": mandelbrot, "histogram": histogram,
    "product": product, "scan": scan, "attention": attention,
}  # fmt: skip


def prepared(device: str, name: str, inputs: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return what computes a case, and what returns its result."""
    shape = {"mandelbrot": inputs[0].shape[:2], "histogram": (BINS,)}.get(name, inputs[0].shape)
    whole = name in ("mandelbrot", "histogram", "scan")
    out = np.empty(shape, np.int32 if whole else np.float32)
    return lambda: FUNCTIONS[name](*inputs, out), lambda: out
