"""Gradients by central differences in float64: the judge of every derivative."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyrite.types import Array

#: Cube root of the machine epsilon of float64: balances truncation against rounding.
STEP = 6e-6


def central_difference(fn: Callable[..., float], arrays: Sequence[Any], position: int) -> Array:
    """Return the gradient of a scalar function with respect to one of its float64 arrays.

    Costs two calls per element.

    >>> square_sum = lambda x: float((x**2).sum())
    >>> central_difference(square_sum, [np.array([1.0, 3.0])], 0).round(6).tolist()
    [2.0, 6.0]
    """
    gradient = np.zeros_like(arrays[position])
    for index in np.ndindex(gradient.shape):
        ends = []
        for step in (STEP, -STEP):
            moved = np.array(arrays[position])
            moved[index] += step
            ends.append(fn(*arrays[:position], moved, *arrays[position + 1 :]))
        gradient[index] = (ends[0] - ends[1]) / (2 * STEP)
    return np.asarray(gradient)


def directional_difference(fn: Callable[[Array], Array], at: Array, direction: Array) -> Array:
    """Return the derivative of an array function along a direction: a Jacobian-vector product.

    >>> directional_difference(lambda x: x**2, np.array([3.0]), np.array([1.0])).round(6).tolist()
    [6.0]
    """
    ahead, behind = fn(at + STEP * direction), fn(at - STEP * direction)
    return np.asarray((ahead - behind) / (2 * STEP))
