"""Arithmetic of sizes: what ops do to the integers of the host that steer a graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyrite.onnx.python.code import (
    COMPARISON,
    PRODUCT,
    SUM,
    infix,
)
from pyrite.onnx.python.use import SIZE_RULES, NodeUse
from pyrite.onnx.python.value import (
    TENSOR,
    UNKNOWN,
    Fixed,
    Size,
    Sizes,
    Value,
    Variable,
    as_sizes,
    combined,
    indexed,
    integers,
    simplified,
    size_code,
    size_of,
)

#: A size: a number, or an expression that asks for it.
Item = int | Size


def is_tensor(use: NodeUse, position: int = 0) -> bool:
    """Whether an operand is a tensor of the device."""
    value = use.value(position)
    return isinstance(value, Variable) and value.kind == TENSOR


def shape(use: NodeUse) -> Value | None:
    """Give the sizes of axes."""
    of, value = use.shape(0), use.value(0)
    if isinstance(value, Sizes):
        return Fixed(np.array([len(value.items)] if value.is_vector else [], np.int64))
    if of is None or not isinstance(value, Variable) or not is_tensor(use):
        return None
    name = use.node.inputs[0]
    if value.code.locals != [name]:
        return None
    items = [size_of(name, axis, size) for axis, size in enumerate(of)]
    return simplified(items[use.attribute("start", 0) : use.attribute("end")], True)


def gathered(use: NodeUse) -> Value | None:
    """Give the sizes at indices."""
    items, at = as_sizes(use.value(0)), use.fixed(1)
    if items is None or at is None or at.ndim > 1 or use.attribute("axis", 0):
        return None
    return simplified(list(indexed(items.items, at)), at.ndim == 1)


def sliced(use: NodeUse) -> Value | None:
    """Give a part of sizes."""
    items = as_sizes(use.value(0))
    if use.node.version < 10:
        bounds = [use.attribute("starts"), use.attribute("ends"), None, None]
    else:
        bounds = [integers(use.value(i)) if use.has(i) else None for i in range(1, 5)]
    if items is None or bounds[0] is None or bounds[1] is None or len(bounds[0]) != 1:
        return None
    if use.has(4) and bounds[3] is None:
        return None
    step = bounds[3][0] if bounds[3] else 1
    return simplified(items.items[bounds[0][0] : bounds[1][0] : step], True)


def joined(use: NodeUse) -> Value | None:
    """Give sizes one after the other."""
    found = [as_sizes(value) for value in use.values]
    known = [f for f in found if f is not None and f.is_vector]
    if len(known) != len(found):
        return None
    return simplified([item for f in known for item in f.items], True)


def reshaped(use: NodeUse) -> Value | None:
    """Give a number as a vector, or the other way round."""
    items = as_sizes(use.value(0))
    if items is None:
        return None
    if use.node.op == "Reshape":
        to = integers(use.value(1)) if use.has(1) else list(use.attribute("shape", ()))
        return simplified(items.items, True) if to in ([len(items.items)], [-1]) else None
    if len(items.items) != 1:
        return None
    return simplified(items.items, use.node.op == "Unsqueeze" and not items.is_vector)


def arithmetic(use: NodeUse) -> Value | None:
    """Give the sum, difference, product or quotient of sizes."""
    sign, level = {"Add": ("+", SUM), "Sub": ("-", SUM), "Mul": ("*", PRODUCT),
                   "Div": ("//", PRODUCT)}[use.node.op]  # fmt: skip
    one, other = as_sizes(use.value(0)), as_sizes(use.value(1))
    if one is None or other is None or use.node.version < 7:
        return None
    if sign == "//" and not all(isinstance(d, int) and d > 0 for d in other.items):
        return None
    count = max(len(one.items), len(other.items))
    if {len(one.items), len(other.items)} - {1, count}:
        return None
    pairs = zip(_stretched(one.items, count), _stretched(other.items, count), strict=True)
    made = [combined(sign, level, a, b) for a, b in pairs]
    return simplified(made, one.is_vector or other.is_vector)


def _stretched(items: Sequence[Item], count: int) -> Sequence[Item]:
    return items if len(items) == count else [items[0]] * count


def same(use: NodeUse) -> Value | None:
    """Give what it is given: a cast between integers; as a truth, whether a size is not 0."""
    to, items = use.attribute("to"), as_sizes(use.value(0))
    if use.node.op == "Identity" or to == _INT64:
        return use.value(0)
    if to == _BOOL and items is not None and not items.is_vector:
        return _truth("!=", items.items[0], 0)
    return None


#: Numbers of ONNX's element types.
_INT64, _BOOL = 7, 9


def _truth(sign: str, one: Item, other: Item) -> Value:
    """Return whether a size compares so with another, which the host knows."""
    return Variable(infix(sign, size_code(one), size_code(other), COMPARISON), UNKNOWN)


_SIGNS = {"Equal": "==", "Less": "<", "LessOrEqual": "<=", "Greater": ">", "GreaterOrEqual": ">="}


def compared(use: NodeUse) -> Value | None:
    """Give how a size compares with another, or whether sizes equal a number that no size is."""
    one, other = as_sizes(use.value(0)), as_sizes(use.value(1))
    if one is None or other is None or len(one.items) != len(other.items):
        return None
    are_known = all(isinstance(item, int) for item in (*one.items, *other.items))
    if not one.is_vector and not other.is_vector and not are_known:
        return _truth(_SIGNS[use.node.op], one.items[0], other.items[0])
    if use.node.op != "Equal":
        return None
    found = []
    for a, b in zip(one.items, other.items, strict=True):
        if isinstance(a, int) and isinstance(b, int):
            found.append(a == b)
        elif -1 in (a, b):
            found.append(False)
        else:
            return None
    return Fixed(np.array(found))


def chosen(use: NodeUse) -> Value | None:
    """Give one of two sizes at each place."""
    condition = use.fixed(0)
    one, other = as_sizes(use.value(1)), as_sizes(use.value(2))
    if condition is None or one is None or other is None:
        return None
    flags = condition.reshape(-1).tolist()
    if not len(flags) == len(one.items) == len(other.items):
        return None
    picked = [a if f else b for f, a, b in zip(flags, one.items, other.items, strict=True)]
    return simplified(picked, one.is_vector)


SIZE_RULES |= {
    "Shape": shape, "Gather": gathered, "Slice": sliced, "Concat": joined, "Reshape": reshaped,
    "Squeeze": reshaped, "Unsqueeze": reshaped, "Add": arithmetic, "Sub": arithmetic,
    "Mul": arithmetic, "Div": arithmetic, "Cast": same, "Identity": same, "Where": chosen,
    **dict.fromkeys(_SIGNS, compared),
}  # fmt: skip
