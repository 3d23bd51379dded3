"""Layers that drop: which elements go together, what stays the same, and the errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite import nn
from pyrite.autodiff import value_and_grad
from pyrite.errors import ArgumentError, ShapeError
from pyrite.tensor.creation import tensor
from pyrite.tensor.stream import random_stream

BY_CHANNEL = [
    (nn.Dropout1d, (3, 5, 4)),
    (nn.Dropout2d, (3, 5, 2, 3)),
    (nn.Dropout3d, (2, 5) + (2,) * 3),
]
LAYERS = [
    *BY_CHANNEL,
    (nn.Dropout, (4, 6)),
    (nn.AlphaDropout, (4, 6)),
    (nn.FeatureAlphaDropout, (4, 6, 2)),
]


def trained(layer: Any, x: Any) -> tuple[Any, Any]:
    """The output in training, and the gradient of its sum."""
    (_, out), g = value_and_grad(
        lambda x: ((y := layer.with_training(True)(x)).sum(), y), has_aux=True
    )(x)
    return out.numpy(), g.numpy()


@pytest.mark.parametrize(("layer", "shape"), LAYERS)
def test_nothing_is_dropped_outside_of_training(layer: Any, shape: Any) -> None:
    x = tensor(np.random.default_rng(0).normal(size=shape))
    assert layer(0.9)(x) is x
    with pytest.raises(ArgumentError, match=rf"{layer.__name__} requires 0 <= p <= 1, got p=1.5"):
        layer(1.5)


@pytest.mark.parametrize(("layer", "shape"), BY_CHANNEL)
def test_channels_are_dropped_whole_and_the_others_scaled(layer: Any, shape: Any) -> None:
    values = np.random.default_rng(0).normal(size=shape)
    with random_stream(4):
        out, g = trained(layer(0.4), tensor(values))
    kept = (out != 0).reshape(*shape[:2], -1)
    np.testing.assert_array_equal(kept.all(-1), kept.any(-1))
    assert 0 < kept.any(-1).sum() < kept.any(-1).size
    np.testing.assert_allclose(out, np.where(out != 0, values / 0.6, 0))
    np.testing.assert_allclose(g, np.where(out != 0, 1 / 0.6, 0))
    with pytest.raises(ShapeError, match=rf"{layer.__name__} requires x of shape \(N, C, .* x\[No"):
        layer()(tensor(values[0]))


@pytest.mark.parametrize("p", [0.2, 0.5])
def test_alpha_dropout_keeps_mean_and_variance_and_is_pytorchs_formula(p: float) -> None:
    torch = pytest.importorskip("torch")
    values = np.random.default_rng(0).normal(size=(400, 500))
    with random_stream(1):
        out, g = trained(nn.AlphaDropout(p), tensor(values))
    assert abs(out.mean()) < 0.01
    assert abs(out.var() - 1) < 0.02
    # Theirs of the same elements: what is kept and what is dropped are each one affine map.
    theirs = torch.nn.AlphaDropout(p)(torch.tensor(values)).numpy()
    dropped = np.unique(np.round(theirs, 12), return_counts=True)
    floor = dropped[0][dropped[1].argmax()]
    kept = np.abs(theirs - floor) > 1e-9
    slope, shift = np.polyfit(values[kept], theirs[kept], 1)
    ours_kept = np.abs(out - floor) > 1e-9
    np.testing.assert_allclose(out, np.where(ours_kept, slope * values + shift, floor), atol=1e-9)
    np.testing.assert_allclose(g, np.where(ours_kept, slope, 0), atol=1e-9)
    assert abs((~ours_kept).mean() - p) < 0.01


def test_feature_alpha_dropout_is_alpha_dropout_of_whole_channels() -> None:
    values = np.random.default_rng(0).normal(size=(40, 50, 3, 2))
    p = 0.3
    floor = -1.7580993408473766  # of selu: scale * alpha, Klambauer et al. 2017
    scale = 1 / np.sqrt((1 - p) * (1 + p * floor**2))
    with random_stream(1):
        out, g = trained(nn.FeatureAlphaDropout(p), tensor(values[::-1].copy())[::-1])
    is_dropped = (g == 0).reshape(40, 50, -1)
    np.testing.assert_array_equal(is_dropped.all(-1), is_dropped.any(-1))
    assert abs(is_dropped.mean() - p) < 0.05
    kept = scale * values - scale * floor * p
    np.testing.assert_allclose(out, np.where(g == 0, scale * floor * (1 - p), kept))
    np.testing.assert_allclose(g, np.where(g == 0, 0, scale))
    with pytest.raises(ShapeError, match="feature_alpha_dropout requires x of shape"):
        trained(nn.FeatureAlphaDropout(p), tensor(values[0, 0, 0]))


def test_feature_alpha_dropout_is_pytorchs_formula() -> None:
    torch = pytest.importorskip("torch")
    values = np.random.default_rng(0).normal(size=(4, 60, 5))
    theirs = torch.nn.FeatureAlphaDropout(0.4)(torch.tensor(values)).numpy()
    with random_stream(1):
        out, _ = trained(nn.FeatureAlphaDropout(0.4), tensor(values))
    dropped = [np.ptp(found, axis=-1) == 0 for found in (out, theirs)]
    assert all(0 < d.sum() < d.size for d in dropped)
    np.testing.assert_allclose(out[dropped[0]][0], theirs[dropped[1]][0])
    both = ~dropped[0] & ~dropped[1]
    np.testing.assert_allclose(out[both], theirs[both])


@pytest.mark.parametrize("layer", [nn.AlphaDropout, nn.FeatureAlphaDropout, nn.Dropout2d])
def test_all_can_be_dropped_and_a_narrow_dtype_stays(layer: Any) -> None:
    x = tensor(np.ones((2, 3, 4, 5), np.float16))
    out, _ = trained(layer(1.0), x)
    assert out.dtype == np.float16
    np.testing.assert_array_equal(out, np.zeros((2, 3, 4, 5)))
    assert trained(layer(0.5), tensor(np.ones((0, 3, 4, 5))))[0].shape == (0, 3, 4, 5)
