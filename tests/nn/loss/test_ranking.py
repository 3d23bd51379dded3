"""Losses of comparisons against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite import nn
from pyrite.errors import ShapeError
from pyrite.tensor.creation import full, tensor

torch = pytest.importorskip("torch")
T = torch.nn

rng = np.random.default_rng(0)
A, B, C = rng.standard_normal((3, 6, 4))
SIGNS = np.array([1, -1, 1, 1, -1, -1])
MATRIX_OF_SIGNS = np.where(A > 0, 1, -1)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    ("name", "options", "arrays"),
    [
        ("MarginRankingLoss", {"margin": 0.5}, (A, B, MATRIX_OF_SIGNS)),
        ("HingeEmbeddingLoss", {"margin": 0.7}, (A, MATRIX_OF_SIGNS)),
        ("CosineEmbeddingLoss", {"margin": 0.1}, (A, B, SIGNS)),
        ("TripletMarginLoss", {}, (A, B, C)),
        ("TripletMarginLoss", {"margin": 2.0, "p": 3.0, "swap": True}, (A, B, C)),
    ],
)
def test_it_is_pytorchs(
    agrees: Any, name: str, options: dict[str, Any], arrays: tuple[Any, ...], reduction: str
) -> None:
    options = {**options, "reduction": reduction}
    agrees(getattr(nn, name)(**options), getattr(T, name)(**options), *arrays, rtol=1e-7)


def test_shapes_are_checked() -> None:
    with pytest.raises(ShapeError, match=r"target of the prediction's shape \(2,\), got \(2, 1\)"):
        nn.CosineEmbeddingLoss()(full((2, 3), 1.0), full((2, 3), 1.0), tensor([[1], [1]]))
    with pytest.raises(ShapeError, match="requires negative of the prediction's shape"):
        nn.TripletMarginLoss()(full((2, 3), 1.0), full((2, 3), 1.0), full((3,), 1.0))
