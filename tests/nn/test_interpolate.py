"""Resizing layers against PyTorch's Upsample."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite import nn
from pyrite.errors import ArgumentError, ShapeError
from pyrite.tensor.creation import full

torch = pytest.importorskip("torch")

rng = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("layer", "shape", "options"),
    [
        (nn.Interpolate1d, (2, 3, 5), {"size": 8}),
        (nn.Interpolate1d, (2, 3, 5), {"scale_factor": 1.7, "mode": "linear"}),
        (nn.Interpolate2d, (2, 3, 4, 5), {"size": (7, 3), "mode": "bilinear"}),
        (nn.Interpolate2d, (2, 3, 4, 5), {"scale_factor": 2, "mode": "bicubic"}),
        (nn.Upsample, (2, 3, 4, 5), {"scale_factor": 2}),
        (nn.Upsample, (2, 3, 4, 5), {"size": 9, "mode": "bilinear", "align_corners": True}),
        (nn.Interpolate3d, (1, 2, 3, 4, 2), {"scale_factor": (2, 1, 3), "mode": "trilinear"}),
    ],
)
def test_it_is_pytorchs(
    agrees: Any, layer: Any, shape: tuple[int, ...], options: dict[str, Any]
) -> None:
    theirs = torch.nn.Upsample(**options)
    agrees(layer(**options), theirs, rng.standard_normal(shape), rtol=1e-7)


def test_errors() -> None:
    with pytest.raises(ArgumentError, match="Interpolate1d requires either size or scale_factor"):
        nn.Interpolate1d()
    with pytest.raises(ArgumentError, match="size to be an integer or 2 integers"):
        nn.Interpolate2d(size=(1, 2, 3))
    with pytest.raises(ShapeError, match=r"Interpolate2d requires x of shape \(N, C, H, W\)"):
        nn.Interpolate2d(4)(full((1, 2, 3), 0.0))
