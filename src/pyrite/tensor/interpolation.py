"""Interpolation: images resized."""

from __future__ import annotations

from pyrite.tensor.pooling import Pooling


class Interpolation(Pooling):
    """Interpolation."""

    __slots__ = ()
