"""Patterns of linear layers: a product with a weight of the file, and a bias."""

from __future__ import annotations

from pyrite.onnx.graph import Node
from pyrite.onnx.pattern.rewriting import Pattern, node_of
from pyrite.onnx.pattern.term import AnyValue, Match, NodeOf, Weight, call, commuting, either
from pyrite.onnx.pattern.view import PATTERN, GraphView

X, WEIGHT, BIAS = AnyValue("x"), Weight("weight", 2), Weight("bias", 1)


def _turns(node: Node, view: GraphView) -> bool:
    """Whether a Transpose changes the two axes of a matrix."""
    return tuple(node.attributes.get("perm") or (1, 0)) == (1, 0)


#: A weight (out, in), as PyTorch has it; an embedding may read it too.
_TURNED = NodeOf("Transpose", (WEIGHT,), "turned", shared=True, where=_turns)
_PRODUCT = NodeOf("MatMul", (X, either(WEIGHT, _TURNED)), "product")
#: A layer without a bias that was found before.
_LAYER = NodeOf("Linear", (X, WEIGHT), "product")


def _is_plain(node: Node, view: GraphView) -> bool:
    """Whether a Gemm is a product plus its last operand."""
    a = node.attributes
    factors = (a.get("alpha", 1.0), a.get("beta", 1.0))
    return factors == (1.0, 1.0) and not a.get("transA", 0)


def _has_no_bias(node: Node, view: GraphView) -> bool:
    return _is_plain(node, view) and not any(node.inputs[2:])


def _layer(match: Match, last: Node, view: GraphView) -> Node | None:
    """Return the layer of a match; None of a bias of another length, or of what is no float."""
    product = match.nodes.get("product", last)
    is_turned = product.attributes.get("transB", product.attributes.get("transposed", 0))
    transposed = int("turned" in match.nodes or bool(is_turned))
    names = ("x", "weight", "bias")[: len(match.values)]
    _, weight, *bias = match.types(*names)
    carrier = weight.element.carrier if weight.element is not None else None
    out = (weight.shape or ())[0 if transposed else 1]
    if carrier is None or not carrier.is_float or any(each.shape != (out,) for each in bias):
        return None
    return node_of(
        last, "Linear", 1, match.named(*names), match.types(*names), domain=PATTERN,
        scope=product.scope, transposed=transposed,
    )  # fmt: skip


#: x W + b.
BIASED = Pattern(("Add",), commuting("Add", either(_PRODUCT, _LAYER), BIAS), _layer)

#: x W' of a weight that is turned in the graph: one that an embedding has too.
TURNED = Pattern(("MatMul",), call("MatMul", X, _TURNED), _layer)

#: x W + b in a Gemm, of which the weight may be turned.
GEMM_BIASED = Pattern(("Gemm",), NodeOf("Gemm", (X, WEIGHT, BIAS), where=_is_plain), _layer)
GEMM = Pattern(("Gemm",), NodeOf("Gemm", (X, WEIGHT), is_open=True, where=_has_no_bias), _layer)
