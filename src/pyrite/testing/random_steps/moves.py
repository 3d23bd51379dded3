"""The steps of random graphs that move elements: beside others, around them, by indices."""

from __future__ import annotations

from typing import Any

from pyrite.tensor.comparison import where
from pyrite.tensor.creation import arange, tensor
from pyrite.tensor.joining import concat, stack
from pyrite.tensor.tensor import Tensor
from pyrite.testing.random_graphs import Drawn, RandomGraph, Rounds
from pyrite.testing.random_steps.step import is_number, often, step_of


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
            return step_of(g, f"stack {axis}", lambda x, y: stack([x, y], axis), x, y)
        return step_of(g, f"concat {axis}", lambda x, y: concat([x, y], axis), x, y)
    if name == "pad":
        return step_of(g, "pad", lambda x: x.pad([(1, 2)], value=1), x)
    if name == "roll":
        return step_of(g, f"roll {axis}", lambda x: x.roll(2, axis), x)
    if name == "tril" and type.ndim >= 2:
        return step_of(g, "tril", lambda x: x.tril(), x)
    return step_of(g, f"repeat {axis}", lambda x: x.repeat(2, axis), x)


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

        return step_of(g, f"take {axis}", take, x)
    shape = (*type.shape[:axis], 2, *type.shape[axis + 1 :])
    along = g.numbers.integers(0, n, shape).astype("int32")
    if name == "take_along_axis":

        def along_axis(x: Tensor) -> Tensor:
            return x.take_along_axis(tensor(along, device=x.device), axis)

        return step_of(g, f"take_along_axis {axis}", along_axis, x)
    if name == "at":
        return step_of(g, "at[0].set(1)", lambda x: x.at[0].set(1), x)
    if name == "mask":

        def masked(x: Tensor) -> Tensor:
            return where(arange(x.shape[-1], device=x.device) < 2, x, 0)

        return step_of(g, "masked", masked, x)
    reduction: Any = g.random.choice(["assign", "add", "max"])
    updates = g.numbers.integers(-2, 3, shape).astype("int8")

    def compute(x: Tensor) -> Tensor:
        made = tensor(updates, device=x.device).astype(x.dtype)
        return x.scatter(axis, tensor(along, device=x.device), made, reduction=reduction)

    rounds: Rounds = "sums" if reduction == "add" else "no"
    return step_of(g, f"scatter {axis} {reduction}", compute, x, rounds=rounds)


STEPS = often({move: 4, indexed: 4})
