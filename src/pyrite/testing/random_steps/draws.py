"""The steps of random graphs that make numbers: constant, counted and random ones."""

from __future__ import annotations

from collections.abc import Callable

from pyrite.tensor.creation import arange, full, ones_like
from pyrite.tensor.random import normal, uniform
from pyrite.tensor.stream import random_stream
from pyrite.tensor.tensor import Tensor
from pyrite.testing.random_graphs import Drawn, RandomGraph
from pyrite.testing.random_steps.step import is_number, often, step_of


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
    return step_of(g, made, computes[made], x)


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

    return step_of(g, name, compute, x)


STEPS = often({created: 1, random_draw: 2})
