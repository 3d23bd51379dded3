"""What products and convolutions add up, as points and places in their three tensors."""

from __future__ import annotations

from typing import Any, Final

from pyrite.op.index import Form, coordinates
from pyrite.op.rule import Contract, Products
from pyrite.tensor.window import Pairs, window_counts
from pyrite.types import Shape, broadcast


def _matmul(x: Shape, y: Shape) -> Products:
    """Return (..., M, K) @ (..., K, N); a batch axis of size 1 is stretched."""
    batch = broadcast("matmul", x[:-2], y[:-2])
    *at, i, j, k = coordinates(len(batch) + 3)
    points = (*batch, x[-2], y[-1], x[-1])
    return Products.of(
        points,
        (x, (*_stretched(x[:-2], at), i, k)),
        (y, (*_stretched(y[:-2], at), k, j)),
        (points[:-1], (*at, i, j)),
    )


def _linear(x: Shape, weight: Shape) -> Products:
    """Return (..., I) with (O, I): the weight's rows are what is multiplied."""
    *at, j, k = coordinates(len(x) + 1)
    points = (*x[:-1], *weight)
    return Products.of(points, (x, (*at, k)), (weight, (j, k)), (points[:-1], (*at, j)))


def _stretched(batch: Shape, at: list[Form]) -> list[Form]:
    own = at[len(at) - len(batch) :]
    return [Form() if size == 1 else form for size, form in zip(batch, own, strict=True)]


def _convolution(
    x: Shape, weight: Shape, *, stride: Shape, padding: Pairs, dilation: Shape, groups: int
) -> Products:
    """Return (N, C, *S) with (O, C/groups, *K); a tap outside of x is no term."""
    outputs, channels, *kernel_size = weight
    counts = window_counts("convolution", x[2:], tuple(kernel_size), stride, padding, dilation)
    rank = len(counts)
    points = (x[0], groups, outputs // groups, *counts, channels, *kernel_size)
    image, group, output, *rest = coordinates(len(points))
    at, channel, taps = rest[:rank], rest[rank], rest[rank + 1 :]
    steps = zip(at, stride, taps, dilation, padding, strict=True)
    windows = [place * s + tap * d - before for place, s, tap, d, (before, _) in steps]
    of = group * (outputs // groups) + output
    return Products.of(
        points,
        (x, (image, group * channels + channel, *windows)),
        (weight, (of, channel, *taps)),
        ((x[0], outputs, *counts), (image, of, *at)),
    )


def _convolved_shape(g: Shape, weight: Shape, *, sizes: Shape, groups: int, **_: Any) -> Shape:
    return (g[0], groups * weight[1], *sizes)


def _weight_shape(x: Shape, g: Shape, *, kernel_size: Shape, groups: int, **_: Any) -> Shape:
    return (g[1], x[1] // groups, *kernel_size)


MATMUL: Final = Contract(_matmul)
#: A product and a convolution with one more number for each of their features or channels.
LINEAR: Final = Contract(_linear, bias=-1)
BIASED_CONVOLUTION: Final = Contract(_convolution, bias=1)
CONVOLUTION: Final = Contract(_convolution)
INPUT_GRADIENT: Final = CONVOLUTION.transposed(0, _convolved_shape, "sizes")
WEIGHT_GRADIENT: Final = CONVOLUTION.transposed(1, _weight_shape, "kernel_size")
