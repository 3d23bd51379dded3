"""The cases in Taichi, on its CPU or by Vulkan."""

# mypy: ignore-errors
# Numba types by what it is given, and Taichi by its own annotations.

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import taichi as ti
from kernel_cases import BINS, COUNT, FEATURES, PART, ROUNDS, SIDE

PARTS = COUNT // PART
F2 = ti.types.ndarray(dtype=ti.f32, ndim=2)
F3 = ti.types.ndarray(dtype=ti.f32, ndim=3)
I1 = ti.types.ndarray(dtype=ti.i32, ndim=1)
I2 = ti.types.ndarray(dtype=ti.i32, ndim=2)


@ti.kernel
def forces(position: F2, out: F2):
    for i in range(position.shape[0]):
        p = ti.Vector([position[i, 0], position[i, 1], position[i, 2]])
        total = ti.Vector([0.0, 0.0, 0.0])
        for j in range(position.shape[0]):
            away = ti.Vector([position[j, 0], position[j, 1], position[j, 2]]) - p
            near = ti.rsqrt(away.dot(away) + 1e-2)
            total += away * (near * near * near)
        for d in ti.static(range(3)):
            out[i, d] = total[d]


@ti.kernel
def gray_scott(u: F2, v: F2, out: F2):
    m, n = u.shape
    for i, j in ti.ndrange(m, n):
        here = u[i, j]
        around = u[(i + m - 1) % m, j] + u[(i + 1) % m, j]
        around += u[i, (j + n - 1) % n] + u[i, (j + 1) % n]
        reaction = here * v[i, j] * v[i, j]
        out[i, j] = here + 0.16 * (around - 4.0 * here) - reaction + 0.035 * (1.0 - here)


@ti.kernel
def mandelbrot(plane: F3, out: I2):
    for i, j in out:
        a, b, rounds = 0.0, 0.0, 0
        while a * a + b * b <= 4.0 and rounds < ROUNDS:
            a, b = a * a - b * b + plane[i, j, 0], 2.0 * a * b + plane[i, j, 1]
            rounds += 1
        out[i, j] = rounds


@ti.kernel
def histogram(x: I1, out: I1):
    for b in out:
        out[b] = 0
    for n in x:
        ti.atomic_add(out[x[n]], 1)


@ti.kernel
def product(x: F2, y: F2, out: F2):
    for i, j in out:
        total = 0.0
        for n in range(SIDE):
            total += x[i, n] * y[n, j]
        out[i, j] = total


@ti.kernel
def scan_parts(x: I1, out: I1, sums: I1):
    for part in range(PARTS):
        total = 0
        for n in range(PART):
            total += x[part * PART + n]
        sums[part] = total
    for part in range(PARTS):
        total = 0
        for n in range(part):
            total += sums[n]
        for n in range(PART):
            total += x[part * PART + n]
            out[part * PART + n] = total


def scan(x: Any, out: Any) -> None:
    scan_parts(x, out, SUMS[0])


#: What scan has between its two passes.
SUMS: list[Any] = []


def begin(device: str) -> None:
    """Start Taichi on a device.  Raises ImportError where it takes another."""
    threads = int(os.environ["TI_NUM_THREADS"])
    ti.init(
        arch=getattr(ti, device), log_level=ti.ERROR, fast_math=True, cpu_max_num_threads=threads
    )
    if ti.lang.impl.current_cfg().arch != getattr(ti, device):
        raise ImportError(f"Taichi found no {device} here")
    SUMS[:] = [ti.ndarray(ti.i32, (PARTS,))]


@ti.kernel
def attention(q: F2, key: F2, v: F2, total: F2):
    for i in range(q.shape[0]):
        for d in range(FEATURES):
            total[i, d] = 0.0
        most, weight = -1e30, 0.0
        for j in range(key.shape[0]):
            score = 0.0
            for d in range(FEATURES):
                score += q[i, d] * key[j, d]
            score = score * FEATURES**-0.5
            now = ti.max(most, score)
            old, new = ti.exp(most - now), ti.exp(score - now)
            for d in range(FEATURES):
                total[i, d] = total[i, d] * old + v[j, d] * new
            most, weight = now, weight * old + new
        for d in range(FEATURES):
            total[i, d] = total[i, d] / weight


FUNCTIONS: dict[str, Any] = {
    "n-body": forces, "gray-scott": gray_scott, "mandelbrot": mandelbrot, "histogram": histogram,
    "product": product, "scan": scan, "attention": attention,
}  # fmt: skip


def prepared(device: str, name: str, inputs: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return what computes a case and waits for it, and what returns its result."""
    shape = {"mandelbrot": inputs[0].shape[:2], "histogram": (BINS,)}.get(name, inputs[0].shape)
    whole = name in ("mandelbrot", "histogram", "scan")
    out = ti.ndarray(ti.i32 if whole else ti.f32, shape)
    given = [ti.ndarray(ti.i32 if x.dtype == np.int32 else ti.f32, x.shape) for x in inputs]
    for array, x in zip(given, inputs, strict=True):
        array.from_numpy(x)

    def run() -> None:
        FUNCTIONS[name](*given, out)
        ti.sync()

    return run, out.to_numpy
