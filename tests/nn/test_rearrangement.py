"""Layers that move elements, against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite import nn
from pyrite.errors import ArgumentError, ShapeError
from pyrite.tensor.creation import full

torch = pytest.importorskip("torch")
T = torch.nn

rng = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("ours", "theirs", "shape"),
    [
        (nn.Flatten(), T.Flatten(), (2, 3, 4)),
        (nn.Flatten(0, 1), T.Flatten(0, 1), (2, 3, 4)),
        (nn.PixelShuffle(2), T.PixelShuffle(2), (2, 12, 3, 2)),
        (nn.PixelUnshuffle(3), T.PixelUnshuffle(3), (2, 2, 6, 3)),
        (nn.Unfold(2), T.Unfold(2), (2, 3, 4, 5)),
        (nn.Unfold((3, 2), (1, 2), (1, 0), 2), T.Unfold((3, 2), (1, 2), (1, 0), 2), (2, 3, 4, 5)),
        (nn.Fold((4, 5), 2), T.Fold((4, 5), 2), (2, 12, 12)),
        (nn.Fold(6, 3, 1, 1, 2), T.Fold(6, 3, 1, 1, 2), (2, 18, 9)),
    ],
    ids=lambda m: repr(m),
)
def test_it_is_pytorchs(agrees: Any, ours: Any, theirs: Any, shape: tuple[int, ...]) -> None:
    agrees(ours, theirs, rng.standard_normal(shape))


def test_errors() -> None:
    with pytest.raises(ArgumentError, match="PixelShuffle requires upscale_factor >= 1, got 0"):
        nn.PixelShuffle(0)
    with pytest.raises(ShapeError, match=r"\(1, 6, 2, 2\)"):
        nn.PixelShuffle(2)(full((1, 6, 2, 2), 0.0))
    with pytest.raises(
        ShapeError, match=r"Unfold requires x of shape \(N, C, H, W\), got \(3, 4\)"
    ):
        nn.Unfold(2)(full((3, 4), 0.0))
    with pytest.raises(ShapeError, match="fold4d"):
        nn.Fold(4, 2)(full((1, 4, 5), 0.0))
