"""The cases in Warp; on its CPU one thread runs them."""

# mypy: ignore-errors
# ruff: noqa: UP018, RUF046 -- a number that changes in a loop is declared so
# Warp types by its own annotations.

from collections.abc import Callable
from typing import Any

import numpy as np
import warp as wp
from kernel_cases import BINS, COUNT, FEATURES, PART, ROUNDS, SIDE

wp.config.quiet = True
PARTS = COUNT // PART
F1, F2 = wp.array(dtype=wp.float32), wp.array2d(dtype=wp.float32)
I1, I2 = wp.array(dtype=wp.int32), wp.array2d(dtype=wp.int32)
BODY, PLACE = wp.array(dtype=wp.vec3), wp.array2d(dtype=wp.vec2)


@wp.kernel
def forces(position: BODY, out: BODY):
    i = wp.tid()
    p = position[i]
    total = wp.vec3(0.0, 0.0, 0.0)
    for j in range(position.shape[0]):
        away = position[j] - p
        near = 1.0 / wp.sqrt(wp.dot(away, away) + 1e-2)
        total += away * (near * near * near)
    out[i] = total


@wp.kernel
def gray_scott(u: F2, v: F2, out: F2):
    i, j = wp.tid()
    m, n = u.shape[0], u.shape[1]
    here = u[i, j]
    around = u[(i + m - 1) % m, j] + u[(i + 1) % m, j]
    around += u[i, (j + n - 1) % n] + u[i, (j + 1) % n]
    reaction = here * v[i, j] * v[i, j]
    out[i, j] = here + 0.16 * (around - 4.0 * here) - reaction + 0.035 * (1.0 - here)


@wp.kernel
def mandelbrot(plane: PLACE, out: I2):
    i, j = wp.tid()
    re, im = plane[i, j][0], plane[i, j][1]
    a, b, rounds = float(0.0), float(0.0), int(0)
    while a * a + b * b <= 4.0 and rounds < wp.static(ROUNDS):
        following = a * a - b * b + re
        b = 2.0 * a * b + im
        a = following
        rounds += 1
    out[i, j] = rounds


@wp.kernel
def histogram(x: I1, out: I1):
    wp.atomic_add(out, x[wp.tid()], 1)


@wp.kernel
def product(x: F2, y: F2, out: F2):
    i, j = wp.tid()
    total = float(0.0)
    for n in range(wp.static(SIDE)):
        total += x[i, n] * y[n, j]
    out[i, j] = total


@wp.kernel
def part_sums(x: I1, sums: I1):
    part = wp.tid()
    total = int(0)
    for n in range(wp.static(PART)):
        total += x[part * wp.static(PART) + n]
    sums[part] = total


@wp.kernel
def scanned(x: I1, out: I1, sums: I1):
    part = wp.tid()
    total = int(0)
    for n in range(part):
        total += sums[n]
    for n in range(wp.static(PART)):
        total += x[part * wp.static(PART) + n]
        out[part * wp.static(PART) + n] = total


@wp.kernel
def attention(q: F2, key: F2, v: F2, total: F2):
    i = wp.tid()
    for d in range(wp.static(FEATURES)):
        total[i, d] = 0.0
    most, weight = float(-1e30), float(0.0)
    for j in range(key.shape[0]):
        score = float(0.0)
        for d in range(wp.static(FEATURES)):
            score += q[i, d] * key[j, d]
        score = score * wp.static(FEATURES**-0.5)
        now = wp.max(most, score)
        old, new = wp.exp(most - now), wp.exp(score - now)
        for d in range(wp.static(FEATURES)):
            total[i, d] = total[i, d] * old + v[j, d] * new
        weight = weight * old + new
        most = now
    for d in range(wp.static(FEATURES)):
        total[i, d] = total[i, d] / weight


def begin(device: str) -> None:
    """Find a device.  Raises what Warp raises where it is not there."""
    wp.get_device(device)


KERNELS: dict[str, Any] = {
    "n-body": forces, "gray-scott": gray_scott, "mandelbrot": mandelbrot, "histogram": histogram,
    "product": product, "scan": scanned, "attention": attention,
}  # fmt: skip


def prepared(device: str, name: str, inputs: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return what computes a case and waits for it, and what returns its result."""
    kernel = KERNELS[name]
    vectors = {"n-body": wp.vec3, "mandelbrot": wp.vec2}
    whole = name in ("mandelbrot", "histogram", "scan")
    dtypes = [vectors.get(name, wp.int32 if x.dtype == np.int32 else wp.float32) for x in inputs]
    given = [wp.array(x, dtype=t, device=device) for x, t in zip(inputs, dtypes, strict=True)]
    shape = (BINS,) if name == "histogram" else given[0].shape
    made = wp.int32 if whole else dtypes[0]
    out = wp.zeros(shape, dtype=made, device=device)
    sums = wp.zeros(PARTS, dtype=wp.int32, device=device)

    def run() -> None:
        if name == "histogram":
            out.zero_()
        if name == "scan":
            wp.launch(part_sums, PARTS, inputs=[*given, sums], device=device)
            wp.launch(scanned, PARTS, inputs=[*given, out, sums], device=device)
        else:
            points = {"histogram": COUNT, "attention": shape[0]}.get(name, shape)
            wp.launch(kernel, points, inputs=[*given, out], device=device)
        wp.synchronize_device(device)

    return run, out.numpy
