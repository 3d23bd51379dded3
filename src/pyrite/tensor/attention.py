"""Attention: softmax of scaled products, applied to values."""

from __future__ import annotations

from pyrite.tensor.channel_normalization import ChannelNormalization


class Attention(ChannelNormalization):
    """Attention."""

    __slots__ = ()
