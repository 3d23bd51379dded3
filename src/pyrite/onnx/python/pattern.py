"""Patterns of several ops that are one: a linear layer, layer norm, GELU, SiLU.

Exporters write as several nodes what their opset has no op for, or what they take apart.  What is
found is a node of ONNX's own op of a later opset where there is one.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from pyrite.onnx.graph import Node
from pyrite.onnx.python.finder import Finder, ends_in, is_float, node_of

# ---- linear layers ----


@ends_in("Add")
def linear(finder: Finder, last: Node) -> Node | None:
    """Find x W + b."""
    found = finder.pair(last, "MatMul")
    if found is None or last.version < 7 or not is_float(last):
        return None
    product, bias = found
    weight, added = finder.weight(product.inputs[1]), finder.weight(bias)
    fits = weight is not None and added is not None and len(weight.shape) == 2
    if not fits or weight is None or added is None or added.shape != (weight.shape[1],):
        return None
    return node_of(last, "Linear", 1, (*product.inputs, bias), product)


@ends_in("Gemm")
def linear_gemm(finder: Finder, last: Node) -> Node | None:
    """Find x W' + b in a Gemm."""
    a = last.attributes
    plain = a.get("alpha", 1.0) == 1.0 and a.get("beta", 1.0) == 1.0 and not a.get("transA", 0)
    weight = finder.weight(last.inputs[1])
    if not plain or weight is None or last.version < 7 or not is_float(last):
        return None
    transposed = int(a.get("transB", 0))
    out = weight.shape[0 if transposed else 1]
    if len(last.inputs) > 2 and last.inputs[2]:
        bias = finder.weight(last.inputs[2])
        if bias is None or bias.shape != (out,):
            return None
    return node_of(last, "Linear", 1, tuple(filter(None, last.inputs)), last, transposed=transposed)


@ends_in("MatMul")
def linear_transposed(finder: Finder, last: Node) -> Node | None:
    """Find x W' of a weight that is transposed in the graph: one that an embedding has too."""
    turned = finder.maker(last.inputs[1], "Transpose", alone=False)
    weight = finder.weight(turned.inputs[0]) if turned is not None else None
    if turned is None or weight is None or len(weight.shape) != 2 or not is_float(last):
        return None
    return node_of(last, "Linear", 1, (last.inputs[0], turned.inputs[0]), last, transposed=1)


# ---- activations ----


@ends_in("Mul")
def gelu(finder: Finder, last: Node) -> Node | None:
    """Find x (1 + erf(x / sqrt 2)) / 2, with its factors in any order."""
    factors = _factors(finder, last.outputs[0])
    if factors is None:
        return None
    number, values = factors
    for position, value in enumerate(values):
        inner = _one_plus_erf(finder, value)
        others = values[:position] + values[position + 1 :]
        if inner is not None and others == [inner] and math.isclose(number, 0.5, rel_tol=1e-6):
            return node_of(last, "Gelu", 20, (inner,))
    return None


def _factors(finder: Finder, name: str) -> tuple[float, list[str]] | None:
    """Return the known number and the values whose product a value is."""
    node = finder.maker(name, "Mul", "Div", alone=False)
    if node is None or len(node.inputs) != 2:
        return None
    number, values = 1.0, []
    for position, each in enumerate(node.inputs):
        known = finder.number(each)
        if known is not None:
            number *= known if node.op == "Mul" or not position else 1.0 / known
            continue
        if node.op == "Div" and position:
            return None
        inner = _factors(finder, each) if finder.counts[each] == 1 else None
        if inner is None:
            values.append(each)
        else:
            number *= inner[0]
            values += inner[1]
    return number, values


def _one_plus_erf(finder: Finder, name: str) -> str | None:
    """Return x where a value is 1 + erf(x / sqrt 2)."""
    added = finder.maker(name, "Add")
    found = finder.pair(added, "Erf") if added is not None else None
    if found is None or finder.number(found[1]) != 1.0:
        return None
    inner = finder.maker(found[0].inputs[0], "Mul", "Div")
    scaled = finder.scaled(inner) if inner is not None else None
    if scaled is None or not math.isclose(scaled[1], 0.5**0.5, rel_tol=1e-6):
        return None
    return scaled[0]


@ends_in("Mul")
def gelu_tanh(finder: Finder, last: Node) -> Node | None:
    """Find x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x³))) / 2."""
    factors = _factors(finder, last.outputs[0])
    if factors is None or not math.isclose(factors[0], 0.5, rel_tol=1e-6):
        return None
    for position, value in enumerate(factors[1]):
        others = factors[1][:position] + factors[1][position + 1 :]
        added = finder.maker(value, "Add")
        found = finder.pair(added, "Tanh") if added is not None else None
        if found is None or finder.number(found[1]) != 1.0 or len(others) != 1:
            continue
        if _is_cubic(finder, found[0].inputs[0], others[0]):
            return node_of(last, "Gelu", 20, (others[0],), approximate="tanh")
    return None


def _is_cubic(finder: Finder, name: str, x: str) -> bool:
    """Whether a value is sqrt(2 / pi) (x + 0.044715 x³)."""
    outer = finder.maker(name, "Mul")
    scaled = finder.scaled(outer) if outer is not None else None
    if scaled is None or not math.isclose(scaled[1], math.sqrt(2 / math.pi), rel_tol=1e-6):
        return False
    added = finder.maker(scaled[0], "Add")
    if added is None or x not in added.inputs:
        return False
    cube = next((n for n in added.inputs if n != x), "")
    factors = _factors(finder, cube)
    if factors is None or not math.isclose(factors[0], 0.044715, rel_tol=1e-6):
        return False
    if factors[1] == [x, x, x]:
        return True
    power = finder.maker(factors[1][0], "Pow") if len(factors[1]) == 1 else None
    return power is not None and power.inputs[0] == x and finder.number(power.inputs[1]) == 3.0


@ends_in("Mul")
def silu(finder: Finder, last: Node) -> Node | None:
    """Find x sigmoid(x)."""
    found = finder.pair(last, "Sigmoid")
    if found is None or found[0].inputs[0] != found[1]:
        return None
    return node_of(last, "Swish", 24, (found[1],))


# ---- norms ----


@ends_in("Add")
def layer_norm(finder: Finder, last: Node) -> Node | None:
    """Find (x - mean) / sqrt(variance + eps) scale + shift over the last axis."""
    found = finder.pair(last, "Mul")
    if found is None or finder.weight(found[1]) is None:
        return None
    scaled = finder.pair(found[0], "Div")
    if scaled is None or finder.weight(scaled[1]) is None:
        return None
    return _normalized(finder, last, scaled[0], scaled[1], found[1])


def _normalized(finder: Finder, last: Node, divided: Node, scale: str, shift: str) -> Node | None:
    centred = finder.maker(divided.inputs[0], "Sub", alone=False)
    root = finder.maker(divided.inputs[1], "Sqrt")
    moved = finder.maker(root.inputs[0], "Add") if root is not None else None
    found = finder.pair(moved, "ReduceMean") if moved is not None else None
    if centred is None or found is None:
        return None
    epsilon, squared = finder.number(found[1]), finder.maker(found[0].inputs[0], "Pow", "Mul")
    mean = finder.maker(centred.inputs[1], "ReduceMean")
    if epsilon is None or squared is None or mean is None:
        return None
    is_square = squared.inputs[0] == centred.outputs[0] and (
        squared.inputs[1] == squared.inputs[0] or finder.number(squared.inputs[1]) == 2.0
    )
    x = centred.inputs[0]
    is_mean = mean.inputs[0] == x and _is_last(finder, mean) and _is_last(finder, found[0])
    weights = finder.weight(scale), finder.weight(shift)
    is_row = all(w is not None and len(w.shape) == 1 for w in weights)
    if not (is_square and is_mean and is_row):
        return None
    made = node_of(last, "LayerNormalization", 17, (x, scale, shift), epsilon=epsilon, axis=-1)
    types = (centred.input_types[0], *(replace(centred.input_types[0], shape=w.shape)
                                       for w in weights if w is not None))  # fmt: skip
    return replace(made, input_types=types)


def _is_last(finder: Finder, node: Node) -> bool:
    """Whether a reduction is over the last axis and keeps it."""
    axes = node.attributes.get("axes")
    if axes is None and len(node.inputs) > 1:
        axes = finder.constants.get(node.inputs[1], np.zeros(0)).reshape(-1).tolist()
    shape = node.input_types[0].shape
    last = (-1,) if shape is None else (-1, len(shape) - 1)
    is_one = axes is not None and len(axes) == 1 and axes[0] in last
    return is_one and bool(node.attributes.get("keepdims", 1))
