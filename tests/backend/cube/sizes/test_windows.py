"""Pools, interpolation, fold and unfold at sizes that come in turn: which build kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.backend.device import Device
from tests.backend.cube.sizes.conftest import Case, tensor

Draw = Callable[..., Any]
Op = Callable[[pyrite.Tensor], pyrite.Tensor]

#: Images (N, C, H, W) of which each axis changes, alone and with others; the first builds.
SIZES = [(3, 2, 12, 20), (5, 2, 12, 20), (2, 3, 24, 36), (7, 4, 16, 28), (3, 2, 12, 20)]

OPS: dict[str, Op] = {
    "max pool": lambda x: x.max_pool2d(2),
    "max pool with indices": lambda x: x.max_pool2d(2, return_indices=True)[1],
    "max pool with padding": lambda x: x.max_pool2d(3, stride=2, padding=1),
    "avg pool": lambda x: x.avg_pool2d(2),
    "avg pool with padding": lambda x: x.avg_pool2d(3, padding=1),
    "avg pool without padding counted": lambda x: x.avg_pool2d(
        3, padding=1, count_include_pad=False
    ),
    "adaptive avg pool": lambda x: x.adaptive_avg_pool2d((4, 4)),
    "nearest": lambda x: x.interpolate(scale_factor=2, mode="nearest"),
    "linear": lambda x: x.interpolate(scale_factor=2, mode="linear"),
    "unfold": lambda x: x.unfold4d(3, padding=1),
}
