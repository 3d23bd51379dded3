"""Attention as one node, from opset 23 on; before it, its body is written.

A query that may attend to no key gets 0, here and by ONNX's specification since its errata of
Attention-23.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pyrite.onnx.exporter.call import Call, Value
from pyrite.onnx.exporter.registry import Types, exports
from pyrite.onnx.exporter.size import Size
from pyrite.op import Attributes


def _has_four_axes(types: Types, attrs: Attributes) -> bool:
    """Whether ONNX's Attention takes it: it has no words for dropout, and no more axes."""
    query, *_, dropout_key = types
    assert query is not None
    return dropout_key is None and query.ndim <= 4


@exports("scaled_dot_product_attention", since_opset=23, when=_has_four_axes)
def _attention(
    call: Call,
    query: Value,
    key: Value,
    value: Value,
    mask: Value | None,
    bias: Value | None,
    dropout_key: None,
    *,
    is_causal: bool,
    scale: float,
    softcap: float | None,
    dropout_p: float,
) -> tuple[Value, None]:
    rank = query.ndim
    added = _added(call, mask, bias)
    if added is not None:
        added = _with_all_axes(call, _stretched(call, added, (*query.shape, key.shape[-2])), rank)
    given = (_with_all_axes(call, x, rank) for x in (query, key, value))
    found = call.emit(
        "Attention", *given, added,
        is_causal=int(is_causal), scale=float(scale), softcap=float(softcap) if softcap else None,
    )  # fmt: skip
    if rank < 4:
        found = call.emit("Squeeze", found, call.axes(range(4 - rank)))
    return found, None


def _with_all_axes(call: Call, x: Value, rank: int) -> Value:
    return call.emit("Unsqueeze", x, call.axes(range(4 - rank))) if rank < 4 else x


def _added(call: Call, mask: Value | None, bias: Value | None) -> Value | None:
    """Return ONNX's mask: bools, or floats that are added to the scores."""
    if mask is None or bias is None:
        return mask or bias
    return call.emit("Where", mask, bias, call.number(-math.inf, bias.dtype), dtype=bias.dtype)


def _stretched(call: Call, added: Value, sizes: Sequence[Size]) -> Value:
    """Return a mask with the last axes of the scores: runtimes stretch only those before."""
    *before, queries, _, keys = sizes
    return call.emit("Expand", added, call.integers((*(1 for _ in before), queries, keys)))
