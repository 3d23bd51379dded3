"""What `pyrite.onnx.pattern` finds and ONNX has no op for."""

from __future__ import annotations

from pyrite.onnx.converter import Scalar, converts
from pyrite.onnx.pattern.view import PATTERN
from pyrite.tensor.tensor import Tensor
from pyrite.types import broadcast


@converts("Linear", domain=PATTERN)
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, transposed: int = 0) -> Tensor:
    """Return x @ weight + bias; a transposed weight is (out, in), as PyTorch's."""
    return x.linear(weight if transposed else weight.mT, bias)


@converts("Attention", domain=PATTERN)
def attention(
    query: Tensor,
    keys: Tensor,
    value: Tensor,
    bias: Tensor | None = None,
    factor: Scalar | None = None,
    *,
    divides: int,
) -> Tensor:
    """Return softmax(query keys * factor + bias) value: (..., T, D), (..., D, S), (..., S, E)."""
    if not isinstance(factor, Tensor) and _has_heads(query, keys, value, bias):
        scale = 1.0 if factor is None else 1.0 / factor if divides else factor
        return query.scaled_dot_product_attention(keys.mT, value, bias=bias, scale=float(scale))
    scores = query.matmul(keys)
    if factor is not None:
        scores = scores / factor if divides else scores * factor
    return (scores if bias is None else scores + bias).softmax(-1).matmul(value)


def _has_heads(query: Tensor, keys: Tensor, value: Tensor, bias: Tensor | None) -> bool:
    """Whether nothing but the bias is stretched: then it is Pyrite's attention."""
    scores = (*query.shape[:-1], keys.shape[-1])
    fits = bias is None or broadcast("Attention", bias.shape, scores) == scores
    return fits and query.ndim > 2 and query.shape[:-2] == keys.shape[:-2] == value.shape[:-2]
