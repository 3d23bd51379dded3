"""Steps that are programs at once, of parameters of several sizes and broadcast gradients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, nn, optim

RULES: dict[str, Callable[[], optim.Optimizer]] = {
    **{
        name: getattr(optim, name)
        for name in ("Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adan", "LAMB", "Lion")
    },
    **{name: getattr(optim, name) for name in ("NAdam", "RAdam", "RMSprop", "Rprop")},
    "Adam amsgrad": lambda: optim.Adam(1e-2, amsgrad=True),
    "RMSprop centred": lambda: optim.RMSprop(1e-2, centered=True),
    "RMSprop centred, momentum": lambda: optim.RMSprop(1e-2, centered=True, momentum=0.5),
    "SGD": lambda: optim.SGD(1e-2),
    "SGD momentum": lambda: optim.SGD(1e-2, momentum=0.9, nesterov=True),
}
SHAPES = [((8, 33), (64, 64)), ((8, 1, 33), (33, 17, 8)), ((8, 1, 33), (8,), (33, 17, 8))]


class Parameters(nn.Module):
    """One of each shape."""

    def __init__(self, shapes: tuple[tuple[int, ...], ...], device: str | pyrite.Device) -> None:
        random = np.random.default_rng(1)
        self.all = [
            pyrite.Parameter(pyrite.tensor(random.normal(size=s).astype("f"), device=device))
            for s in shapes
        ]


def stepped(rule: str, shapes: tuple[tuple[int, ...], ...], device: pyrite.Device) -> list[Tensor]:
    """Return parameters after three steps, of gradients that are the same in each row."""
    random = np.random.default_rng(2)
    model, optimizer = Parameters(shapes, device), RULES[rule]()

    def loss_of(model: Parameters, factors: list[Tensor]) -> Tensor:
        terms = [(p * p * f).sum() for p, f in zip(model.all, factors, strict=True)]
        return sum(terms[1:], start=terms[0])

    for _ in range(3):
        factors = [
            pyrite.tensor(random.uniform(0.5, 2.0, (1, s[-1])).astype("f"), device=device)
            if len(s) > 1
            else pyrite.tensor(random.uniform(0.5, 2.0, s).astype("f"), device=device)
            for s in shapes
        ]
        loss, gradients = pyrite.value_and_grad(loss_of)(model, factors)
        model = optimizer.step(model, gradients)
        loss.item()
    return [*model.parameters()]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("rule", RULES)
def test_a_step_that_is_a_program_at_once_is_that_of_numpy(
    rule: str, shapes: tuple[tuple[int, ...], ...]
) -> None:
    got = stepped(rule, shapes, pyrite.fusion("cpu", after=0))
    want = stepped(rule, shapes, pyrite.device("numpy"))

    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=2e-5, atol=2e-6)
