"""Losses that deserve an op: their gradient is cheaper and safer than what their parts give."""

from __future__ import annotations

from pyrite.tensor.interpolation import Interpolation


class Loss(Interpolation):
    """Losses that deserve an op."""

    __slots__ = ()
