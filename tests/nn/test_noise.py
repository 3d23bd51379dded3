"""Gaussian noise: nothing in evaluation, the right spread in training, seeded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite import nn
from pyrite.errors import ArgumentError
from pyrite.tensor.creation import full
from pyrite.tensor.stream import random_stream


def in_training(layer: nn.Module, x: Any) -> Any:
    with random_stream(4):
        return layer.with_training(True)(x).numpy()


def test_gaussian_noise_is_added_in_training_only() -> None:
    x = full((100, 100), 2.0)
    layer = nn.GaussianNoise(0.5)
    np.testing.assert_array_equal(layer(x).numpy(), x.numpy())
    noisy = in_training(layer, x)
    assert noisy.mean() == pytest.approx(2.0, abs=0.02)
    assert noisy.std() == pytest.approx(0.5, rel=0.02)
    np.testing.assert_array_equal(in_training(layer, x), noisy)
    np.testing.assert_array_equal(in_training(nn.GaussianNoise(0.0), x), x.numpy())
    assert in_training(layer, full((2,), 1.0, dtype="float16")).dtype == np.float16
    with pytest.raises(ArgumentError, match="std >= 0, got -1"):
        nn.GaussianNoise(-1)
