"""Attention: softmax of scaled products, applied to values; and dropout, which it may contain.

Dropout inside attention is drawn where it is needed, from a key of two random words, so that no
word of a score is ever kept: four keys in a row share a counter of Philox, so a row has as many
words as keys, rounded up to fours.

The forward op gives the output and, per query, the logarithm of the sum of the exponentials of its
scores.  From that the backward op makes the probabilities again, as FlashAttention-2 does (Dao
2023, arXiv:2307.08691), so no matrix of queries by keys is kept, and a backend that runs both whole
never has one.  float16 and bfloat16 are computed in float32 and rounded once.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Self, TypeVar

from pyrite.errors import ShapeError
from pyrite.op import (
    OPS,
    Constant,
    TensorBase,
    bind,
    bools,
    composite,
    primitive,
    public,
    sample,
)
from pyrite.philox import WORDS
from pyrite.tensor.attention_type import (
    attention_attributes,
    attention_types,
    backward_attributes,
    backward_types,
)
from pyrite.tensor.contraction import Contraction
from pyrite.tensor.extremum import Extremum
from pyrite.tensor.gradient import Gradients, by_position, chosen, in_dtype, widened
from pyrite.tensor.mathematics import Mathematics
from pyrite.tensor.random_word import (
    dropout_attributes,
    dropout_threshold,
    dropout_type,
    random_words,
)
from pyrite.tensor.reduction import Reduction
from pyrite.tensor.stream import current_stream
from pyrite.types import Number, Shape, TensorType, bool_

T = TypeVar("T", bound="Attention")
# ---- heads ----


def _split_type(x: TensorType, *, heads: int) -> TensorType:
    if x.ndim != 3 or heads < 1 or x.shape[2] % heads:
        raise ShapeError(
            f"split_heads requires x (N, T, D) with D a multiple of heads >= 1, got {x.shape} and "
            f"heads={heads}"
        )
    n, t, features = x.shape
    return TensorType((n, heads, t, features // heads), x.dtype)


def _join_type(x: TensorType) -> TensorType:
    if x.ndim != 4 or x.shape[1] < 1:
        raise ShapeError(f"join_heads requires x (N, H, T, D) with H >= 1, got {x.shape}")
    n, heads, t, size = x.shape
    return TensorType((n, t, heads * size), x.dtype)


# ---- arithmetic ----


def _dropped(k: Any, x: Any, bits: Any, *, p: float) -> Any:
    kept = x * (1.0 / (1.0 - p) if p < 1.0 else 0.0)
    return k.where(bits < dropout_threshold(p), 0.0, kept)


def _lower_triangle(queries: int, keys: int, like: TensorBase) -> Any:
    """Return where key j <= query i, as a tensor of the kind of another."""
    # `full` is declared with Tensor, above this file, so the table finds it.
    true = Constant(True, TensorType((), bool_))
    attrs = {"shape": (queries, keys), "dtype": bool_}
    return bind(OPS["full"], (true,), attrs, on=(type(like), like._backend))._band(None, 0)


def _stacked(x: T, key: T) -> T:
    """Return (..., H, T, D) as (..., K, H // K * T, D): the rows that meet one head of keys.

    So products with keys and values serve all query heads of a group at once, and the gradients of
    keys and values sum over them.
    """
    if x.ndim < 3:
        return x
    heads = key.shape[-3]
    rows = x.shape[-3] * x.shape[-2] // max(1, heads)
    return x.reshape((*key.shape[:-2], rows, x.shape[-1]))


def _raw_scores(query: T, key: T, scale: float) -> T:
    found = _stacked(query * scale, key) @ key.mT
    return found.reshape((*query.shape[:-1], key.shape[-2]))


def _capped(scores: T, softcap: float | None) -> T:
    return scores if softcap is None else (scores / softcap).tanh() * softcap


def _blocked(scores: T, mask: T | None, bias: T | None, is_causal: bool) -> T:
    """Return the scores with the bias added, -inf where a query may not attend."""
    if bias is not None:
        scores = scores + widened(bias)
    if mask is not None:
        scores = mask._where(scores, -math.inf)
    if is_causal:
        queries, keys = scores.shape[-2:]
        scores = _lower_triangle(queries, keys, scores)._where(scores, -math.inf)
    return scores


def _finite_or(x: T, instead: Number) -> T:
    """Return x with -inf, the extremum or logarithm of nothing, replaced."""
    return x.equal(-math.inf)._where(instead, x)


def _words_of(key: Any, shape: Shape) -> Any:
    """Return the random words of scores (..., T, S): of a row four for each counter."""
    *rows, keys = shape
    drawn = (*rows, -(-keys // WORDS) * WORDS)
    draw = (key[0], key[1], 0, 0, 0)
    words = bind(OPS["random_bits"], draw, {"shape": drawn}, on=(type(key), key._backend))
    return words[..., :keys]


def _dropout(x: Any, key: Any, p: float) -> Any:
    return x if key is None or p == 0 else x._dropout(_words_of(key, x.shape), p=p)


def _summed_to_shape(x: T, shape: Shape) -> T:
    """Return x summed over the axes along which a tensor of that shape was stretched."""
    padded = (1,) * (x.ndim - len(shape)) + shape
    stretched = tuple(a for a, (n, m) in enumerate(zip(x.shape, padded, strict=True)) if n != m)
    return x.sum(stretched, keepdims=True).reshape(shape)


def _attention_vjp(
    g: Any, outs: Any, query: Any, key: Any, value: Any, mask: Any, bias: Any, dropout_key: Any, *,
    is_causal: bool, scale: float, softcap: float | None, dropout_p: float,
    tracked: tuple[int, ...],
) -> tuple[Any, ...]:  # fmt: skip
    found = g[0]._scaled_dot_product_attention_backward(
        g[1], *outs, query, key, value, mask, bias, dropout_key,
        is_causal=is_causal, scale=scale, softcap=softcap, dropout_p=dropout_p, argnums=tracked,
    )  # fmt: skip
    return by_position(found, tracked, 6)


class Attention(Contraction, Extremum, Reduction, Mathematics):
    """Attention."""

    __slots__ = ()

    @primitive(
        scalar=_dropped,
        canonical=dropout_attributes,
        infer=dropout_type,
        vjp=(lambda g, _, _x, bits, *, p: g._dropout(bits, p=p), None),
        accepts="float",
        promotes=(0,),
        samples=(
            sample((2, 3), random_words((2, 3)), p=0.4),
            sample((), random_words(()), p=0.0),
        ),
    )
    def _dropout(self, bits: Self, /, *, p: float) -> Self:
        """x / (1 - p), and 0 where the random word is below p * 2 ** 32; all 0 for p = 1."""
        ...

    # ---- heads ----

    @composite(
        infer=_split_type,
        vjp=(lambda g, *_: g._join_heads(),),
        samples=(sample((2, 3, 4), heads=2), sample((1, 2, 3), heads=1)),
    )
    def _split_heads(self, /, *, heads: int) -> Self:
        """Features cut into heads, which are then an axis before time: (N, T, H D) -> (N, H, T, D).

        Raises ShapeError unless x has three axes, the last a multiple of the heads.
        """
        n, t, features = self.shape
        return self.reshape((n, t, heads, features // heads)).permute_dims((0, 2, 1, 3))

    @composite(
        infer=_join_type,
        vjp=(lambda g, _, x_type: g._split_heads(heads=x_type.shape[1]),),
        samples=(sample((2, 2, 3, 4)), sample((1, 3, 1, 2))),
    )
    def _join_heads(self, /) -> Self:
        """The opposite of ``_split_heads``: (N, H, T, D) -> (N, T, H D)."""
        n, heads, t, size = self.shape
        return self.permute_dims((0, 2, 1, 3)).reshape((n, t, heads * size))

    # ---- attention ----

    @composite(
        canonical=attention_attributes,
        infer=attention_types,
        vjp=_attention_vjp,
        accepts="float",
        promotes=(0, 1, 2, 4),
        samples=(
            sample((2, 3, 4), (2, 5, 4), (2, 5, 2), None, None, None),
            sample((2, 4, 3, 2), (2, 2, 3, 2), (2, 2, 3, 2), None, None, None, is_causal=True),
            sample((3, 2), (4, 2), (4, 2), bools((3, 4)), (3, 1), None, scale=0.5, softcap=2.0),
            sample((2, 3, 2), (2, 5, 2), (2, 5, 2), None, None, random_words((2,)), dropout_p=0.3),
        ),
    )
    def _scaled_dot_product_attention(
        self, key: Self, value: Self, mask: Self | None, bias: Self | None,
        dropout_key: Self | None, /, *, is_causal: bool = False, scale: float | None = None,
        softcap: float | None = None, dropout_p: float = 0.0,
    ) -> tuple[Self, Self]:  # fmt: skip
        """Attention, and logsumexp of the scores: (..., H, T, D) -> (..., H, T, E), (..., H, T).

        The second result is float32 for the narrow dtypes, and -inf for a query without a key.
        """
        assert scale is not None
        query, key, value = widened(self), widened(key), widened(value)
        scores = _capped(_raw_scores(query, key, scale), softcap)
        scores = _blocked(scores, mask, bias, is_causal)
        greatest = _finite_or(scores.max(-1, keepdims=True), 0.0)
        weights = (scores - greatest).exp()
        total = weights.sum(-1, keepdims=True)
        sums = _stacked(_dropout(weights, dropout_key, dropout_p), key) @ value
        out = sums.reshape((*query.shape[:-1], value.shape[-1])) / total.equal(0.0)._where(
            1.0, total
        )
        return in_dtype(out, self.dtype), (greatest + total.log()).reshape(query.shape[:-1])

    @composite(
        canonical=backward_attributes,
        infer=backward_types,
        accepts="float",
        promotes=(0, 2, 4, 5, 6, 8),
        samples=(
            sample(
                (3, 2), (3,), (3, 2), (3,), (3, 2), (4, 2), (4, 2), bools((3, 4)), (4,), None,
                is_causal=False, scale=0.5, softcap=2.0, dropout_p=0.0, argnums=(0, 1, 2, 4),
            ),
            sample(
                (2, 3, 2), (2, 3), (2, 3, 2), (2, 3), (2, 3, 2), (1, 3, 2), (1, 3, 2), None, None,
                random_words((2,)),
                is_causal=True, scale=None, softcap=None, dropout_p=0.3, argnums=(1,),
            ),
        ),
    )  # fmt: skip
    def _scaled_dot_product_attention_backward(
        self, g_log_sum: Self, out: Self, log_sum: Self, query: Self, key: Self, value: Self,
        mask: Self | None, bias: Self | None, dropout_key: Self | None, /, *, is_causal: bool,
        scale: float, softcap: float | None, dropout_p: float, argnums: tuple[int, ...],
    ) -> Gradients:  # fmt: skip
        """Gradients of query, key, value and bias (4), those at ``argnums``.

        self and g_log_sum are the cotangents of the two results.
        Source: Dao 2023, arXiv:2307.08691, section 2.3.2; with P the probabilities, dP the
        cotangent of P and D = rowsum(g * out), the cotangent of the scores is P * (dP - D).
        """
        g, out = widened(self), widened(out)
        query, key, value = widened(query), widened(key), widened(value)
        capped = _capped(_raw_scores(query, key, scale), softcap)
        scores = _blocked(capped, mask, bias, is_causal)
        rows = (*query.shape[:-1], 1)
        probabilities = (scores - _finite_or(log_sum, 0.0).reshape(rows)).exp()

        @functools.cache
        def of_biased() -> Any:
            dropped = (_stacked(g, key) @ value.mT).reshape(scores.shape)
            of_probabilities = _dropout(dropped, dropout_key, dropout_p)
            shared = (g * out).sum(-1, keepdims=True) - g_log_sum.reshape(rows)
            return probabilities * (of_probabilities - shared)

        @functools.cache
        def of_raw() -> Any:
            if softcap is None:
                return _stacked(of_biased(), key)
            tanh = capped / softcap
            return _stacked(of_biased() * (1.0 - tanh * tanh), key)

        def of_value() -> Any:
            dropped = _dropout(probabilities, dropout_key, dropout_p)
            return _stacked(dropped, key).mT @ _stacked(g, key)

        makers = {
            0: lambda: (of_raw() @ key).reshape(query.shape) * scale,
            1: lambda: of_raw().mT @ _stacked(query * scale, key),
            2: of_value,
            4: lambda: _summed_to_shape(of_biased(), bias.shape if bias is not None else ()),
        }
        return chosen(makers, argnums, self.dtype)

    def _drawn_key(self) -> Self:
        """Return two words of a new draw, on this device."""
        draw = current_stream().next_words()
        on = (type(self), self._backend)
        key: Self = bind(OPS["random_bits"], draw, {"shape": (2,)}, on=on)
        return key

    @public
    def scaled_dot_product_attention(
        self,
        key: Self,
        value: Self,
        mask: Self | None = None,
        *,
        bias: Self | None = None,
        is_causal: bool = False,
        scale: float | None = None,
        softcap: float | None = None,
        dropout_p: float = 0.0,
        dropout_key: Self | None = None,
    ) -> Self:
        """softmax(query keyᵀ * scale + bias) value: (..., H, T, D) -> (..., H, T, E).

        self is the query (..., H, T, D), key (..., K, S, D) and value (..., K, S, E); where K is
        less than H, each head of keys serves H / K heads of queries in a row (grouped queries).
        ``scale`` is 1 / sqrt(D) unless given.  In this order the scores (..., H, T, S) are scaled,
        capped to softcap * tanh(scores / softcap), given the bias, and masked.

        - ``mask`` is True where a query may attend, as in torch and the array API, and broadcasts
          to the scores; a float mask is added to them, like the bias.
        - ``is_causal`` lets query i attend to keys j <= i, counted from the first of each, as in
          torch: with fewer queries than keys (a cache) give a mask instead.
        - A query that may attend to no key gets 0, where torch gives NaN.
        - A value that is not finite, at a key to which a query may not attend, makes its result NaN
          where it is multiplied by 0; a device may leave out the keys that ``is_causal`` forbids.
        - ``dropout_p`` is the probability with which a weight is dropped; the others grow by
          1 / (1 - p).  Which are dropped is one draw of the current stream, or says the
          ``dropout_key``, two words of `random_bits((2,))`; no device keeps a word for each score.

        Raises ShapeError, and DTypeError for an integer mask.
        Source: Vaswani et al. 2017, arXiv:1706.03762; Ainslie et al. 2023, arXiv:2305.13245.
        """
        if dropout_p > 0 and dropout_key is None:
            dropout_key = self._drawn_key()
        if mask is not None and mask.dtype.is_float:
            bias, mask = mask if bias is None else bias + mask, None
        out, _ = self._scaled_dot_product_attention(
            key, value, mask, bias, dropout_key, is_causal=is_causal, scale=scale,
            softcap=softcap, dropout_p=dropout_p,
        )  # fmt: skip
        return out
