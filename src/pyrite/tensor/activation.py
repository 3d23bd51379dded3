"""Activation functions: composites that a backend may run whole, most with a derivative of their own."""

from __future__ import annotations

from pyrite.tensor.contraction import Contraction


class Activation(Contraction):
    """Activation functions."""

    __slots__ = ()
