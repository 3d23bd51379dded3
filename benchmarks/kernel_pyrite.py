"""The cases as `pyrite.extension.kernel`; on the device that is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernel_cases import BINS, COUNT, FEATURES, PART, ROUNDS, SIDE

import pyrite
from pyrite import Tensor, custom_op
from pyrite.extension import Vector, kernel, stages
from pyrite.extension.lanes import LANES as SUBGROUP
from pyrite.types import TensorType

TILE, LANES, GROUPS, ABREAST = 16, 64, 16, 8
PARTS = COUNT // PART


@kernel(inner=1)
def forces(k: Any, position: Any, out: Any) -> None:
    (i,) = k.at
    p, total = position[i], Vector(0.0, 0.0, 0.0)
    for j in range(position.shape[0]):
        away = position[j] - p
        near = k.math.rsqrt(away.dot(away) + 1e-2)
        total = total + away * (near * near * near)
    out[i] = total


@kernel
def gray_scott(k: Any, u: Any, v: Any, out: Any) -> None:
    i, j = k.at
    here = u[i, j]
    around = u.get(i - 1, j, border="wrap") + u.get(i + 1, j, border="wrap")
    around += u.get(i, j - 1, border="wrap") + u.get(i, j + 1, border="wrap")
    reaction = here * v[i, j] * v[i, j]
    out[i, j] = here + 0.16 * (around - 4.0 * here) - reaction + 0.035 * (1.0 - here)


@kernel
def mandelbrot(k: Any, plane: Any, out: Any) -> None:
    i, j = k.at
    re, im = plane[i, j, 0], plane[i, j, 1]
    a, b, rounds = 0.0, 0.0, 0
    while a * a + b * b <= 4.0 and rounds < ROUNDS:
        a, b = a * a - b * b + re, 2.0 * a * b + im
        rounds += 1
    out[i, j] = rounds


@kernel(workgroup_size=LANES, grid=lambda *_: (GROUPS,), fill={"out": 0})
def histogram(k: Any, x: Any, out: Any) -> None:
    lane, part = k.local_id(), k.workgroup_id() * (COUNT // GROUPS)
    bins = k.shared("int32", BINS, access="atomic")
    for b in range(lane, BINS, LANES):
        bins.atomic("store", b, 0)
    k.barrier()
    for n in range(part + lane, part + COUNT // GROUPS, LANES):
        bins.atomic("add", x[n] % BINS, 1)  # inside, whatever it is: not tested
    k.barrier()
    for b in range(lane, BINS, LANES):
        out.atomic("add", b, bins.atomic("load", b))


@kernel
def product(k: Any, x: Any, y: Any, out: Any) -> None:
    i, j = k.at
    total = 0.0
    for n in range(x.shape[1]):
        total += x[i, n] * y[n, j]
    out[i, j] = total


@kernel(workgroup_size=(TILE, TILE), grid=lambda *_: (SIDE // TILE, SIDE // TILE))
def tiled(k: Any, x: Any, y: Any, out: Any) -> None:
    column, row = k.local_id(0), k.local_id(1)
    i, j = k.workgroup_id(1) * TILE + row, k.workgroup_id(0) * TILE + column
    left, right = k.shared("float32", TILE * TILE), k.shared("float32", TILE * TILE)
    total = 0.0
    for first in range(0, SIDE, TILE):
        left[row * TILE + column] = x[i, first + column]
        right[row * TILE + column] = y[first + row, j]
        k.barrier()
        for n in k.static(range(TILE)):
            total += left[row * TILE + n] * right[n * TILE + column]
        k.barrier()
    out[i, j] = total


@kernel(workgroup_size=SUBGROUP, grid=lambda *_: (PARTS,))
def part_sums(k: Any, x: Any, out: Any, sums: Any) -> None:
    part, total = k.workgroup_id(), 0
    for n in range(0, PART, 4 * SUBGROUP):
        for m in k.static(range(4)):
            total += x[part * PART + n + m * SUBGROUP + k.local_id()]
    sums[part] = k.subgroup_reduce("add", total)


@kernel(workgroup_size=SUBGROUP, grid=lambda *_: (PARTS,))
def scanned(k: Any, x: Any, out: Any, sums: Any) -> None:
    part, total = k.workgroup_id(), 0
    for n in range(part):
        total += sums[n]
    for n in range(0, PART, SUBGROUP):
        at = part * PART + n + k.local_id()
        found = k.subgroup_scan("add", x[at])
        out[at] = total + found
        total += k.subgroup_shuffle(found, SUBGROUP - 1)


@kernel(workgroup_size=ABREAST, grid=lambda *_: (PARTS // ABREAST,))
def sums_of_rows(k: Any, x: Any, out: Any, sums: Any) -> None:
    part, total = k.global_id(), Vector(0, 0, 0, 0)
    for row in range(part * (PART // 4), (part + 1) * (PART // 4)):
        total = total + x[row]
    sums[part] = total[0] + total[1] + total[2] + total[3]


@kernel(workgroup_size=ABREAST, grid=lambda *_: (PARTS // ABREAST,))
def scanned_rows(k: Any, x: Any, out: Any, sums: Any) -> None:
    part, last = k.global_id(), 0
    for n in range(part):
        last += sums[n]
    for row in range(part * (PART // 4), (part + 1) * (PART // 4)):
        first = last + x[row][0]
        second = first + x[row][1]
        third = second + x[row][2]
        last = third + x[row][3]
        out[row] = Vector(first, second, third, last)


@kernel(inner=1, workgroup_size=16)
def attention(k: Any, q: Any, key: Any, v: Any, out: Any) -> None:
    (i,) = k.at
    query, total = k.private("float32", FEATURES), k.private("float32", FEATURES)
    for d in range(FEATURES):
        query[d], total[d] = q[i, d], 0.0
    most, weight = -1e30, 0.0
    for j in range(key.shape[0]):
        score = 0.0
        for d in range(FEATURES):
            score += query[d] * key[j, d]
        score = score * FEATURES**-0.5
        now = max(most, score)
        old, new = k.math.exp(most - now), k.math.exp(score - now)
        for d in range(FEATURES):
            total[d] = total[d] * old + v[j, d] * new
        most, weight = now, weight * old + new
    for d in range(FEATURES):
        out[i, d] = total[d] / weight


def _op(made: Any, inputs: int, infer: Callable[..., Any] = lambda x, *_: x) -> Any:
    def one(x: Tensor, /) -> Any:
        """Of one."""

    def two(x: Tensor, y: Tensor, /) -> Any:
        """Of two."""

    def three(x: Tensor, y: Tensor, z: Tensor, /) -> Any:
        """Of three."""

    return custom_op(infer=infer, kernels=[made])((one, two, three)[inputs - 1])


def _whole(*sizes: int) -> TensorType:
    return TensorType(sizes, pyrite.int32)


OPS = {
    "n-body": _op(forces, 1),
    "gray-scott": _op(gray_scott, 2),
    "mandelbrot": _op(mandelbrot, 1, lambda x: _whole(*x.shape[:2])),
    "histogram": _op(histogram, 1, lambda x: _whole(BINS)),
    "product": _op(product, 2),
    "tiled product": _op(tiled, 2),
    "scan": _op(stages(part_sums, scanned), 1, lambda x: (x, _whole(PARTS))),
    "scan of rows": _op(stages(sums_of_rows, scanned_rows), 1, lambda x: (x, _whole(PARTS))),
    "attention": _op(attention, 3),
}


def prepared(device: str, name: str, inputs: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return what computes a case and waits for it, and what returns its result."""
    given = [pyrite.tensor(x, device=device) for x in inputs]
    found: list[Any] = []
    if name == "scan" and device != "cpu":
        # In software subgroups take long, and reads by fours are fewer.
        name, given = "scan of rows", [x.reshape((-1, 4)) for x in given]

    op = OPS[name]

    def run() -> None:
        found.clear()  # so that results take the same memory each time, as those of the peers do
        made = op(*given)
        found.append(made[0] if isinstance(made, tuple) else made)
        given[0].device.synchronize()

    shape = inputs[0].shape if name == "scan of rows" else None

    def result() -> Any:
        values = found[0].numpy()
        return values if shape is None else values.reshape(shape)

    return run, result
