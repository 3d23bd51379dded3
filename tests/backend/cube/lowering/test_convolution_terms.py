"""Which outputs of a convolution, and of its gradients, meet padding: found by trying all taps."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from pyrite.backend.cube.lowering.convolution_terms import (
    Edge,
    Forward,
    InputGradient,
    WeightGradient,
    boxes,
)
from pyrite.kernel.template.implicit_gemm import Windows

KINDS: dict[str, Any] = {
    "forward": Forward,
    "input gradient": InputGradient,
    "weight gradient": WeightGradient,
}


def drawn(draw: random.Random) -> Windows:
    """Return windows on one axis."""
    k, s, d = draw.randint(1, 4), draw.randint(1, 3), draw.randint(1, 2)
    before, after, span = draw.randint(0, 3), draw.randint(0, 3), (k - 1) * d + 1
    n = draw.randint(span, 30)
    count = (n + before + after - span) // s + 1
    return Windows(1, 1, 1, 1, (n,), (k,), (count,), (s,), (before,), (d,))


def met(kind: str, w: Windows) -> set[int]:
    """Return the elements of out of which some tap meets padding."""
    (n,), (count,), (k,) = w.sizes, w.counts, w.kernel_size
    (s,), (p,), (d,) = w.stride, w.padding, w.dilation
    if kind == "input gradient":
        return {
            i
            for i in range(n)
            for t in range(k)
            if (i + p - t * d) % s == 0 and not 0 <= (i + p - t * d) // s < count
        }
    pairs = [(o, t) for o in range(count) for t in range(k) if not 0 <= o * s + t * d - p < n]
    return {o if kind == "forward" else t for o, t in pairs}


@pytest.mark.parametrize("kind", KINDS)
def test_the_border_holds_every_output_that_meets_padding_and_not_all(kind: str) -> None:
    draw, inner = random.Random(0), 0
    for _ in range(500):
        w = drawn(draw)
        (edge,) = KINDS[kind](w).edges
        inside = set(range(edge.low, edge.high))
        assert not met(kind, w) & inside, w
        assert met(kind, w) or len(inside) == edge.size, w
        inner += len(inside)
    assert inner > 400


def test_boxes_have_as_many_elements_as_are_not_inside() -> None:
    edges = [Edge(4, 1, 3), Edge(3, 0, 2), Edge(5, 2, 3)]
    sizes = [math.prod(run.count for run in box) for box in boxes(edges)]
    assert sum(sizes) == 4 * 3 * 5 - 2 * 2 * 1
    assert boxes([Edge(4, 0, 4), Edge(3, 0, 3)]) == []
