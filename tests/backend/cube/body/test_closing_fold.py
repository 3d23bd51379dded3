"""Which folds may run before what follows them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyrite import Tensor, custom_op
from pyrite.backend.cube.body.closing_fold import closing_folds
from pyrite.backend.cube.body.region import inside_of, is_fold
from pyrite.backend.tracing.tracer import traced
from pyrite.types import TensorType, float32

Body = Callable[[Tensor, Tensor], Tensor]

#: Functions of two matrices, how many folds their graphs have, and how many closing ones.
CASES: dict[str, tuple[Body, int, int]] = {
    "a gradient of a bias with its update": (lambda x, y: y[0] - x.sum(axis=0) * 0.1, 1, 1),
    "a result": (lambda x, y: x.sum(axis=1), 1, 1),
    "what is stretched again": (lambda x, y: x - x.max(axis=1, keepdims=True), 1, 0),
    "what is stretched after a view": (lambda x, y: y + x.max(axis=0).reshape((1, -1)), 1, 0),
    "a fold of a fold": (lambda x, y: x.max(axis=1).sum(), 2, 1),
    "what a product needs": (lambda x, y: (y @ x.sum(axis=0)) * 2.0, 1, 0),
    "one of two": (lambda x, y: x.sum(axis=0) + (y - y.max()).max(axis=0), 3, 2),
    "one in vain": (lambda x, y: (x.sum(), y.sum(axis=0))[1], 1, 1),
}


@pytest.mark.parametrize("name", CASES)
def test_what_closing_folds_are_followed_by_is_elementwise_and_small(name: str) -> None:
    body, folds, closing = CASES[name]

    def made(x: Tensor, y: Tensor, /) -> Tensor: ...

    op = custom_op(body=body, infer=lambda x, y: x)(made).op  # type: ignore[attr-defined]
    graph = traced(op, (TensorType((4, 6), float32), TensorType((4, 6), float32)), {})
    assert graph is not None
    assert sum(is_fold(node) for node in graph.nodes) == folds
    found = closing_folds(graph, inside_of(graph))
    assert len(found) == closing
    assert found == [node for node in graph.nodes if node in found], "in order"
