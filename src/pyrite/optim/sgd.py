"""Stochastic gradient descent."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from pyrite.op import composite, sample
from pyrite.optim.columns import JointCall
from pyrite.optim.joint import Joint
from pyrite.optim.schedule.rate import Rate
from pyrite.optim.settings import fraction, non_negative, require
from pyrite.optim.state import RuleState
from pyrite.optim.values import decayed
from pyrite.tensor.creation import zeros_like
from pyrite.tensor.tensor import Tensor


@composite(
    samples=(
        sample((2, 3), (2, 3), 0.1, weight_decay=0.0),
        sample((3,), (3,), 0.1, weight_decay=0.5),
    )
)
def sgd_update(
    parameter: Tensor, gradient: Tensor, learning_rate: float, /, *, weight_decay: float
) -> Tensor:
    """The parameter after a step of plain gradient descent: (...), (...) -> (...)."""
    return parameter - learning_rate * decayed(gradient, parameter, weight_decay)


@composite(
    samples=(
        sample((2, 3), (2, 3), (2, 3), 0.1, 1.0, momentum=0.9, nesterov=False, weight_decay=0.0),
        sample((3,), (3,), (3,), 0.1, 0.8, momentum=0.9, nesterov=True, weight_decay=0.5),
    )
)
def momentum_update(
    parameter: Tensor,
    gradient: Tensor,
    velocity: Tensor,
    learning_rate: float,
    gain: float,
    /,
    *,
    momentum: float,
    nesterov: bool,
    weight_decay: float,
) -> tuple[Tensor, ...]:
    """Parameter and velocity after a step with momentum: three of (...) -> two of (...)."""
    gradient = decayed(gradient, parameter, weight_decay)
    velocity = momentum * velocity + gain * gradient
    direction = gradient + momentum * velocity if nesterov else velocity
    return parameter - learning_rate * direction, velocity


@dataclass(frozen=True, eq=False, repr=False)
class SGD(Joint):
    """Gradient descent, with momentum, dampening, Nesterov's variant and weight decay.

    v = momentum v + (1 - dampening) g, p = p - learning_rate v; the first v is g.  With Nesterov,
    p = p - learning_rate (g + momentum v).  Defaults and definition as PyTorch's.

    Source: Sutskever et al. 2013, ICML, with the rate outside the velocity, as in PyTorch.
    """

    learning_rate: Rate = 1e-3
    _: KW_ONLY
    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        fraction(self, "momentum")
        non_negative(self, "dampening", "weight_decay")
        if self.nesterov:
            fits = self.momentum > 0 and self.dampening == 0
            got = f"momentum={self.momentum}, dampening={self.dampening}"
            require(self, "momentum > 0 and dampening == 0 for nesterov", got, fits)

    def init(self, parameter: Tensor) -> RuleState:
        """Return a velocity of 0, or nothing without momentum."""
        return {"velocity": zeros_like(parameter)} if self.momentum else {}

    def joint_call(self, learning_rate: float, step: int) -> JointCall:
        """Return the op, with momentum or without."""
        attrs: dict[str, Any] = {"weight_decay": self.weight_decay}
        if not self.momentum:
            return JointCall(sgd_update, ("parameter", "gradient", learning_rate), attrs)
        inputs = ("parameter", "gradient", "velocity", learning_rate, self._gain(step))
        attrs |= {"momentum": self.momentum, "nesterov": self.nesterov}
        return JointCall(momentum_update, inputs, attrs)

    def _gain(self, step: int) -> float:
        return 1.0 if step == 1 else 1.0 - self.dampening
