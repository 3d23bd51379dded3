"""A contraction is seen to be a convolution by its places alone, and no other is taken for one."""

from __future__ import annotations

from dataclasses import replace
from itertools import product as combinations
from typing import Any

import pytest

from pyrite.backend.cube.lowering.convolution import windows_of
from pyrite.backend.cube.skeleton.contraction.windows import windows_of_products
from pyrite.op.index import coordinates
from pyrite.op.rule import Products
from pyrite.tensor.product_rules import CONVOLUTION, MATMUL
from pyrite.types import Shape

#: Images, groups, channels and outputs of each, sizes, taps, stride, padding, dilation.
LAYERS = list(
    combinations(
        (1, 3), (1, 2), (1, 2), (1, 3), ((5,), (6, 7)), (1, 2, 3), (1, 2),
        ((0, 0), (2, 1), (-1, 0)), (1, 2),
    )
)  # fmt: skip


@pytest.mark.sample(200)
@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_a_convolution_is_told_by_its_places(layer: Any) -> None:
    images, groups, channels, outputs, sizes, taps, stride, padding, dilation = layer
    rank = len(sizes)
    x, weight = (images, groups * channels, *sizes), (groups * outputs, channels, *(taps,) * rank)
    how: dict[str, Any] = {
        "stride": (stride,) * rank, "padding": (padding,) * rank, "dilation": (dilation,) * rank,
        "groups": groups,
    }  # fmt: skip
    if any(n + sum(padding) < dilation * (taps - 1) + 1 for n in sizes):
        pytest.skip("a window exceeds the image")
    products = CONVOLUTION.products_of([x, weight], how)
    found = windows_of_products(products)
    assert found is not None
    counts = products.out.source[2:]
    want = windows_of(x, weight, counts, how)
    # How far windows, or taps, are apart is of no matter where there is one.
    stride_told = tuple(s if n > 1 else 1 for s, n in zip(want.stride, counts, strict=True))
    dilation_told = want.dilation if taps > 1 else (1,) * rank
    assert found == replace(want, stride=stride_told, dilation=dilation_told)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ((3, 4, 5), (3, 5, 6)),
        ((1, 4, 5), (1, 5, 6)),
        ((1, 1, 5), (1, 5, 1)),
        ((2, 1, 1), (2, 1, 1)),
    ],
)
def test_a_product_of_matrices_is_no_convolution(x: Shape, y: Shape) -> None:
    assert windows_of_products(MATMUL.products_of([x, y], {})) is None


def _shifted(*, step: int = 1, offset: int = 0, high: int = 7, twice: int = 1) -> Products:
    """Return sums along an axis of 7 by a window of 3, or something near that."""
    n, o, i, c, t = coordinates(5)
    products = Products.of(
        (2, 4, 5, 3, 3),
        ((2, 3, 7), (n, c, i * step + t)),
        ((4, 3, 3), (o * twice + offset, c, t)),
        ((2, 4, 5), (n, o, i)),
    )
    bounds = tuple(replace(bound, high=high) for bound in products.x.bounds)
    return replace(products, x=replace(products.x, bounds=bounds))


def test_what_differs_in_one_place_is_no_convolution() -> None:
    assert windows_of_products(_shifted()) is not None
    assert windows_of_products(_shifted(step=2)) is not None
    assert windows_of_products(_shifted(step=-1)) is None
    assert windows_of_products(_shifted(step=2, high=6)) is None
    assert windows_of_products(_shifted(offset=1)) is None
    assert windows_of_products(_shifted(twice=2)) is None
