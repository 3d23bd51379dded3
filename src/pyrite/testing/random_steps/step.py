"""What the steps of random graphs are made with: how often each is drawn, and of which values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from pyrite.testing.random_graphs import Drawn, RandomGraph, Rounds, Value

Draw = Callable[[RandomGraph], "Drawn | None"]


def often(times: Mapping[Draw, int]) -> list[Draw]:
    """Return the steps of a table, each as often as it is to be drawn."""
    return [draw for draw, count in times.items() for _ in range(count)]


def is_float(value: Value) -> bool:
    """Whether a value is of floats."""
    return bool(value.tensor.dtype.is_float)


def is_number(value: Value) -> bool:
    """Whether a value is of numbers."""
    return not value.tensor.dtype.is_bool


def is_sure(value: Value) -> bool:
    """Whether all kernels of a device give the same bits."""
    return value.is_exact


def axes_of(g: RandomGraph, ndim: int) -> tuple[int, ...] | int | None:
    """Return axes as a user gives them."""
    if not ndim or g.random.random() < 0.2:
        return None
    axes = g.random.sample(range(ndim), g.random.randint(1, ndim))
    if len(axes) == 1 and g.random.random() < 0.5:
        return axes[0] - (ndim if g.random.random() < 0.5 else 0)
    return tuple(axes)


def meeting(g: RandomGraph, accepts: Callable[[Value], bool]) -> tuple[int, int] | None:
    """Return two values whose shapes broadcast, or None."""
    x = g.pick(accepts)
    if x is None:
        return None
    shape = g.type_of(x).shape

    def broadcasts(value: Value) -> bool:
        pairs = zip(reversed(shape), reversed(value.tensor.shape), strict=False)
        size = math.prod(shape) * math.prod(value.tensor.shape)
        return accepts(value) and all(a == b or 1 in (a, b) for a, b in pairs) and size < 10**7

    y = g.pick(broadcasts)
    return None if y is None else (x, y)


def step_of(
    g: RandomGraph, text: str, compute: Callable[..., Any], *operands: int, rounds: Rounds = "no",
    is_discontinuous: bool = False,
) -> Drawn:  # fmt: skip
    """Return a step, which now and then runs in another thread."""
    apart = g.random.random() < 0.03
    return Drawn(text, compute, operands, rounds, is_discontinuous, apart)
