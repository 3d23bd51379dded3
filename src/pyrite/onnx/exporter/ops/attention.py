"""Attention as one node, from opset 23 on; before it, and with a mask, its body is written."""

from __future__ import annotations

from typing import Any

from pyrite.onnx.exporter.call import Call, Value
from pyrite.onnx.exporter.registry import Types, exports
from pyrite.op import Attributes


def _always_attends(types: Types, attrs: Attributes) -> bool:
    """Whether ONNX's Attention says the same.

    What becomes of a query that may attend to nothing is left open there, and is 0 here; a mask of
    bools or a bias of -inf may make one.
    """
    query, _, _, mask, bias, bits = types
    assert query is not None
    is_plain = mask is None and bias is None and bits is None
    return is_plain and query.ndim <= 4 and attrs["softcap"] is None


@exports("scaled_dot_product_attention", since_opset=23, when=_always_attends)
def _attention(
    call: Call, query: Value, key: Value, value: Value, mask: None, bias: None, bits: None,
    *, is_causal: bool, scale: float, **_: Any,
) -> tuple[Value, None]:  # fmt: skip
    missing = call.axes(range(4 - query.ndim)) if query.ndim < 4 else None

    def with_all_axes(x: Value) -> Value:
        return call.emit("Unsqueeze", x, missing) if missing else x

    given = map(with_all_axes, (query, key, value))
    found = call.emit("Attention", *given, is_causal=int(is_causal), scale=float(scale))
    return call.emit("Squeeze", found, missing) if missing else found, None
