"""Attention layers: several heads, grouped keys, and caches for decoding token by token.

A mask is True where a query may attend to a key.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pyrite.backend.device import DeviceLike
from pyrite.errors import ArgumentError, ShapeError
from pyrite.nn.cache import Cache, FixedKeyValueCache, KeyValueCache
from pyrite.nn.init import Initializer, positive
from pyrite.nn.linear import Linear
from pyrite.nn.module import Module
from pyrite.tensor.creation import full
from pyrite.tensor.joining import concat
from pyrite.tensor.mask import causal_mask
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array, DTypeLike

#: What PyTorch's layer calls what is called otherwise here.
_OF_PYTORCH = {
    "q_proj_weight": "query.weight", "k_proj_weight": "key.weight", "v_proj_weight": "value.weight",
    "out_proj.weight": "output.weight", "out_proj.bias": "output.bias",
}  # fmt: skip


class MultiHeadAttention(Module):
    """Attention of several heads: query (N, T, D), key and value (N, S, D) -> (N, T, D).

    heads: number of query heads.
    kv_heads: number of key and value heads, a divisor of heads; fewer make grouped queries.
    head_features: width of a head, features / heads by default.
    key_features, value_features: widths of key and value, PyTorch's kdim and vdim; by default those
    of the query and of the key.  A context of another width is both.
    quiet: softmax over the keys and a silent one with score 0, so that a head may attend to
    nothing.

    Key and value default to the query, value to the key.  Raises ShapeError where shapes do not
    fit.
    Source: Vaswani et al. 2017, arXiv:1706.03762; Ainslie et al. 2023, arXiv:2305.13245.

    >>> import pyrite
    >>> from pyrite import nn
    >>> nn.MultiHeadAttention(8, heads=2)(pyrite.ones((3, 5, 8)), is_causal=True).shape
    (3, 5, 8)
    """

    def __init__(
        self,
        features: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        head_features: int | None = None,
        key_features: int | None = None,
        value_features: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        quiet: bool = False,
        softcap: float | None = None,
        initializer: Initializer | None = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
    ) -> None:
        kv_heads = heads if kv_heads is None else kv_heads
        size = _head_size(features, heads, kv_heads, head_features)
        key_features = features if key_features is None else key_features
        value_features = key_features if value_features is None else value_features
        if not 0 <= dropout < 1:
            raise ArgumentError(f"MultiHeadAttention requires 0 <= dropout < 1, got {dropout}")
        if quiet and softcap is not None:
            raise ArgumentError("MultiHeadAttention requires quiet or softcap, got both")

        def linear(inputs: int, outputs: int) -> Linear:
            return Linear(
                inputs, outputs, bias, initializer=initializer, dtype=dtype, device=device
            )

        self.heads = heads
        self.kv_heads = kv_heads
        self.dropout = dropout
        self.quiet = quiet
        self.softcap = softcap
        self.query = linear(features, heads * size)
        self.key = linear(key_features, kv_heads * size)
        self.value = linear(value_features, kv_heads * size)
        self.output = linear(heads * size, features)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Return what the queries attend to.

        mask: bool, broadcast to (N, heads, T, S); bias: float, added to the scores.
        """
        source = query if key is None else key
        memory = self.remember(source, source if value is None else value)
        return self.attend(query, memory, mask=mask, bias=bias, is_causal=is_causal)

    @staticmethod
    def from_pytorch(arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return the arrays of a torch.nn.MultiheadAttention, by name, as this module names them.

        It has queries, keys and values in one array, one below the other.  Others stay.
        """
        found: dict[str, Array] = {}
        for name, array in arrays.items():
            kind = name.removeprefix("in_proj_")
            if kind != name and array.shape and array.shape[0] % 3 == 0:
                parts = zip(("query", "key", "value"), np.split(array, 3), strict=True)
                found |= {f"{part}.{kind}": own for part, own in parts}
            else:
                found[_OF_PYTORCH.get(name, name)] = array
        return found

    def remember(self, key: Tensor, value: Tensor | None = None) -> KeyValueCache:
        """Return the projected keys and values, to attend to more than once."""
        value = key if value is None else value
        return KeyValueCache(
            _split_heads(self.key(key), self.kv_heads),
            _split_heads(self.value(value), self.kv_heads),
        )

    def attend(
        self,
        query: Tensor,
        memory: KeyValueCache,
        *,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Return what the queries attend to among keys and values that were projected before."""
        q = _split_heads(self.query(query), self.heads)
        return self.output(self._mixed(q, memory, mask, bias, is_causal)._join_heads())

    def cache(self, batch: int, length: int) -> FixedKeyValueCache:
        """Return a cache of no tokens with room for ``length`` in each of ``batch`` sequences."""
        outputs, _ = self.key.weight.shape
        return FixedKeyValueCache.empty(
            (batch, self.kv_heads, length, outputs // self.kv_heads),
            dtype=self.key.weight.dtype, device=self.key.weight.device,
        )  # fmt: skip

    def decode(
        self, x: Tensor, cache: Cache | None = None, *, mask: Tensor | None = None
    ) -> tuple[Tensor, Cache]:
        """Return the outputs of the next tokens (N, T, D), and the cache that includes them.

        The tokens attend to all before them and causally to one another.  A cache of None grows
        from nothing; `cache` makes one that keeps its size.
        """
        new = self.remember(x)
        after = new if cache is None else cache.extended(new)
        allowed = after.allowed(x.shape[-2])
        allowed = allowed if mask is None else allowed & mask
        return self.attend(x, KeyValueCache(after.key, after.value), mask=allowed), after

    def _mixed(
        self,
        q: Tensor,
        memory: KeyValueCache,
        mask: Tensor | None,
        bias: Tensor | None,
        is_causal: bool,
    ) -> Tensor:
        if self.quiet:
            memory, mask, bias, is_causal = _with_silent_key(q, memory, mask, bias, is_causal)
        return q.scaled_dot_product_attention(
            memory.key,
            memory.value,
            mask,
            bias=bias,
            is_causal=is_causal,
            softcap=self.softcap,
            dropout_p=self.dropout if self.training else 0.0,
        )


def _head_size(features: int, heads: int, kv_heads: int, head_features: int | None) -> int:
    """Return the width of a head, having checked that all sizes fit."""
    positive("MultiHeadAttention", features=features, heads=heads, kv_heads=kv_heads)
    if head_features is not None:
        positive("MultiHeadAttention", head_features=head_features)
    if (features % heads and head_features is None) or heads % kv_heads:
        raise ArgumentError(
            "MultiHeadAttention requires heads to divide features, unless head_features says their "
            f"width, and kv_heads to divide heads, got features={features}, heads={heads}, "
            f"kv_heads={kv_heads}"
        )
    return features // heads if head_features is None else head_features


def _split_heads(x: Tensor, heads: int) -> Tensor:
    """(N, T, heads * D) -> (N, heads, T, D)."""
    if x.ndim != 3:
        raise ShapeError(f"MultiHeadAttention requires tensors (N, T, D), got {x.shape}")
    return x._split_heads(heads=heads)


def _with_silent_key(
    q: Tensor, memory: KeyValueCache, mask: Tensor | None, bias: Tensor | None, is_causal: bool
) -> tuple[KeyValueCache, Tensor | None, Tensor | None, bool]:
    """Return the same attention with one more key, which scores 0 and has value 0.

    Softmax over it is Miller's quiet softmax, exp(x) / (1 + sum(exp(x))), 2023.
    """
    if is_causal:
        causal = causal_mask(q.shape[-2], memory.length, device=q.device)
        mask = causal if mask is None else mask & causal
    silent = KeyValueCache(*(_one_more(t, 0.0, axis=-2) for t in memory))
    wide_mask = None if mask is None else _one_more(_full_width(mask, memory), True, axis=-1)
    wide_bias = None if bias is None else _one_more(_full_width(bias, memory), 0.0, axis=-1)
    return silent, wide_mask, wide_bias, False


def _full_width(t: Tensor, memory: KeyValueCache) -> Tensor:
    return t.broadcast_to((*t.shape[:-1], memory.length))


def _one_more(t: Tensor, value: float, *, axis: int) -> Tensor:
    shape = list(t.shape)
    shape[axis] = 1
    return concat((t, full(tuple(shape), value, dtype=t.dtype, device=t.device)), axis=axis)
