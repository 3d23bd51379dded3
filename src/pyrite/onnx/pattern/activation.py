"""Patterns of activations: GELU, exact and by tanh, and SiLU."""

from __future__ import annotations

import math
from collections.abc import Callable

from pyrite.onnx.graph import Node
from pyrite.onnx.pattern.rewriting import Pattern, node_of
from pyrite.onnx.pattern.term import (
    AnyValue,
    KnownNumber,
    Match,
    NodeOf,
    Term,
    call,
    commuting,
    either,
    product,
)
from pyrite.onnx.pattern.view import GraphView

X = AnyValue("x")


def _one_plus(term: Term) -> NodeOf:
    return commuting("Add", term, KnownNumber(1.0))


#: x³, times the 0.044715 of Hendrycks & Gimpel 2016.
_CUBE = either(product(0.044715, X, X, X), product(0.044715, call("Pow", X, KnownNumber(3.0))))

_ERF = call("Erf", product(math.sqrt(0.5), X))
_TANH = call("Tanh", product(math.sqrt(2 / math.pi), commuting("Add", X, _CUBE)))


def _gelu(approximate: str) -> Callable[[Match, Node, GraphView], Node]:
    def make(match: Match, last: Node, view: GraphView) -> Node:
        return node_of(
            last, "Gelu", 20, match.named("x"), match.types("x"), approximate=approximate
        )

    return make


def _swish(match: Match, last: Node, view: GraphView) -> Node:
    return node_of(last, "Swish", 24, match.named("x"), match.types("x"))


#: x (1 + erf(x / sqrt 2)) / 2.
GELU = Pattern(("Mul", "Div"), product(0.5, X, _one_plus(_ERF)), _gelu("none"))

#: x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x³))) / 2.
GELU_TANH = Pattern(("Mul", "Div"), product(0.5, X, _one_plus(_TANH)), _gelu("tanh"))

#: x sigmoid(x).
SILU = Pattern(("Mul",), commuting("Mul", X, call("Sigmoid", X)), _swish)
