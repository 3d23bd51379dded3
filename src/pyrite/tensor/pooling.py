"""Pooling: a window's maximum or mean, with gradients that are ops."""

from __future__ import annotations

from pyrite.tensor.convolution import Convolution


class Pooling(Convolution):
    """Pooling."""

    __slots__ = ()
