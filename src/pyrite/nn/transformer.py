"""Transformers: stacks of layers, encoder, decoder or both, whole or token by token."""

from __future__ import annotations

from abc import abstractmethod

from pyrite.backend.device import DeviceLike
from pyrite.nn.cache import Cache, FixedKeyValueCache
from pyrite.nn.init import Initializer, positive
from pyrite.nn.module import Module
from pyrite.nn.transformer_layer import (
    DecoderCache,
    Function,
    Options,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
    norm_of,
)
from pyrite.tensor.tensor import Tensor
from pyrite.types import DTypeLike


class _Stack(Module):
    """A number of layers, and a norm after the last where layers normalise first.

    One signature for encoder, decoder and both.  With ``final_norm`` True or False there is a norm
    after the last layer, or none, wherever the layers normalise.
    """

    def __init__(
        self,
        features: int,
        heads: int,
        hidden_features: int,
        layers: int,
        *,
        dropout: float = 0.1,
        activation: Function | str = Tensor.gelu,
        norm_first: bool = True,
        final_norm: bool | None = None,
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
        positive(type(self).__name__, layers=layers)
        has_norm = norm_first if final_norm is None else final_norm
        self._build((features, heads, hidden_features), layers, options, has_norm)

    @abstractmethod
    def _build(
        self, sizes: tuple[int, int, int], layers: int, options: Options, has_norm: bool
    ) -> None:
        """Make the parts, of (features, heads, hidden_features)."""


class TransformerEncoder(_Stack):
    """Layers of self-attention: (N, T, D) -> (N, T, D).

    >>> import pyrite
    >>> from pyrite import nn
    >>> encoder = nn.TransformerEncoder(8, heads=2, hidden_features=16, layers=2)
    >>> encoder(pyrite.ones((3, 5, 8))).shape
    (3, 5, 8)
    """

    def _build(
        self, sizes: tuple[int, int, int], layers: int, options: Options, has_norm: bool
    ) -> None:
        self.layers = tuple(
            TransformerEncoderLayer(*sizes, **options._asdict()) for _ in range(layers)
        )
        self.norm = norm_of(sizes[0], options) if has_norm else None

    def forward(self, x: Tensor, *, mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        """Return the encoded positions; mask broadcasts to (N, heads, T, T)."""
        for layer in self.layers:
            x = layer(x, mask=mask, is_causal=is_causal)
        return self._normed(x)

    def caches(self, batch: int, length: int) -> tuple[FixedKeyValueCache, ...]:
        """Return caches of no tokens, one for each layer, with room for ``length``."""
        return tuple(layer.cache(batch, length) for layer in self.layers)

    def decode(
        self, x: Tensor, caches: tuple[Cache, ...] | None = None
    ) -> tuple[Tensor, tuple[Cache, ...]]:
        """Return the next positions (N, T, D) encoded causally, and a cache for each layer."""
        given = caches or (None,) * len(self.layers)
        found = []
        for layer, cache in zip(self.layers, given, strict=True):
            x, extended = layer.decode(x, cache)
            found.append(extended)
        return self._normed(x), tuple(found)

    def _normed(self, x: Tensor) -> Tensor:
        return x if self.norm is None else self.norm(x)


class TransformerDecoder(_Stack):
    """Layers of attention to itself and to a memory: (N, T, D), (N, S, D) -> (N, T, D)."""

    def _build(
        self, sizes: tuple[int, int, int], layers: int, options: Options, has_norm: bool
    ) -> None:
        self.layers = tuple(
            TransformerDecoderLayer(*sizes, **options._asdict()) for _ in range(layers)
        )
        self.norm = norm_of(sizes[0], options) if has_norm else None

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        is_causal: bool = True,
    ) -> Tensor:
        """Return the decoded positions; masks broadcast to (N, heads, T, T or S)."""
        for layer in self.layers:
            x = layer(x, memory, mask=mask, memory_mask=memory_mask, is_causal=is_causal)
        return x if self.norm is None else self.norm(x)

    def caches(self, memory: Tensor, length: int) -> tuple[DecoderCache, ...]:
        """Return caches of no tokens, one for each layer, with room for ``length``."""
        return tuple(layer.cache(memory, length) for layer in self.layers)

    def decode(
        self,
        x: Tensor,
        memory: Tensor,
        caches: tuple[DecoderCache, ...] | None = None,
        *,
        memory_mask: Tensor | None = None,
    ) -> tuple[Tensor, tuple[DecoderCache, ...]]:
        """Return the next positions (N, T, D), and a cache for each layer."""
        given = caches or (None,) * len(self.layers)
        found = []
        for layer, cache in zip(self.layers, given, strict=True):
            x, extended = layer.decode(x, memory, cache, memory_mask)
            found.append(extended)
        return (x if self.norm is None else self.norm(x)), tuple(found)


class Transformer(_Stack):
    """Encoder and decoder: source (N, S, D), target (N, T, D) -> (N, T, D).

    ``layers`` is the number in each half; for halves that differ, put one in the place of another:
    ``model.at["decoder"].set(nn.TransformerDecoder(...))``.  Settings as of
    `TransformerEncoderLayer`; embeddings, positions and the last projection are the model's to add.

    Source: Vaswani et al. 2017, arXiv:1706.03762, figure 1.

    >>> import pyrite
    >>> from pyrite import nn
    >>> model = nn.Transformer(8, heads=2, hidden_features=16, layers=2)
    >>> model(pyrite.ones((3, 5, 8)), pyrite.ones((3, 4, 8))).shape
    (3, 4, 8)
    """

    def _build(
        self, sizes: tuple[int, int, int], layers: int, options: Options, has_norm: bool
    ) -> None:
        self.encoder = TransformerEncoder(*sizes, layers, final_norm=has_norm, **options._asdict())
        self.decoder = TransformerDecoder(*sizes, layers, final_norm=has_norm, **options._asdict())

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_mask: Tensor | None = None,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        is_causal: bool = True,
    ) -> Tensor:
        """Return the decoded positions; masks are True where attention is allowed.

        ``source_mask`` is that of the encoder; it does not hide sources from the decoder:
        ``memory_mask`` does.
        """
        memory = self.encoder(source, mask=source_mask)
        return self.decoder(target, memory, mask=mask, memory_mask=memory_mask, is_causal=is_causal)

    def decode(
        self,
        x: Tensor,
        memory: Tensor,
        caches: tuple[DecoderCache, ...] | None = None,
        *,
        memory_mask: Tensor | None = None,
    ) -> tuple[Tensor, tuple[DecoderCache, ...]]:
        """Return the next positions (N, T, D) for what the encoder made, and caches."""
        return self.decoder.decode(x, memory, caches, memory_mask=memory_mask)
