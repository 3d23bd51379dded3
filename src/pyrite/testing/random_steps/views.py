"""The views of random graphs: the same elements elsewhere."""

from __future__ import annotations

import math
from typing import Any

from pyrite.testing.random_graphs import Drawn, RandomGraph
from pyrite.testing.random_steps.step import often, step_of


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
    return step_of(g, f"reshape {to}", lambda x: x.reshape(to), x)


def _permute(g: RandomGraph, x: int, shape: tuple[int, ...]) -> Drawn:
    axes = tuple(g.random.sample(range(len(shape)), len(shape)))
    return step_of(g, f"permute {axes}", lambda x: x.permute(axes), x)


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
    return step_of(g, f"x[{item}]", lambda x: x[item], x)


def _flip(g: RandomGraph, x: int, shape: tuple[int, ...]) -> Drawn:
    axes = g.random.sample(range(len(shape)), g.random.randint(0, len(shape)))
    return step_of(g, f"flip {axes}", lambda x: x.flip(tuple(axes)), x)


def _expand(g: RandomGraph, x: int, shape: tuple[int, ...]) -> Drawn:
    n = g.random.choice([1, 2, 3])
    if math.prod(shape) > 5000:
        n = 1
    to = (n, *(3 if a == 1 and math.prod(shape) < 3000 else a for a in shape))
    return step_of(g, f"expand {to}", lambda x: x.broadcast_to(to), x)


def _window(g: RandomGraph, x: int, shape: tuple[int, ...]) -> Drawn:
    found = [a for a, n in enumerate(shape) if 3 <= n < 300]
    if not found:
        return _permute(g, x, shape)
    axis, step = g.random.choice(found), g.random.choice([1, 2])
    text = f"sliding_window({axis}, 3, {step})"
    return step_of(g, text, lambda x: x.sliding_window(axis, 3, step), x)


def _one_more(g: RandomGraph, x: int, shape: tuple[int, ...]) -> Drawn:
    axis = g.random.randint(0, len(shape))
    return step_of(g, f"expand_dims {axis}", lambda x: x.expand_dims(axis), x)


def _clone(g: RandomGraph, x: int, shape: tuple[int, ...]) -> Drawn:
    return step_of(g, "clone", lambda x: x.clone(), x)


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

STEPS = often({view: 10})
