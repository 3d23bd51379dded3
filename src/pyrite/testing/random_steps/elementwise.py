"""The elementwise steps of random graphs: functions, arithmetic, masks and casts."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from pyrite.errors import DTypeError
from pyrite.tensor.comparison import where
from pyrite.tensor.tensor import Tensor
from pyrite.testing.random_graphs import KINDS, Drawn, RandomGraph
from pyrite.testing.random_steps.step import is_float, is_number, is_sure, meeting, often, step_of
from pyrite.types import dtype

UNARY = (
    "exp", "tanh", "sigmoid", "gelu", "silu", "relu", "abs", "square", "sin", "erf", "softplus",
    "elu", "expm1", "negative", "mish", "hard_swish", "reciprocal", "rsqrt", "log1p", "sqrt",
    "log_sigmoid", "atan", "cos", "softsign", "sinc",
)  # fmt: skip
STEPPED = ("floor", "ceil", "round", "sign", "trunc", "isnan", "isfinite", "signbit")


def unary(g: RandomGraph) -> Drawn | None:
    """An op of one float."""
    x = g.pick(is_float)
    name = g.random.choice(UNARY)
    if x is None:
        return None
    return step_of(g, name, lambda x: getattr(x, name)(), x, rounds="function")


def stepped(g: RandomGraph) -> Drawn | None:
    """An op of one float that jumps."""
    x = g.pick(lambda v: is_float(v) and is_sure(v))
    name = g.random.choice(STEPPED)
    if x is None:
        return None
    return step_of(g, name, lambda x: getattr(x, name)(), x, is_discontinuous=True)


BINARY = ("add", "subtract", "multiply", "maximum", "minimum")


def binary(g: RandomGraph) -> Drawn | None:
    """An op of two, of any dtypes that meet."""
    found = meeting(g, is_number)
    name = g.random.choice(BINARY)
    if found is None:
        return None
    both = [g.type_of(v).dtype for v in found]
    if both[0].is_float and both[1].is_float and g.random.random() < 0.2:
        return step_of(g, "divide", lambda x, y: x / (y.abs() + 1), *found)
    try:
        return step_of(g, name, lambda x, y: getattr(x, name)(y), *found)
    except DTypeError:
        return None


def with_number(g: RandomGraph) -> Drawn | None:
    """An op of a tensor and a number, on either side."""
    x = g.pick(is_number)
    if x is None:
        return None
    kind = g.type_of(x).dtype
    number = g.random.choice([0.5, 1.7, -2.0, 3] if kind.is_float else [2, 3, 1, 0])
    computes: list[tuple[str, Callable[[Tensor], Tensor]]] = [
        (f"x + {number}", lambda x: x + number), (f"{number} - x", lambda x: number - x),
        (f"x * {number}", lambda x: x * number), (f"max(x, {number})", lambda x: x.maximum(number)),
        (f"clip(0, {number})", lambda x: x.clip(0, abs(number))),
    ]  # fmt: skip
    if kind.is_float:
        computes.append((f"x / {number}", lambda x: x / (number or 1)))
        computes.append(("x ** 2", lambda x: x**2))
    text, compute = g.random.choice(computes)
    return step_of(g, text, compute, x)


def comparison(g: RandomGraph) -> Drawn | None:
    """A mask."""
    found = meeting(g, lambda v: is_sure(v) and is_number(v))
    name = g.random.choice(["greater", "less_equal", "equal", "not_equal"])
    if found is None:
        return None
    if g.random.random() < 0.4:
        return step_of(
            g, f"{name} 1", lambda x: getattr(x, name)(1), found[0], is_discontinuous=True
        )
    return step_of(g, name, lambda x, y: getattr(x, name)(y), *found, is_discontinuous=True)


def choice(g: RandomGraph) -> Drawn | None:
    """One of two, by a mask."""
    found = meeting(g, is_number)
    mask = g.pick(lambda v: v.tensor.dtype.is_bool)
    if found is None or mask is None:
        return None
    shapes = [g.type_of(v).shape for v in (mask, *found)]
    if g.random.random() < 0.5:
        shapes.pop()
    try:
        is_small = math.prod(np.broadcast_shapes(*shapes)) < 30000
    except ValueError:
        return None
    if not is_small:
        return None
    if len(shapes) == 2:
        return step_of(g, "where 0", lambda m, x: where(m, x, 0), mask, found[0])
    return step_of(g, "where", where, mask, *found)


def cast(g: RandomGraph) -> Drawn | None:
    """Another dtype."""
    x = g.pick()
    name = g.random.choice(KINDS)
    if x is None:
        return None
    to = dtype(name)
    if g.type_of(x).dtype.is_float and not to.is_float:
        if not is_sure(g.values[x]):
            return None
        text = f"nan_to_num, astype {name}"
        return step_of(g, text, lambda x: x.nan_to_num().astype(name), x, is_discontinuous=True)
    return step_of(g, f"astype {name}", lambda x: x.astype(name), x)


def logic(g: RandomGraph) -> Drawn | None:
    """An op of masks, or of bits."""
    found = meeting(g, lambda v: not is_float(v))
    if found is None or len({g.type_of(v).dtype for v in found}) > 1:
        return None
    op = g.random.choice(["and", "or", "xor"])
    computes = {"and": lambda x, y: x & y, "or": lambda x, y: x | y, "xor": lambda x, y: x ^ y}
    return step_of(g, op, computes[op], *found)


STEPS = often(
    {unary: 8, stepped: 2, binary: 10, with_number: 6, comparison: 4, choice: 4, cast: 5, logic: 1}
)
