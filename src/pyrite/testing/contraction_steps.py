"""The steps of random graphs around products and convolutions: what feeds them and what follows.

Operands have any layout and dtype, and what follows is elementwise and broadcast, seen by views,
read on the way, or of another dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyrite.autodiff import value_and_grad
from pyrite.backend.device import DeviceLike
from pyrite.tensor.comparison import where
from pyrite.tensor.tensor import Tensor
from pyrite.testing.layouts import LAYOUTS
from pyrite.testing.random_graphs import Drawn, RandomGraph, Rounds, Value
from pyrite.testing.random_steps import STEPS
from pyrite.testing.random_steps.elementwise import binary, cast, unary, with_number
from pyrite.testing.random_steps.step import Draw, is_float, is_number
from pyrite.testing.random_steps.views import view
from pyrite.types import Array, DType, dtype


class SteppedOperand:
    """A tensor that a step makes on the spot, of given values in some layout."""

    def __init__(self, g: RandomGraph, shape: Sequence[int], kind: DType) -> None:
        values: Array = g.numbers.integers(-1 if kind.kind != "uint" else 0, 2, shape)
        if kind.is_float and g.random.random() < 0.4:
            values = g.numbers.standard_normal(shape)
        if kind.is_bool:
            values = g.numbers.random(shape) < 0.5
        found = [one for one in LAYOUTS.values() if one.applies(tuple(shape))]
        self.layout = g.random.choice(found)
        self.values = self.layout.settled(values.astype(kind.numpy))
        self.is_whole = bool((self.values == np.round(self.values.astype(np.float64))).all())

    def on(self, device: DeviceLike) -> Tensor:
        """Return it on a device."""
        return self.layout(self.values, device)


def _is_factor(value: Value) -> bool:
    shape = value.tensor.shape
    return is_number(value) and value.tensor.ndim >= 2 and 0 < value.tensor.size < 4000 and (
        max(shape) < 300
    )  # fmt: skip


def product(g: RandomGraph) -> Drawn | None:
    """A product with a matrix or with a batch of them, from either side."""
    x = g.pick(_is_factor)
    if x is None:
        return None
    type = g.type_of(x)
    n = g.random.choice([1, 2, 3, 8, 9, 17, 33])
    lead = type.shape[:-2] if g.random.random() < 0.3 else ()
    weight = SteppedOperand(g, (*lead, type.shape[-1], n), type.dtype)
    turned = SteppedOperand(g, (n, type.shape[-2]), type.dtype)
    if g.random.random() < 0.3:
        return Drawn("w @ x", lambda x: turned.on(x.device) @ x, (x,), _rounds(turned))
    return Drawn("x @ w", lambda x: x @ weight.on(x.device), (x,), _rounds(weight))


def linear(g: RandomGraph) -> Drawn | None:
    """A layer with a bias."""
    x = g.pick(lambda v: is_number(v) and v.tensor.ndim > 0 and 0 < v.tensor.size < 4000)
    if x is None:
        return None
    type = g.type_of(x)
    n = g.random.choice([1, 2, 5, 16, 19])
    weight, bias = (
        SteppedOperand(g, (n, type.shape[-1]), type.dtype),
        SteppedOperand(g, (n,), type.dtype),
    )
    rounds: Rounds = "always" if "always" in {_rounds(weight), _rounds(bias)} else "sums"
    return Drawn("linear", lambda x: x.linear(weight.on(x.device), bias.on(x.device)), (x,), rounds)


def convolution(g: RandomGraph) -> Drawn | None:
    """A convolution over one axis or two, with a bias perhaps; or the gradient of its input."""
    ndim = g.random.choice([3, 4])
    x = g.pick(lambda v: is_float(v) and v.tensor.ndim == ndim and v.tensor.size > 0
               and min(v.tensor.shape[2:]) >= 2)  # fmt: skip
    if x is None:
        return None
    type = g.type_of(x)
    channels = type.shape[1]
    groups = g.random.choice([d for d in (1, 1, 2, 3) if channels % d == 0])
    outputs = groups * g.random.choice([1, 2, 5])
    size = tuple(g.random.choice([1, 2, 3]) for _ in range(ndim - 2))
    weight = SteppedOperand(g, (outputs, channels // groups, *size), type.dtype)
    bias = SteppedOperand(g, (outputs,), type.dtype) if g.random.random() < 0.5 else None
    attrs: dict[str, Any] = {
        "stride": g.random.choice([1, 1, 2]), "padding": g.random.choice([1, 1, 2]),
        "dilation": g.random.choice([1, 1, 2]), "groups": groups,
    }  # fmt: skip
    if any(n + 2 * attrs["padding"] <= attrs["dilation"] * (k - 1)
           for n, k in zip(type.shape[2:], size, strict=True)):  # fmt: skip
        return None

    def convolve(x: Tensor) -> Tensor:
        op = x.conv1d if ndim == 3 else x.conv2d
        return op(weight.on(x.device), None if bias is None else bias.on(x.device), **attrs)

    if g.random.random() < 0.3:
        return Drawn(f"gradient of conv {attrs}", lambda x: _gradient(convolve, x), (x,), "always")
    rounds = {_rounds(weight), "sums" if bias is None else _rounds(bias)}
    return Drawn(f"conv {attrs}", convolve, (x,), "always" if "always" in rounds else "sums")


def _gradient(compute: Any, x: Tensor) -> list[Tensor]:
    def loss(x: Tensor) -> Tensor:
        found: Tensor = compute(x)
        return (found * found).mean()

    value, gradient = value_and_grad(loss)(x)
    return [value, gradient.relu()]


def _rounds(operand: SteppedOperand) -> Rounds:
    """Return what sums of products with an operand depend on."""
    return "sums" if operand.is_whole else "always"


AROUND: tuple[tuple[str, Any], ...] = (
    ("x + y", lambda x, y: x + y),
    ("y - x", lambda x, y: y - x),
    ("x * y", lambda x, y: x * y),
    ("max(x, y)", lambda x, y: x.maximum(y)),
    ("relu where y", lambda x, y: where(y > 0, x, 0)),
    ("x + y and its relu", lambda x, y: [x + y, (x + y).relu()]),
)


def around(g: RandomGraph) -> Drawn | None:
    """Something elementwise with an operand that is broadcast, or whole: a bias, a residual."""
    x = g.pick(lambda v: is_number(v) and v.tensor.size > 0)
    if x is None:
        return None
    type = g.type_of(x)
    shape = tuple(1 if g.random.random() < 0.25 else n for n in type.shape)
    shape = shape[g.random.choice([0, 0, 1]) :]
    other = g.random.choice([type.dtype, type.dtype, type.dtype, dtype("float32")])
    y = SteppedOperand(g, shape, other if type.dtype.is_float else type.dtype)
    text, compute = g.random.choice(AROUND)

    def with_operand(x: Tensor) -> Any:
        return compute(x, y.on(x.device))

    return Drawn(f"{text}, y {y.layout.name} {shape} {y.values.dtype}", with_operand, (x,))


#: What a graph of contractions and their surroundings is drawn of.
STEPS_AROUND: list[Draw] = [
    *[product] * 5, *[linear] * 5, *[convolution] * 6, *[around] * 12, *[unary] * 6,
    *[with_number] * 3, *[cast] * 2, *[binary] * 4, *[view] * 4, *STEPS[::9],
]  # fmt: skip
