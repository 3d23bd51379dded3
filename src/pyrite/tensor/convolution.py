"""Convolutions over one to three axes, and their gradients, which are ops too."""

from __future__ import annotations

from pyrite.tensor.attention import Attention


class Convolution(Attention):
    """Convolutions over one to three axes, and their gradients, which are ops too."""

    __slots__ = ()
