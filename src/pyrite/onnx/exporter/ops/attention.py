"""Attention as one node, from opset 23 on; before it, and with a softcap, its body is written."""

from __future__ import annotations

from typing import Any

from pyrite.onnx.exporter.call import Call, Value
from pyrite.onnx.exporter.registry import Types, exports
from pyrite.op import Attributes


def _has_batch_and_heads(types: Types, attrs: Attributes) -> bool:
    """Whether ONNX's Attention says the same.

    It has four axes, and a row that may attend to nothing is left open there: with a mask of bools
    there may be one, which is 0 here.
    """
    query, _, _, mask, bias, bits = types
    assert query is not None
    return (
        query.ndim == 4
        and mask is None
        and bits is None
        and attrs["softcap"] is None
        and (bias is None or bias.ndim >= 2)
    )


@exports("scaled_dot_product_attention", since_opset=23, when=_has_batch_and_heads)
def _attention(
    call: Call, query: Value, key: Value, value: Value, mask: None, bias: Value | None, bits: None,
    *, is_causal: bool, scale: float, **_: Any,
) -> tuple[Value, None]:  # fmt: skip
    found = call.emit(
        "Attention", query, key, value, bias, is_causal=int(is_causal), scale=float(scale)
    )
    return found, None
