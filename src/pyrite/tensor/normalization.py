"""Normalisation: centre and scale over axes, with gradients that are ops."""

from __future__ import annotations

from pyrite.tensor.activation import Activation


class Normalization(Activation):
    """Normalisation."""

    __slots__ = ()
