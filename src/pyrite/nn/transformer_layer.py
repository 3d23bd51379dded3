"""Layers of transformers: feed-forward by position, encoder and decoder, whole or by token.

Layers normalise before attention by default (``norm_first``; Xiong et al. 2020, arXiv:2002.04745);
``norm_first=False`` is the original order of Vaswani et al. 2017, arXiv:1706.03762.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple

from pyrite.backend.device import DeviceLike
from pyrite.errors import ArgumentError
from pyrite.nn.attention import MultiHeadAttention
from pyrite.nn.cache import Cache, FixedKeyValueCache, KeyValueCache
from pyrite.nn.dropout import Dropout
from pyrite.nn.init import Initializer
from pyrite.nn.linear import Linear
from pyrite.nn.module import Module
from pyrite.nn.norm import LayerNorm
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array, DTypeLike

Function = Callable[[Tensor], Tensor]


class Options(NamedTuple):
    """What all layers of a transformer share."""

    dropout: float
    activation: Function | str
    norm_first: bool
    eps: float
    quiet: bool
    kv_heads: int | None
    initializer: Initializer | None
    dtype: DTypeLike | None
    device: DeviceLike


#: The activations that PyTorch names in its transformers.
_ACTIVATIONS: dict[str, Function] = {
    "gelu": Tensor.gelu, "relu": Tensor.relu, "silu": Tensor.silu, "tanh": Tensor.tanh,
}  # fmt: skip


def _function(activation: Function | str) -> Function:
    """Return an activation by its name."""
    if not isinstance(activation, str):
        return activation
    if activation not in _ACTIVATIONS:
        raise ArgumentError(
            f"activation requires a function of a tensor, or a name of {', '.join(_ACTIVATIONS)}, "
            f"got {activation!r}"
        )
    return _ACTIVATIONS[activation]


class PositionWiseFeedForward(Module):
    """Linear, activation, dropout, Linear, on each position alone: (..., D) -> (..., D).

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.3, with GELU for ReLU.

    >>> import pyrite
    >>> from pyrite import nn
    >>> nn.PositionWiseFeedForward(8, 32)(pyrite.ones((2, 5, 8))).shape
    (2, 5, 8)
    """

    def __init__(
        self,
        features: int,
        hidden_features: int,
        *,
        dropout: float = 0.1,
        activation: Function | str = Tensor.gelu,
        initializer: Initializer | None = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
    ) -> None:
        self.inner = Linear(
            features, hidden_features, initializer=initializer, dtype=dtype, device=device
        )
        self.activation = _function(activation)
        self.dropout = Dropout(dropout)
        self.outer = Linear(
            hidden_features, features, initializer=initializer, dtype=dtype, device=device
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of every position."""
        return self.outer(self.dropout(self.activation(self.inner(x))))

    def extra_repr(self) -> str:
        """Return the activation's name."""
        return f"activation={getattr(self.activation, '__name__', self.activation)}"


#: What PyTorch's layers call what is called otherwise here.
_OF_PYTORCH = {
    "self_attn": "attention", "multihead_attn": "cross_attention",
    "linear1": "feed_forward.inner", "linear2": "feed_forward.outer",
}  # fmt: skip


class _Layer(Module):
    """Residual blocks, each normalised before or after.

    One signature for the layers of encoder and decoder, so that settings are said once.
    """

    #: Whether it attends to a memory between self-attention and feed-forward.
    attends_to_memory: ClassVar[bool] = False

    def __init__(
        self,
        features: int,
        heads: int,
        hidden_features: int,
        *,
        dropout: float = 0.1,
        activation: Function | str = Tensor.gelu,
        norm_first: bool = True,
        eps: float = 1e-5,
        quiet: bool = False,
        kv_heads: int | None = None,
        initializer: Initializer | None = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
    ) -> None:
        options = Options(
            dropout, activation, norm_first, eps, quiet, kv_heads, initializer, dtype, device
        )
        self.norm_first = options.norm_first
        self.attention = _attention(features, heads, options)
        if self.attends_to_memory:
            self.cross_attention = _attention(features, heads, options)
        self.feed_forward = _feed_forward(features, hidden_features, options)
        self.residual_dropout = Dropout(options.dropout)
        self.norm1 = norm_of(features, options)
        self.norm2 = norm_of(features, options)
        if self.attends_to_memory:
            self.norm3 = norm_of(features, options)

    def from_pytorch(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return the arrays of PyTorch's layer, by name, as this module names them; others stay."""
        found = {}
        for name, array in arrays.items():
            part, dot, rest = name.partition(".")
            own = part if hasattr(self, part) else _OF_PYTORCH.get(part, part)
            found[own + dot + rest] = array
        return found

    def _residual(self, x: Tensor, norm: LayerNorm, block: Function) -> Tensor:
        if self.norm_first:
            return x + self.residual_dropout(block(norm(x)))
        normed: Tensor = norm(x + self.residual_dropout(block(x)))
        return normed


class TransformerEncoderLayer(_Layer):
    """Self-attention and feed-forward, each with a residual: (N, T, D) -> (N, T, D).

    norm_first: normalise before attention and feed-forward; PyTorch's default is False.
    activation: of the feed-forward, a function or its name ("relu", "gelu"); PyTorch's is "relu".
    eps: of the layer norms.  kv_heads, quiet: as of `MultiHeadAttention`.
    """

    def forward(self, x: Tensor, *, mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        """Return the encoded positions; mask is True where a position may be attended to."""
        x = self._residual(
            x, self.norm1, lambda y: self.attention(y, mask=mask, is_causal=is_causal)
        )
        return self._residual(x, self.norm2, self.feed_forward)

    def cache(self, batch: int, length: int) -> FixedKeyValueCache:
        """Return a cache of no tokens with room for ``length`` in each of ``batch`` sequences."""
        return self.attention.cache(batch, length)

    def decode(self, x: Tensor, cache: Cache | None) -> tuple[Tensor, Cache]:
        """Return the next positions encoded causally, and the cache that includes them."""
        caches: list[Cache] = []

        def attend(y: Tensor) -> Tensor:
            out, found = self.attention.decode(y, cache)
            caches.append(found)
            return out

        x = self._residual(x, self.norm1, attend)
        return self._residual(x, self.norm2, self.feed_forward), caches[0]


class DecoderCache(NamedTuple):
    """What a decoder layer remembers: its own tokens, and the encoder's output, projected."""

    own: Cache
    memory: KeyValueCache


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to a memory, feed-forward: (N, T, D), (N, S, D) -> (N, T, D).

    Settings as of `TransformerEncoderLayer`.
    """

    attends_to_memory = True

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        is_causal: bool = True,
    ) -> Tensor:
        """Return the decoded positions; masks are True where attention is allowed."""
        projected = self.cross_attention.remember(memory)
        x = self._residual(
            x, self.norm1, lambda y: self.attention(y, mask=mask, is_causal=is_causal)
        )
        return self._after_own(x, projected, memory_mask)

    def cache(self, memory: Tensor, length: int) -> DecoderCache:
        """Return a cache of no tokens with room for ``length``, over a memory (N, S, D)."""
        own = self.attention.cache(memory.shape[0], length)
        return DecoderCache(own, self.cross_attention.remember(memory))

    def decode(
        self,
        x: Tensor,
        memory: Tensor,
        cache: DecoderCache | None,
        memory_mask: Tensor | None = None,
    ) -> tuple[Tensor, DecoderCache]:
        """Return the next positions, and the cache that includes them; memory is projected once."""
        projected = self.cross_attention.remember(memory) if cache is None else cache.memory
        own: list[Cache] = []

        def attend(y: Tensor) -> Tensor:
            out, found = self.attention.decode(y, None if cache is None else cache.own)
            own.append(found)
            return out

        x = self._after_own(self._residual(x, self.norm1, attend), projected, memory_mask)
        return x, DecoderCache(own[0], projected)

    def _after_own(self, x: Tensor, memory: KeyValueCache, mask: Tensor | None) -> Tensor:
        x = self._residual(
            x, self.norm2, lambda y: self.cross_attention.attend(y, memory, mask=mask)
        )
        return self._residual(x, self.norm3, self.feed_forward)


def _attention(features: int, heads: int, options: Options) -> MultiHeadAttention:
    return MultiHeadAttention(
        features,
        heads,
        kv_heads=options.kv_heads,
        dropout=options.dropout,
        quiet=options.quiet,
        initializer=options.initializer,
        dtype=options.dtype,
        device=options.device,
    )


def _feed_forward(features: int, hidden_features: int, options: Options) -> PositionWiseFeedForward:
    return PositionWiseFeedForward(
        features,
        hidden_features,
        dropout=options.dropout,
        activation=options.activation,
        initializer=options.initializer,
        dtype=options.dtype,
        device=options.device,
    )


def norm_of(features: int, options: Options) -> LayerNorm:
    return LayerNorm(features, options.eps, dtype=options.dtype, device=options.device)
