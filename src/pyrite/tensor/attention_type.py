"""Types of attention: what fits together, and what comes of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pyrite.errors import ArgumentError, DTypeError, ShapeError
from pyrite.op import Attributes
from pyrite.tensor.random_word import probability, require_words
from pyrite.types import Shape, TensorType, bool_, broadcast

#: The type of an input that may be None.
Given = TensorType | None

OP = "scaled_dot_product_attention"


def attention_attributes(
    query: TensorType,
    *rest: Given,
    is_causal: bool,
    scale: float | None,
    softcap: float | None,
    dropout_p: float,
) -> Attributes:
    if softcap is not None and not softcap > 0:
        raise ArgumentError(f"{OP} requires softcap > 0, got {softcap}")
    size = query.shape[-1] if query.shape else 1
    return {
        "is_causal": bool(is_causal),
        "scale": 1.0 / math.sqrt(max(1, size)) if scale is None else float(scale),
        "softcap": None if softcap is None else float(softcap),
        "dropout_p": probability(OP, dropout_p),
    }


def attention_types(
    query: TensorType,
    key: TensorType,
    value: TensorType,
    mask: Given,
    bias: Given,
    dropout_key: Given,
    *,
    dropout_p: float,
    **_: Any,
) -> tuple[TensorType, ...]:
    _require_matching(query, key, value)
    scores = (*query.shape[:-1], key.shape[-2])
    for name, added in (("mask", mask), ("bias", bias)):
        if added is not None and _broadcast_or_none(added.shape, scores) != scores:
            raise ShapeError(
                f"{OP} requires a {name} that broadcasts to {scores}, the scores (..., queries, "
                f"keys), got {added.shape}"
            )
    if mask is not None and mask.dtype is not bool_:
        raise DTypeError(
            f"{OP} requires a bool mask, got {mask.dtype.name}; what is added to the scores is "
            "the bias"
        )
    if dropout_key is not None:
        require_words(OP, dropout_key, (2,))
    elif dropout_p > 0:
        raise ArgumentError(
            f"{OP} requires a dropout_key where dropout_p > 0, got None for "
            f"dropout_p={dropout_p}; draw one: pyrite.random_bits((2,))"
        )
    out = TensorType((*query.shape[:-1], value.shape[-1]), query.dtype)
    return (out, TensorType(query.shape[:-1], query.dtype.compute))


def _require_matching(query: TensorType, key: TensorType, value: TensorType) -> None:
    q, k, v = query.shape, key.shape, value.shape
    fits = (
        len(q) == len(k) == len(v) >= 2
        and q[-1] == k[-1]
        and k[:-1] == v[:-1]
        and q[:-3] == k[:-3]
        and (q[-3:-2] == k[-3:-2] or (k[-3] > 0 and q[-3] % k[-3] == 0))
    )
    if not fits:
        raise ShapeError(
            f"{OP} requires query (..., H, T, D), key (..., K, S, D) and value (..., K, S, E) "
            f"where K divides H, got {q}, {k} and {v}"
        )
    if k[-2] == 0:
        raise ShapeError(f"{OP} requires at least one key, got key of shape {k}")


def _broadcast_or_none(shape: Shape, scores: Shape) -> Shape | None:
    try:
        return broadcast(OP, shape, scores)
    except ShapeError:
        return None


def backward_attributes(
    g: TensorType, g_sum: TensorType, out: TensorType, log_sum: TensorType, *inputs: Given,
    argnums: Sequence[int], **attrs: Any,
) -> Attributes:  # fmt: skip
    query = inputs[0]
    assert query is not None
    return {**attention_attributes(query, **attrs), "argnums": tuple(argnums)}


def backward_types(
    g: TensorType, g_sum: TensorType, out: TensorType, log_sum: TensorType, *inputs: Given,
    argnums: Sequence[int], **attrs: Any,
) -> tuple[TensorType, ...]:  # fmt: skip
    found = [inputs[position] for position in argnums]
    return tuple(t for t in found if t is not None)
