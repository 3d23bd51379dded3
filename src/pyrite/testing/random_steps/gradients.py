"""The gradients of random graphs: of a loss of a chain of smooth ops."""

from __future__ import annotations

from collections.abc import Callable

from pyrite.autodiff import value_and_grad
from pyrite.tensor.tensor import Tensor
from pyrite.testing.random_graphs import Drawn, RandomGraph, Value
from pyrite.testing.random_steps.step import is_float, meeting, often, step_of

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


def gradient(g: RandomGraph) -> Drawn | None:
    """A loss and the gradients of a chain of ops that are smooth."""

    def accepts(v: Value) -> bool:
        return is_float(v) and 0 < v.tensor.size < 3000 and v.tensor.ndim > 0

    found = meeting(g, accepts)
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
    return step_of(g, text, compute, *found, rounds="always")


STEPS = often({gradient: 3})
