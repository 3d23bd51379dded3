"""Interpolation: images resized."""

from __future__ import annotations

from pyrite.tensor.average_pooling import AveragePooling


class Interpolation(AveragePooling):
    """Interpolation."""

    __slots__ = ()
