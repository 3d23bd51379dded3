"""Attention: softmax of scaled products, applied to values."""

from __future__ import annotations

from pyrite.tensor.normalization import Normalization


class Attention(Normalization):
    """Attention."""

    __slots__ = ()
