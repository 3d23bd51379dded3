"""The folds of random graphs: reductions over any axes, and the places of extrema."""

from __future__ import annotations

from typing import Any

from pyrite.testing.random_graphs import Drawn, RandomGraph, Rounds
from pyrite.testing.random_steps.step import axes_of, is_float, is_number, is_sure, often, step_of


def fold(g: RandomGraph) -> Drawn | None:
    """A reduction over any axes."""
    of_floats = ("mean", "var", "std", "logsumexp", "vector_norm")
    name = g.random.choice(["sum", "sum", "max", "min", "prod", *of_floats])
    needs_float = name in of_floats
    x = g.pick(is_float if needs_float else is_number)
    if x is None:
        return None
    type = g.type_of(x)
    axis, keepdims = axes_of(g, type.ndim), g.random.random() < 0.5
    if not type.size and name not in ("sum", "prod"):
        return None
    if name in ("var", "std") and not is_sure(g.values[x]):
        name = "mean"
    known: dict[str, Rounds] = {"sum": "sums", "max": "no", "min": "no"}
    return step_of(
        g, f"{name}({axis}, {keepdims})", lambda x: getattr(x, name)(axis=axis, keepdims=keepdims),
        x, rounds=known.get(name, "always"),
    )  # fmt: skip


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
        axis = axes_of(g, type.ndim)
    return step_of(
        g, f"{name}({axis}, {keepdims})", lambda x: getattr(x, name)(axis, keepdims=keepdims), x,
        is_discontinuous=True,
    )  # fmt: skip


STEPS = often({fold: 8, position: 2})
