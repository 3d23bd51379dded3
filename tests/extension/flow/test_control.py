"""Plain Python in a kernel means what Python means: each is judged by running it as Python.

On ``numpy`` the function runs as it was written, invocation by invocation; elsewhere it is
recorded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.backend.device import Device


def by_if(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    if x[i, 0] > 0.0:
        value = x[i, 1]
    elif n[i] > 3:
        value = 2
    else:
        value = -1.5
    out[i] = value


def by_one_side(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    value = x[i, 0]
    if value < 0:
        value = -value
    out[i] = value


def nothing_unless(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    out[i] = 0.0
    if n[i] < 3:
        return
    out[i] = x[i, n[i]]


def summed(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    total = 0.0
    for j in range(x.shape[1]):
        total += x[i, j]
    out[i] = total


def weighted(k: Any, x: Any, n: Any, out: Any) -> None:
    """Counters and coordinates are numbers, which meet floats."""
    (i,) = k.at
    total, sign = 0, 1
    for j in range(1, x.shape[1], 2):
        total += sign * x[i, j] * j / 2 + i * 0.25
        sign = -sign
    out[i] = total


def downwards(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    total = 0.0
    for j in range(x.shape[1] - 1, -1, -1):
        total = total / 2 + x[i, j]
    for j in range(10, 3, -3):
        total = total / 2 + x[i, j]
    for j in range(n[i], 0, -2):
        total = total / 2 + x[i, j]
    out[i] = total


def of_values(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    total = 0.0
    for j in range(n[i]):
        for m in range(j, n[i], 3):
            total += x[i, m] * (m - j)
    for _ in range(n[i], 4):
        total -= 1.0
    out[i] = total


def hardly(k: Any, x: Any, n: Any, out: Any) -> None:
    """Ranges of no round and of one."""
    (i,) = k.at
    total = x[i, 0]
    for j in range(0):
        total += j
    for j in range(5, 6):
        total += x[i, j]
    for j in range(3, 0):
        total += j
    out[i] = total


def by_while(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    z, rounds = x[i, 0], 0
    while abs(z) < 50.0 and rounds < 30:
        z = z * z + x[i, 1] + 1.0
        rounds += 1
    out[i] = rounds


def forever(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    j = 0
    while True:
        if j >= x.shape[1]:
            break
        if x[i, j] > 1.0:
            break
        j += 1
    out[i] = j


def by_walrus(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    j, total = 0, 0.0
    while (value := x.get(i, j)) != 0.0:
        total += value
        j = j + 1
    out[i] = total


def first_above(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    found = -1
    for j in range(x.shape[1]):
        if x[i, j] > 0.5:
            found = j
            break
    else:
        found = 100
    out[i] = found


def some_rounds(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    total = 0.0
    for j in range(x.shape[1]):
        if x[i, j] < 0.0:
            continue
        for m in range(j):
            if m == n[i]:
                break
            if x[i, m] > x[i, j]:
                continue
            total += x[i, m]
        if total > 3.0:
            break
        total += x[i, j]
    out[i] = total


def left_from_inside(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    out[i] = -1.0
    for j in range(x.shape[1]):
        for m in range(j):
            if x[i, m] + x[i, j] > 2.0:
                out[i] = j * 100 + m
                return
    out[i] = -2.0


def short(k: Any, x: Any, n: Any, out: Any) -> None:
    """What is to the right is not read where what is to the left decides."""
    (i,) = k.at
    last = n[i] * 4
    inside = last < x.shape[1] and x[i, last] > 0.0
    outside = last >= x.shape[1] or not x[i, last] > 0.0
    out[i] = (1.0 if inside else 2.0) + (10.0 if outside else 20.0)


def chained(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    out[i] = 1.0 if -0.5 < x[i, 0] <= x[i, 1] < 2.0 else x[i, 2] if 1 <= n[i] < 4 else 0


def written_out(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    sums = [0.0, x[i, 0], 0.0]
    for j in range(3, x.shape[1]):
        for place in k.static(range(3)):
            sums[place] += x[i, j - place]
    for weight in (1, 2, 4):
        if x[i, weight] < -0.5:
            break
        if n[i] == weight:
            continue
        sums[0] += weight
    out[i] = sums[0] + 10 * sums[1] + 100 * sums[2]


def swapped(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    a, b = 0, 1
    pair = (x[i, 0], 0.0)
    for _ in range(n[i]):
        a, b = b, a + b
        pair = (pair[1] + 1.0, pair[0])
    out[i] = a + pair[0] * 2 - pair[1]


def of_truths(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    seen = False
    for j in range(x.shape[1]):
        if not seen and x[i, j] > 0.3:
            seen = True
        elif seen:
            seen = x[i, j] > -1.0
    if not seen:
        out[i] = 3.0
    else:
        out[i] = 4.0


def reused(k: Any, x: Any, n: Any, out: Any) -> None:
    """A name for this and that, where nothing reads it afterwards."""
    (i,) = k.at
    t = x[i, 0]
    total = t
    for j in range(3):
        t = n[i] + j
        total += x[i, t]
    if total > 0.0:
        t = "positive"
    else:
        t = (1, 2)
    t = total
    out[i] = t


def bitwise(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    bits, value = 0, n[i] * 77
    while value:
        bits += value & 1
        value >>= 1
    half = 64
    while half > 0:
        bits += half
        half //= 2
    out[i] = float(bits)


def set_on_ways_that_go_on(k: Any, x: Any, n: Any, out: Any) -> None:
    """What is set in each branch but the one that returns is set."""
    (i,) = k.at
    out[i] = -1.0
    if x[i, 0] > 1.0:
        value = x[i, 1]
    elif n[i] > 3:
        return
    else:
        value, parts = 2.0, (1, 2)
        value += parts[0]
    out[i] = value


def set_before_the_next_round(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    total = 0.0
    for j in range(x.shape[1]):
        if x[i, j] > 1.0:
            share = 0.5
        elif n[i] == j:
            break
        elif x[i, j] > 0.5:
            continue
        else:
            share = x[i, j]
        total += share
    out[i] = total


def left_in_the_else_of_a_loop(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    total = 0.0
    for j in range(x.shape[1]):
        for m in (1, 2):
            if x[i, m] > 1.0:
                break
        else:
            continue
        total += x[i, j]
    out[i] = total


KERNELS = [
    by_if, by_one_side, nothing_unless, summed, weighted, downwards, of_values, hardly, by_while,
    forever, by_walrus, first_above, some_rounds, left_from_inside, short, chained, written_out,
    swapped, of_truths, reused, bitwise,
    set_on_ways_that_go_on, set_before_the_next_round, left_in_the_else_of_a_loop,
]  # fmt: skip


@pytest.mark.sample(12)
@pytest.mark.parametrize("function", KERNELS, ids=lambda f: f.__name__)
def test_a_kernel_is_what_python_makes_of_it(function: Any, device: Device, judged: Any) -> None:
    judged(function, device)


def test_a_loop_leaves_no_memory_of_what_was_recorded_twice(
    interpreter: Device, op_of: Any, rows: Any
) -> None:
    sizes = []

    def body(k: Any, x: Any, n: Any, out: Any) -> None:
        total = 0.0
        for j in range(4):
            tile = k.private("float32", 2)
            tile[0] = x[0, j]
            total += tile[0]
        out[k.at] = total
        sizes.append(k.memories())

    x, n = (pyrite.tensor(a, device=interpreter) for a in rows)
    np.testing.assert_allclose(op_of(body)(x, n).numpy(), x.numpy()[0, :4].sum(), rtol=1e-6)

    assert sizes == [1]
