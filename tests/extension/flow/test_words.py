"""What a kernel calls: Python's functions of numbers, and those of the application."""

from __future__ import annotations

from typing import Any

import pytest

from pyrite.backend.device import Device


def of_builtins(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    a, b = x[i, 0], x[i, 1]
    whole = int(a * 10.0) + round(b * 10.0)
    out[i] = (
        min(a, b, 0.5)
        + 2 * max(a, -b)
        + whole / 4
        + float(n[i]) * 0.5
        + a**2
        + pow(b, 2) * len(n) / len(x)
        + (1 if bool(n[i]) else 3)
    )


def of_functions(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    out[i] = (
        clipped(x[i, 0], -0.5, 0.5) + place_of(x, i, 1.0) + power_of(x[i, 1], 3) + Scale(3)(x[i, 2])
    )


def clipped(value: Any, low: Any, high: Any) -> Any:
    if value < low:
        return low
    if value > high:
        return high
    return value


def place_of(x: Any, i: Any, wanted: Any) -> Any:
    for j in range(x.shape[1]):
        if x[i, j] > wanted:
            return j
    return -1


def power_of(value: Any, exponent: int) -> Any:
    """It calls itself as often as Python knows."""
    return 1.0 if exponent == 0 else value * power_of(value, exponent - 1)


class Scale:
    """Something with a method."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def times(self, value: Any) -> Any:
        return value * self.factor if value > 0.0 else value

    def __call__(self, value: Any) -> Any:
        return self.times(value)


def inner_functions(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    bound = x[i, 0]

    def above(value: Any) -> Any:
        if value > bound:
            return value
        return bound

    total = 0.0
    for j in range(1, 4):
        total += above(x[i, j])
    out[i] = total


@pytest.mark.sample(3)
@pytest.mark.parametrize("function", [of_builtins, of_functions, inner_functions])
def test_a_kernel_calls_what_python_calls(function: Any, device: Device, judged: Any) -> None:
    judged(function, device)
