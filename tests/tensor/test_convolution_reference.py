"""The reference of convolutions against their definition: a sum over the elements that exist."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from pyrite.tensor import convolution_reference as reference
from pyrite.tensor.window import window_counts
from pyrite.types import Array

GEOMETRIES: list[dict[str, Any]] = [
    {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1)},
    {"stride": (2, 1), "padding": ((0, 2), (3, 0)), "dilation": (1, 2)},
    {"stride": (3, 2), "padding": ((2, 1), (0, 0)), "dilation": (2, 1)},
    {"stride": (1, 1), "padding": ((4, 4), (4, 4)), "dilation": (1, 1)},
]
SIZES, KERNEL, GROUPS = (5, 6), (3, 2), 2

Shapes = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def shapes(geometry: dict[str, Any]) -> Shapes:
    """The shapes of x, weight and out."""
    return (2, 4, *SIZES), (4, 2, *KERNEL), (2, 4, *window_counts("", SIZES, KERNEL, **geometry))


def products(geometry: dict[str, Any], of: Shapes) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the indices in x, weight and out of all elements that meet."""
    for n, o, c, *at in itertools.product(*map(range, (*of[2][:2], of[1][1], *of[2][2:], *KERNEL))):
        windows, taps = at[:2], at[2:]
        given = (geometry[k] for k in ("stride", "padding", "dilation"))
        axes = zip(windows, taps, *given, strict=True)
        places = [p * s + t * d - before for p, t, s, (before, _), d in axes]
        if all(0 <= at < size for at, size in zip(places, SIZES, strict=True)):
            group = o // (of[2][1] // GROUPS)
            yield (n, group * of[1][1] + c, *places), (o, c, *taps), (n, o, *windows)


def summed(geometry: dict[str, Any], into: int, left: Array, right: Array) -> Array:
    """Return the sums of products of two of the three, by the third."""
    of = shapes(geometry)
    a, b = (i for i in range(3) if i != into)
    found = np.zeros(of[into])
    for places in products(geometry, of):
        found[places[into]] += left[places[a]] * right[places[b]]
    return found


CALLS: dict[int, Callable[..., Array]] = {
    0: lambda weight, g, **kw: reference.input_gradient(g, weight, sizes=SIZES, **kw),
    1: lambda x, g, **kw: reference.weight_gradient(x, g, kernel_size=KERNEL, **kw),
    2: reference.convolution,
}


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("poison", [None, math.inf, math.nan])
@pytest.mark.parametrize("into", CALLS)
@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.sample(4, by="poison")
def test_sums_are_of_the_elements_that_meet(
    geometry: dict[str, Any], into: int, poison: float | None
) -> None:
    rng = np.random.default_rng(into)
    operands = [rng.standard_normal(s) for i, s in enumerate(shapes(geometry)) if i != into]
    want = summed(geometry, into, *operands)
    np.testing.assert_allclose(CALLS[into](*operands, groups=GROUPS, **geometry), want, atol=1e-12)
    if poison is None:
        return
    for operand in operands:
        for place in (0, operand.size // 2, operand.size - 1):
            kept, operand.flat[place] = operand.flat[place], poison
            want = summed(geometry, into, *operands)
            got = CALLS[into](*operands, groups=GROUPS, **geometry)
            np.testing.assert_allclose(got, want, atol=1e-12)
            operand.flat[place] = kept
