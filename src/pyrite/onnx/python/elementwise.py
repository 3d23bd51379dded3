"""Translators of elementwise ops, reductions and casts: methods and operators of tensors."""

from __future__ import annotations

import numpy as np

from pyrite.onnx.element import ELEMENTS
from pyrite.onnx.python.code import (
    AND,
    COMPARISON,
    OR,
    PRODUCT,
    SUM,
    UNARY,
    XOR,
    Code,
    call,
    code,
    infix,
    literal,
    method,
    pyrite,
    tighter,
)
from pyrite.onnx.python.use import NodeUse, Several, translates
from pyrite.onnx.python.value import Fixed, Value

#: Ops that are one method, by its name.
_METHODS = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh",
    "Atan": "atan", "Atanh": "atanh", "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Erf": "erf",
    "Exp": "exp", "Floor": "floor", "HardSwish": "hard_swish", "IsNaN": "isnan", "Log": "log",
    "Mish": "mish", "Not": "logical_not", "Reciprocal": "reciprocal", "Relu": "relu",
    "Round": "round", "Sigmoid": "sigmoid", "Sign": "sign", "Sin": "sin", "Sinh": "sinh",
    "Softplus": "softplus", "Softsign": "softsign", "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh",
    "BitwiseNot": "bitwise_invert",
}  # fmt: skip


@translates(*_METHODS)
def unary(use: NodeUse) -> Code:
    """Write a method without arguments."""
    return method(use.tensor(0), _METHODS[use.node.op])


@translates("Neg")
def negative(use: NodeUse) -> Code:
    """Write a minus."""
    return code("-{}", tighter(use.tensor(0), UNARY - 1), binds=UNARY)


#: Ops that are operators, by their sign and how tightly it binds.
_INFIX = {
    "Add": ("+", SUM), "Sub": ("-", SUM), "Mul": ("*", PRODUCT), "And": ("&", AND),
    "Or": ("|", OR), "Xor": ("^", XOR), "Equal": ("==", COMPARISON), "Greater": (">", COMPARISON),
    "GreaterOrEqual": (">=", COMPARISON), "Less": ("<", COMPARISON),
    "LessOrEqual": ("<=", COMPARISON), "BitwiseAnd": ("&", AND), "BitwiseOr": ("|", OR),
    "BitwiseXor": ("^", XOR),
}  # fmt: skip

#: Operators that Python turns around where a number stands first.
_NUMBERS_FIRST = {"Add", "Sub", "Mul"}


@translates(*_INFIX)
def binary(use: NodeUse) -> Code | None:
    """Write an operator between two tensors, or a tensor and a number."""
    sign, level = _INFIX[use.node.op]
    operands = _operands(use)
    return None if operands is None else infix(sign, *operands, level)


def _operands(use: NodeUse) -> tuple[Code, Code] | None:
    """Return two operands, of which one may be a number; None before broadcasting was NumPy's."""
    if use.node.version < 7:
        return None
    first, second = use.number(0), use.number(1)
    if second is not None:
        return use.tensor(0), second
    if first is not None and use.node.op in _NUMBERS_FIRST:
        return first, use.tensor(1)
    return use.tensor(0), use.tensor(1)


@translates("Div")
def divide(use: NodeUse) -> Code | None:
    """Write a quotient of floats; that of integers is rounded towards 0, which has no operator."""
    if use.node.version < 7 or not use.is_float(0):
        return None
    first, second = use.number(0), use.number(1)
    if second is None and first is not None:
        return infix("/", first, use.tensor(1), PRODUCT)
    return infix("/", use.tensor(0), use.tensor(1) if second is None else second, PRODUCT)


@translates("Pow")
def power(use: NodeUse) -> Code | None:
    """Write a power of floats."""
    exponent = use.fixed(1)
    if use.node.version < 7 or not use.is_float(0) or exponent is None or exponent.size != 1:
        return None
    if use.number(1) is None:
        return None
    value = float(exponent.reshape(-1)[0])
    if value == 2:
        return method(use.tensor(0), "square")
    return method(use.tensor(0), "pow", literal(value))


@translates("Where")
def where(use: NodeUse) -> Code:
    """Write a choice; its third operand may be a number."""
    other = use.number(2)
    if use.value(1) is not None and isinstance(use.value(1), Fixed) and use.number(1) is not None:
        return call(pyrite("where"), use.tensor(0), use.tensor(1), use.tensor(2))
    third = use.tensor(2) if other is None else other
    return call(pyrite("where"), use.tensor(0), use.tensor(1), third)


@translates("Clip")
def clip(use: NodeUse) -> Code | None:
    """Write bounds."""
    if use.node.version < 11:
        low, high = use.attribute("min"), use.attribute("max")
        if low is None or high is None:
            return None
        return method(use.tensor(0), "clip", literal(low), literal(high))
    bounds = [use.number(i) if use.has(i) else literal(None) for i in (1, 2)]
    known = [use.fixed(i) for i in (1, 2) if use.has(i)]
    if any(b is None for b in bounds) or any(k is None or (k != k).any() for k in known):
        return None
    given = [bound for bound in bounds if bound is not None]
    if not known:
        return use.tensor(0)
    return method(use.tensor(0), "clip", *(given[:1] if not use.has(2) else given))


@translates("Sum", "Max", "Min")
def folded(use: NodeUse) -> Code | None:
    """Write the sum or an extremum of two operands."""
    if len(use) != 2 or use.node.version < 8:
        return None
    if use.node.op == "Sum":
        return infix("+", use.tensor(0), use.tensor(1), SUM)
    name = "maximum" if use.node.op == "Max" else "minimum"
    return call(pyrite(name), use.tensor(0), use.tensor(1))


# ---- activations with parameters ----


@translates("Gelu")
def gelu(use: NodeUse) -> Code:
    """Write x Phi(x)."""
    if use.attribute("approximate", "none") == "tanh":
        return method(use.tensor(0), "gelu", literal("tanh"))
    return method(use.tensor(0), "gelu")


@translates("Swish")
def swish(use: NodeUse) -> Code | None:
    """Write x sigmoid(x)."""
    return method(use.tensor(0), "silu") if use.attribute("alpha", 1.0) == 1.0 else None


#: By op: the method, and its attributes with the defaults of the specification.
_WITH_ATTRIBUTES = {
    "Elu": ("elu", {"alpha": 1.0}),
    "Celu": ("celu", {"alpha": 1.0}),
    "LeakyRelu": ("leaky_relu", {"alpha": 0.01}),
    "ThresholdedRelu": ("thresholded_relu", {"alpha": 1.0}),
    "HardSigmoid": ("hard_sigmoid", {"alpha": 0.2, "beta": 0.5}),
}


@translates(*_WITH_ATTRIBUTES)
def activation(use: NodeUse) -> Code:
    """Write a method with its numbers."""
    name, defaults = _WITH_ATTRIBUTES[use.node.op]
    numbers = [shortest(use.attribute(a, default)) for a, default in defaults.items()]
    return method(use.tensor(0), name, *map(literal, numbers))


def shortest(value: float) -> float:
    """Return the shortest number that is the same float32: attributes are such."""
    return float(np.format_float_scientific(np.float32(value), unique=True, trim="0"))


# ---- casts ----


@translates("Cast")
def cast(use: NodeUse) -> Code | Value | None:
    """Write another dtype, where the element type has one of its own."""
    element = ELEMENTS[use.attribute("to")]
    if element.is_narrow or element.carrier is None:
        return None
    name = "bool" if element.name == "bool" else element.carrier.name
    return method(use.tensor(0), "astype", pyrite(name))


# ---- reductions ----

_REDUCTIONS = {"ReduceMean": "mean", "ReduceSum": "sum", "ReduceMax": "max", "ReduceMin": "min"}


@translates(*_REDUCTIONS)
def reduction(use: NodeUse) -> Code | None:
    """Write a reduction of floats over axes that are known."""
    rank = use.rank(0)
    axes = use.integers(1, "axes")
    if not use.is_float(0) or rank is None or not _is_filled(use, axes):
        return None
    if not axes:
        if use.has(1) or use.attribute("noop_with_empty_axes", 0):
            return None
        axes = list(range(rank))
    named = {"keepdims": literal(True)} if use.attribute("keepdims", 1) else {}
    at = [axis - rank if axis == rank - 1 else axis for axis in axes]
    axis = literal(at[0] if len(at) == 1 else tuple(at))
    return method(use.tensor(0), _REDUCTIONS[use.node.op], axis, **named)


def _is_filled(use: NodeUse, axes: list[int] | None) -> bool:
    """Whether an extremum is over sizes that are known to be more than 0."""
    if use.node.op in ("ReduceMean", "ReduceSum"):
        return True
    shape = use.shape(0) or ()
    over = range(len(shape)) if not axes else axes
    return all(isinstance(shape[a], int) and shape[a] != 0 for a in over)


@translates("Softmax", "LogSoftmax")
def softmax(use: NodeUse) -> Code | None:
    """Write a softmax along one axis; before opset 13 the axes from one on were one axis."""
    rank, axis = use.rank(0), use.attribute("axis", -1 if use.node.version >= 13 else 1)
    if use.node.version < 13 and (rank is None or axis % max(rank, 1) != rank - 1):
        return None
    axis = -1 if rank is not None and axis % rank == rank - 1 else axis
    name = "softmax" if use.node.op == "Softmax" else "log_softmax"
    return method(use.tensor(0), name, *([] if axis == -1 else [literal(axis)]))


@translates("ArgMax", "ArgMin")
def argmax(use: NodeUse) -> Code | None:
    """Write the index of an extremum."""
    if use.attribute("select_last_index", 0):
        return None
    axis = literal(use.attribute("axis", 0))
    named = {"keepdims": literal(True)} if use.attribute("keepdims", 1) else {}
    found = method(use.tensor(0), use.node.op.lower(), axis, **named)
    return method(found, "astype", pyrite("int64"))


@translates("Einsum")
def einsum(use: NodeUse) -> Code:
    """Write a sum of products."""
    equation = use.attribute("equation").replace(" ", "")
    return call(pyrite("einsum"), literal(equation), *use.tensors())


@translates("Dropout")
def dropout(use: NodeUse) -> Code | Several | None:
    """Write nothing for a dropout that is for training."""
    is_off = use.node.version >= 7 and not use.has(2)
    return use.tensor(0) if is_off and not use.has_output(1) else None
