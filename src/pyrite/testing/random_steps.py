"""The steps of random graphs: each class of op, applied to what the graph holds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pyrite.autodiff import value_and_grad
from pyrite.errors import DTypeError
from pyrite.tensor.comparison import where
from pyrite.tensor.creation import arange, full, ones_like, tensor
from pyrite.tensor.joining import concat, stack
from pyrite.tensor.random import normal, uniform
from pyrite.tensor.stream import random_stream
from pyrite.tensor.tensor import Tensor
from pyrite.testing.random_graphs import KINDS, Drawn, RandomGraph, Value
from pyrite.types import dtype

Draw = Callable[[RandomGraph], "Drawn | None"]

#: What a graph is drawn of: a class of ops stands as often as it is drawn.
STEPS: list[Draw] = []


def drawn(times: int) -> Callable[[Draw], Draw]:
    """Have a class of ops drawn so many times as often as one that stands once."""

    def declare(draw: Draw) -> Draw:
        STEPS.extend([draw] * times)
        return draw

    return declare


def is_float(value: Value) -> bool:
    """Whether a value is of floats."""
    return bool(value.tensor.dtype.is_float)


def is_number(value: Value) -> bool:
    """Whether a value is of numbers."""
    return not value.tensor.dtype.is_bool


def is_sure(value: Value) -> bool:
    """Whether all kernels of a device give the same bits."""
    return value.is_exact


def _axes(g: RandomGraph, ndim: int) -> tuple[int, ...] | int | None:
    """Return axes as a user gives them."""
    if not ndim or g.random.random() < 0.2:
        return None
    axes = g.random.sample(range(ndim), g.random.randint(1, ndim))
    if len(axes) == 1 and g.random.random() < 0.5:
        return axes[0] - (ndim if g.random.random() < 0.5 else 0)
    return tuple(axes)


def _step(
    g: RandomGraph, text: str, compute: Callable[..., Any], *operands: int, rounds: str = "no",
    is_discontinuous: bool = False,
) -> Drawn:  # fmt: skip
    apart = g.random.random() < 0.03
    return Drawn(text, compute, operands, rounds, is_discontinuous, apart)


# ---- elementwise ----

UNARY = (
    "exp", "tanh", "sigmoid", "gelu", "silu", "relu", "abs", "square", "sin", "erf", "softplus",
    "elu", "expm1", "negative", "mish", "hard_swish", "reciprocal", "rsqrt", "log1p", "sqrt",
    "log_sigmoid", "atan", "cos", "softsign", "sinc",
)  # fmt: skip
STEPPED = ("floor", "ceil", "round", "sign", "trunc", "isnan", "isfinite", "signbit")


@drawn(8)
def unary(g: RandomGraph) -> Drawn | None:
    """An op of one float."""
    x = g.pick(is_float)
    name = g.random.choice(UNARY)
    return None if x is None else _step(g, name, lambda x: getattr(x, name)(), x)


@drawn(2)
def stepped(g: RandomGraph) -> Drawn | None:
    """An op of one float that jumps."""
    x = g.pick(lambda v: is_float(v) and is_sure(v))
    name = g.random.choice(STEPPED)
    if x is None:
        return None
    return _step(g, name, lambda x: getattr(x, name)(), x, is_discontinuous=True)


BINARY = ("add", "subtract", "multiply", "maximum", "minimum")


def _meeting(g: RandomGraph, accepts: Callable[[Value], bool]) -> tuple[int, int] | None:
    x = g.pick(accepts)
    if x is None:
        return None
    shape = g.type_of(x).shape

    def broadcasts(value: Value) -> bool:
        pairs = zip(reversed(shape), reversed(value.tensor.shape), strict=False)
        size = math.prod(shape) * math.prod(value.tensor.shape)
        return accepts(value) and all(a == b or 1 in (a, b) for a, b in pairs) and size < 10**7

    y = g.pick(broadcasts)
    return None if y is None else (x, y)


@drawn(10)
def binary(g: RandomGraph) -> Drawn | None:
    """An op of two, of any dtypes that meet."""
    found = _meeting(g, is_number)
    name = g.random.choice(BINARY)
    if found is None:
        return None
    both = [g.type_of(v).dtype for v in found]
    if both[0].is_float and both[1].is_float and g.random.random() < 0.2:
        return _step(g, "divide", lambda x, y: x / (y.abs() + 1), *found)
    try:
        return _step(g, name, lambda x, y: getattr(x, name)(y), *found)
    except DTypeError:
        return None


@drawn(6)
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
    return _step(g, text, compute, x)


@drawn(4)
def comparison(g: RandomGraph) -> Drawn | None:
    """A mask."""
    found = _meeting(g, lambda v: is_sure(v) and is_number(v))
    name = g.random.choice(["greater", "less_equal", "equal", "not_equal"])
    if found is None:
        return None
    if g.random.random() < 0.4:
        return _step(g, f"{name} 1", lambda x: getattr(x, name)(1), found[0], is_discontinuous=True)
    return _step(g, name, lambda x, y: getattr(x, name)(y), *found, is_discontinuous=True)


@drawn(4)
def choice(g: RandomGraph) -> Drawn | None:
    """One of two, by a mask."""
    found = _meeting(g, is_number)
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
        return _step(g, "where 0", lambda m, x: where(m, x, 0), mask, found[0])
    return _step(g, "where", where, mask, *found)


@drawn(5)
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
        return _step(g, text, lambda x: x.nan_to_num().astype(name), x, is_discontinuous=True)
    return _step(g, f"astype {name}", lambda x: x.astype(name), x)


@drawn(1)
def logic(g: RandomGraph) -> Drawn | None:
    """An op of masks, or of bits."""
    found = _meeting(g, lambda v: not is_float(v))
    if found is None or len({g.type_of(v).dtype for v in found}) > 1:
        return None
    op = g.random.choice(["and", "or", "xor"])
    computes = {"and": lambda x, y: x & y, "or": lambda x, y: x | y, "xor": lambda x, y: x ^ y}
    return _step(g, op, computes[op], *found)


# ---- folds and composites ----


@drawn(8)
def fold(g: RandomGraph) -> Drawn | None:
    """A reduction over any axes."""
    of_floats = ("mean", "var", "std", "logsumexp", "vector_norm")
    name = g.random.choice(["sum", "sum", "max", "min", "prod", *of_floats])
    needs_float = name in of_floats
    x = g.pick(is_float if needs_float else is_number)
    if x is None:
        return None
    type = g.type_of(x)
    axis, keepdims = _axes(g, type.ndim), g.random.random() < 0.5
    if not type.size and name not in ("sum", "prod"):
        return None
    if name in ("var", "std") and not is_sure(g.values[x]):
        name = "mean"
    rounds = {"sum": "sums", "max": "no", "min": "no"}.get(name, "always")
    return _step(
        g, f"{name}({axis}, {keepdims})",
        lambda x: getattr(x, name)(axis=axis, keepdims=keepdims), x, rounds=rounds,
    )  # fmt: skip


@drawn(2)
def position(g: RandomGraph) -> Drawn | None:
    """The place of an extremum, or whether any or all are true, or how many."""
    x = g.pick(is_sure)
    if x is None:
        return None
    type = g.type_of(x)
    keepdims = g.random.random() < 0.5
    name = g.random.choice(["argmax", "argmin", "any", "all", "count_nonzero"])
    if name.startswith("arg"):
        if not type.size or type.dtype.is_bool:
            return None
        axis: Any = g.random.randrange(type.ndim) if type.ndim and g.random.random() < 0.8 else None
    else:
        axis = _axes(g, type.ndim)
    return _step(
        g, f"{name}({axis}, {keepdims})", lambda x: getattr(x, name)(axis, keepdims=keepdims), x,
        is_discontinuous=True,
    )  # fmt: skip


@drawn(7)
def rows(g: RandomGraph) -> Drawn | None:
    """A composite that goes over rows."""
    x = g.pick(lambda v: is_float(v) and v.tensor.ndim > 0 and v.tensor.size > 0)
    if x is None:
        return None
    axis = g.random.randrange(g.type_of(x).ndim)
    name = g.random.choice(
        ["softmax", "log_softmax", "layer_norm", "rms_norm", "centred", "scaled"]
    )
    if name == "layer_norm" and not is_sure(g.values[x]):
        name = "softmax"
    computes: dict[str, Callable[[Tensor], Tensor]] = {
        "centred": lambda x: x - x.mean(axis, keepdims=True),
        "scaled": lambda x: x / (1 + (x * x).sum(axis, keepdims=True)),
    }
    compute = computes.get(name) or (lambda x: getattr(x, name)(axis=axis))
    return _step(g, f"{name}({axis})", compute, x, rounds="always")


@drawn(1)
def loss(g: RandomGraph) -> Drawn | None:
    """A loss, or a norm over channels."""
    x = g.pick(lambda v: is_float(v) and v.tensor.ndim == 2 and v.tensor.size > 0)
    if x is None or g.type_of(x).shape[0] < 2:
        return None
    rows, classes = g.type_of(x).shape
    if g.random.random() < 0.5 and is_sure(g.values[x]):
        return _step(g, "batch_norm", lambda x: x.batch_norm(), x, rounds="always")
    labels = g.numbers.integers(0, classes, rows)

    def compute(x: Tensor) -> Tensor:
        return x.cross_entropy_with_logits(tensor(labels, device=x.device), axis=-1)

    return _step(g, "cross entropy", compute, x, rounds="always")


@drawn(2)
def scan(g: RandomGraph) -> Drawn | None:
    """Running sums and extrema, and what is sorted."""
    x = g.pick(lambda v: is_number(v) and v.tensor.ndim > 0 and v.tensor.size > 0)
    if x is None:
        return None
    axis = g.random.randrange(g.type_of(x).ndim)
    name = g.random.choice(["cumulative_sum", "cummax", "sort", "argsort", "topk", "median"])
    if name == "cumulative_sum":
        return _step(g, f"{name}({axis})", lambda x: x.cumulative_sum(axis), x, rounds="sums")
    if name == "topk":
        k = min(2, g.type_of(x).shape[axis])
        if not is_sure(g.values[x]):
            return None
        return _step(g, f"topk({k}, {axis})", lambda x: x.topk(k, axis), x, is_discontinuous=True)
    if name == "median" and not is_float(g.values[x]):
        return None
    if name == "argsort" and not is_sure(g.values[x]):
        return None
    return _step(
        g, f"{name}({axis})", lambda x: getattr(x, name)(axis), x,
        is_discontinuous=name == "argsort",
    )  # fmt: skip


# ---- products ----


@drawn(4)
def product(g: RandomGraph) -> Drawn | None:
    """A product of matrices, with itself turned or with a weight made on the spot."""
    x = g.pick(lambda v: is_float(v) and v.tensor.ndim >= 2)
    if x is None:
        return None
    type = g.type_of(x)
    if g.random.random() < 0.4 and type.shape[-2] < 300:
        return _step(g, "x @ x.mT", lambda x: x @ x.mT, x, rounds="sums")
    columns = g.random.choice([1, 3, 8])
    weight = g.numbers.integers(-1, 2, (type.shape[-1], columns)).astype(type.dtype.numpy)
    bias = g.random.random() < 0.5

    def compute(x: Tensor) -> Tensor:
        w = tensor(weight, device=x.device)
        return (x @ w + 1).relu() if bias else x @ w

    return _step(g, "x @ w", compute, x, rounds="sums")


@drawn(2)
def convolution(g: RandomGraph) -> Drawn | None:
    """A convolution, with a bias and an activation perhaps."""
    x = g.pick(lambda v: v.tensor.dtype.name in ("float32", "float64") and v.tensor.ndim == 3
               and v.tensor.size > 0 and v.tensor.shape[-1] >= 3)  # fmt: skip
    if x is None:
        return None
    type = g.type_of(x)
    weight = g.numbers.integers(-1, 2, (2, type.shape[1], 3)).astype(type.dtype.numpy)

    def compute(x: Tensor) -> Tensor:
        return x.conv1d(tensor(weight, device=x.device), padding=1)

    return _step(g, "conv1d", compute, x, rounds="sums")


# ---- views and moves ----


@drawn(10)
def view(g: RandomGraph) -> Drawn | None:
    """The same elements elsewhere."""
    x = g.pick()
    if x is None:
        return None
    shape = g.type_of(x).shape
    return g.random.choice(VIEWS)(g, x, shape)


def _reshape(g: RandomGraph, x: int, shape: tuple[int, ...]) -> Drawn:
    size = math.prod(shape)
    divisors = [n for n in range(1, min(size, 40) + 1) if size % n == 0] or [1]
    n = g.random.choice(divisors)
    first = shape[0] if shape else 1
    forms = [(n, size // n), (size // n, n), (size,), (1, *shape), (first, size // max(first, 1))]
    to = g.random.choice(forms) if size else (*shape, 1)
    return _step(g, f"reshape {to}", lambda x: x.reshape(to), x)


def _permute(g: RandomGraph, x: int, shape: tuple[int, ...]) -> Drawn:
    axes = tuple(g.random.sample(range(len(shape)), len(shape)))
    return _step(g, f"permute {axes}", lambda x: x.permute(axes), x)


def _slice(g: RandomGraph, x: int, shape: tuple[int, ...]) -> Drawn:
    index: list[Any] = []
    for n in shape:
        kind = g.random.random()
        if kind < 0.4 or n < 2:
            index.append(slice(None))
        elif kind < 0.6:
            index.append(slice(g.random.randrange(n), None, g.random.choice([1, 2, 3])))
        elif kind < 0.8:
            index.append(slice(None, None, -g.random.choice([1, 2])))
        else:
            index.append(g.random.randrange(-n, n))
    item = tuple(index)
    return _step(g, f"x[{item}]", lambda x: x[item], x)


def _flip(g: RandomGraph, x: int, shape: tuple[int, ...]) -> Drawn:
    axes = g.random.sample(range(len(shape)), g.random.randint(0, len(shape)))
    return _step(g, f"flip {axes}", lambda x: x.flip(tuple(axes)), x)


def _expand(g: RandomGraph, x: int, shape: tuple[int, ...]) -> Drawn:
    n = g.random.choice([1, 2, 3])
    if math.prod(shape) > 5000:
        n = 1
    to = (n, *(3 if a == 1 and math.prod(shape) < 3000 else a for a in shape))
    return _step(g, f"expand {to}", lambda x: x.broadcast_to(to), x)


def _window(g: RandomGraph, x: int, shape: tuple[int, ...]) -> Drawn:
    found = [a for a, n in enumerate(shape) if 3 <= n < 300]
    if not found:
        return _permute(g, x, shape)
    axis, step = g.random.choice(found), g.random.choice([1, 2])
    text = f"sliding_window({axis}, 3, {step})"
    return _step(g, text, lambda x: x.sliding_window(axis, 3, step), x)


def _one_more(g: RandomGraph, x: int, shape: tuple[int, ...]) -> Drawn:
    axis = g.random.randint(0, len(shape))
    return _step(g, f"expand_dims {axis}", lambda x: x.expand_dims(axis), x)


def _clone(g: RandomGraph, x: int, shape: tuple[int, ...]) -> Drawn:
    return _step(g, "clone", lambda x: x.clone(), x)


VIEWS = (
    _reshape,
    _reshape,
    _permute,
    _permute,
    _slice,
    _slice,
    _flip,
    _expand,
    _window,
    _one_more,
    _clone,
)


@drawn(4)
def move(g: RandomGraph) -> Drawn | None:
    """Elements beside others, and around them."""
    x = g.pick(lambda v: v.tensor.ndim > 0)
    if x is None:
        return None
    type = g.type_of(x)
    axis = g.random.randrange(type.ndim)
    name = g.random.choice(["concat", "stack", "pad", "roll", "tril", "repeat"])
    if name in ("concat", "stack"):
        y = g.pick(lambda v: v.tensor._type == type)
        assert y is not None
        if name == "stack":
            return _step(g, f"stack {axis}", lambda x, y: stack([x, y], axis), x, y)
        return _step(g, f"concat {axis}", lambda x, y: concat([x, y], axis), x, y)
    if name == "pad":
        return _step(g, "pad", lambda x: x.pad([(1, 2)], value=1), x)
    if name == "roll":
        return _step(g, f"roll {axis}", lambda x: x.roll(2, axis), x)
    if name == "tril" and type.ndim >= 2:
        return _step(g, "tril", lambda x: x.tril(), x)
    return _step(g, f"repeat {axis}", lambda x: x.repeat(2, axis), x)


@drawn(4)
def indexed(g: RandomGraph) -> Drawn | None:
    """Elements by indices: read and written."""
    x = g.pick(lambda v: v.tensor.ndim > 0 and v.tensor.size > 0 and is_number(v))
    if x is None:
        return None
    type = g.type_of(x)
    axis = g.random.randrange(type.ndim)
    n = type.shape[axis]
    name = g.random.choice(["take", "take_along_axis", "scatter", "at", "mask"])
    if name == "take":
        indices = g.numbers.integers(0, n, g.random.choice([(3,), (2, 2), ()])).astype("int32")

        def take(x: Tensor) -> Tensor:
            return x.take(tensor(indices, device=x.device) + 0, axis)

        return _step(g, f"take {axis}", take, x)
    shape = (*type.shape[:axis], 2, *type.shape[axis + 1 :])
    along = g.numbers.integers(0, n, shape).astype("int32")
    if name == "take_along_axis":

        def along_axis(x: Tensor) -> Tensor:
            return x.take_along_axis(tensor(along, device=x.device), axis)

        return _step(g, f"take_along_axis {axis}", along_axis, x)
    if name == "at":
        return _step(g, "at[0].set(1)", lambda x: x.at[0].set(1), x)
    if name == "mask":

        def masked(x: Tensor) -> Tensor:
            return where(arange(x.shape[-1], device=x.device) < 2, x, 0)

        return _step(g, "masked", masked, x)
    reduction: Any = g.random.choice(["assign", "add", "max"])
    updates = g.numbers.integers(-2, 3, shape).astype("int8")

    def compute(x: Tensor) -> Tensor:
        made = tensor(updates, device=x.device).astype(x.dtype)
        return x.scatter(axis, tensor(along, device=x.device), made, reduction=reduction)

    rounds = "sums" if reduction == "add" else "no"
    return _step(g, f"scatter {axis} {reduction}", compute, x, rounds=rounds)


@drawn(1)
def created(g: RandomGraph) -> Drawn | None:
    """Numbers made on the device, that meet a value."""
    x = g.pick(lambda v: is_number(v) and v.tensor.ndim > 0)
    if x is None:
        return None
    number = g.random.choice([1, 2])
    made = g.random.choice(["full", "arange", "ones_like"])
    computes: dict[str, Callable[[Tensor], Tensor]] = {
        "full": lambda x: x + full(x.shape, number, dtype=x.dtype, device=x.device),
        "arange": lambda x: x * arange(x.shape[-1], device=x.device).astype(x.dtype).minimum(3),
        "ones_like": lambda x: x + ones_like(x),
    }
    return _step(g, made, computes[made], x)


@drawn(2)
def random_draw(g: RandomGraph) -> Drawn | None:
    """Random numbers that meet a value, of a stream of their own."""
    x = g.pick(lambda v: v.tensor.dtype.name == "float32")
    if x is None:
        return None
    seed = g.random.randrange(5)
    name, draws = g.random.choice([("uniform", uniform), ("normal", normal)])

    def compute(x: Tensor) -> Tensor:
        with random_stream(seed):
            made = draws(x.shape, device=x.device)
            return x + made

    return _step(g, name, compute, x)


# ---- gradients ----

SMOOTH: tuple[tuple[str, Callable[[Tensor, Tensor], Tensor]], ...] = (
    ("tanh", lambda x, _: x.tanh()),
    ("gelu", lambda x, _: x.gelu()),
    ("softmax", lambda x, _: x.softmax(-1)),
    ("x * y", lambda x, y: x * y),
    ("x + 2 y", lambda x, y: x + 2 * y),
    ("centred", lambda x, _: x - x.mean(-1, keepdims=True)),
    ("x sigmoid(y)", lambda x, y: x * y.sigmoid()),
    ("rms_norm", lambda x, _: x.rms_norm()),
    ("flip", lambda x, _: x.flip(-1)),
    ("x @ x.mT @ x", lambda x, _: x @ (x.mT @ x) / 8 if x.ndim >= 2 else x),
    ("cumulative_sum", lambda x, _: x.cumulative_sum(-1) / 4),
)


@drawn(3)
def gradient(g: RandomGraph) -> Drawn | None:
    """A loss and the gradients of a chain of ops that are smooth."""

    def accepts(v: Value) -> bool:
        return is_float(v) and 0 < v.tensor.size < 3000 and v.tensor.ndim > 0

    found = _meeting(g, accepts)
    if found is None:
        return None
    chain = [g.random.choice(SMOOTH) for _ in range(g.random.randint(1, 4))]

    def loss(x: Tensor, y: Tensor) -> Tensor:
        for _, link in chain:
            x = link(x, y)
        return (x * x).mean()

    def compute(x: Tensor, y: Tensor) -> list[Tensor]:
        value, gradients = value_and_grad(loss, argnums=(0, 1))(x, y)
        return [value, *gradients]

    text = f"gradient of {', '.join(name for name, _ in chain)}"
    return _step(g, text, compute, *found, rounds="always")
