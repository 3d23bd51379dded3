"""The steps of random graphs that go over rows: composites, losses, scans and sorts."""

from __future__ import annotations

from collections.abc import Callable

from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.testing.random_graphs import Drawn, RandomGraph
from pyrite.testing.random_steps.step import is_float, is_number, is_sure, often, step_of


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
    return step_of(g, f"{name}({axis})", compute, x, rounds="always")


def loss(g: RandomGraph) -> Drawn | None:
    """A loss, or a norm over channels."""
    x = g.pick(lambda v: is_float(v) and v.tensor.ndim == 2 and v.tensor.size > 0)
    if x is None or g.type_of(x).shape[0] < 2:
        return None
    rows, classes = g.type_of(x).shape
    if g.random.random() < 0.5 and is_sure(g.values[x]):
        return step_of(g, "batch_norm", lambda x: x.batch_norm(), x, rounds="always")
    labels = g.numbers.integers(0, classes, rows)

    def compute(x: Tensor) -> Tensor:
        return x.cross_entropy_with_logits(tensor(labels, device=x.device), axis=-1)

    return step_of(g, "cross entropy", compute, x, rounds="always")


def scan(g: RandomGraph) -> Drawn | None:
    """Running sums and extrema, and what is sorted."""
    x = g.pick(lambda v: is_number(v) and v.tensor.ndim > 0 and v.tensor.size > 0)
    if x is None:
        return None
    axis = g.random.randrange(g.type_of(x).ndim)
    name = g.random.choice(["cumulative_sum", "cummax", "sort", "argsort", "topk", "median"])
    if name == "cumulative_sum":
        return step_of(g, f"{name}({axis})", lambda x: x.cumulative_sum(axis), x, rounds="sums")
    if name == "topk":
        k = min(2, g.type_of(x).shape[axis])
        if not is_sure(g.values[x]):
            return None
        return step_of(g, f"topk({k}, {axis})", lambda x: x.topk(k, axis), x, is_discontinuous=True)
    if name == "median" and not is_float(g.values[x]):
        return None
    if name == "argsort" and not is_sure(g.values[x]):
        return None
    return step_of(
        g, f"{name}({axis})", lambda x: getattr(x, name)(axis), x,
        is_discontinuous=name == "argsort",
    )  # fmt: skip


STEPS = often({rows: 7, loss: 1, scan: 2})
