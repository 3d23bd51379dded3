"""Pooling layers against PyTorch's, and their errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite import nn
from pyrite.errors import ArgumentError, ShapeError
from pyrite.tensor.creation import full

torch = pytest.importorskip("torch")

rng = np.random.default_rng(0)
SHAPES = {"1d": (2, 3, 11), "2d": (2, 3, 7, 6), "3d": (1, 2, 5, 4, 6)}


@pytest.mark.parametrize("rank", SHAPES)
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": 2, "stride": 3, "ceil_mode": True},
        {"kernel_size": 2, "stride": 1, "dilation": 2},
    ],
)
def test_max_pools_are_pytorchs(agrees: Any, rank: str, options: dict[str, Any]) -> None:
    name = f"MaxPool{rank}"
    x = rng.permutation(int(np.prod(SHAPES[rank]))).reshape(SHAPES[rank]) / 7.0
    agrees(getattr(nn, name)(**options), getattr(torch.nn, name)(**options), x)


@pytest.mark.parametrize("rank", SHAPES)
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
        {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    ],
)
def test_average_pools_are_pytorchs(agrees: Any, rank: str, options: dict[str, Any]) -> None:
    name = f"AvgPool{rank}"
    x = rng.standard_normal(SHAPES[rank])
    agrees(getattr(nn, name)(**options), getattr(torch.nn, name)(**options), x)


@pytest.mark.parametrize("rank", SHAPES)
@pytest.mark.parametrize("kind", ["Avg", "Max"])
@pytest.mark.parametrize("size", [1, 3])
def test_adaptive_pools_are_pytorchs(agrees: Any, rank: str, kind: str, size: int) -> None:
    name = f"Adaptive{kind}Pool{rank}"
    x = rng.permutation(int(np.prod(SHAPES[rank]))).reshape(SHAPES[rank]) / 7.0
    agrees(getattr(nn, name)(size), getattr(torch.nn, name)(size), x)


def test_padding_may_differ_on_every_side() -> None:
    out = nn.MaxPool2d(2, padding=((1, 0), (0, 1)))(full((1, 1, 3, 3), -1.0))
    assert out.shape == (1, 1, 2, 2)
    assert out.numpy().max() == -1
    means = nn.AvgPool1d(2, padding=((1, 0),), count_include_pad=False)(full((1, 1, 3), 2.0))
    np.testing.assert_array_equal(means.numpy(), [[[2.0, 2.0]]])


def test_errors_name_the_layer() -> None:
    with pytest.raises(ArgumentError, match=r"MaxPool2d requires kernel_size .* got 0"):
        nn.MaxPool2d(0)
    with pytest.raises(ArgumentError, match=r"AvgPool1d requires padding .* got \(1, 2\)"):
        nn.AvgPool1d(2, padding=(1, 2))
    with pytest.raises(
        ShapeError, match=r"AvgPool1d requires x of shape \(N, C, W\), got \(2, 3\)"
    ):
        nn.AvgPool1d(2)(full((2, 3), 0.0))
