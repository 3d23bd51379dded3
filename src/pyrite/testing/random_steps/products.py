"""The products of random graphs, with small weights that are made on the spot."""

from __future__ import annotations

from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.testing.random_graphs import Drawn, RandomGraph
from pyrite.testing.random_steps.step import is_float, often, step_of


def product(g: RandomGraph) -> Drawn | None:
    """A product of matrices, with itself turned or with a weight made on the spot."""
    x = g.pick(lambda v: is_float(v) and v.tensor.ndim >= 2)
    if x is None:
        return None
    type = g.type_of(x)
    if g.random.random() < 0.4 and type.shape[-2] < 300:
        return step_of(g, "x @ x.mT", lambda x: x @ x.mT, x, rounds="sums")
    columns = g.random.choice([1, 3, 8])
    weight = g.numbers.integers(-1, 2, (type.shape[-1], columns)).astype(type.dtype.numpy)
    bias = g.random.random() < 0.5

    def compute(x: Tensor) -> Tensor:
        w = tensor(weight, device=x.device)
        return (x @ w + 1).relu() if bias else x @ w

    return step_of(g, "x @ w", compute, x, rounds="sums")


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

    return step_of(g, "conv1d", compute, x, rounds="sums")


STEPS = often({product: 4, convolution: 2})
