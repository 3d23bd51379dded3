"""Lion: steps of one size in the direction of a sign."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from pyrite.op import composite, distinct, sample
from pyrite.optim.columns import JointCall
from pyrite.optim.joint import Joint
from pyrite.optim.schedule.rate import Rate
from pyrite.optim.settings import fraction, non_negative
from pyrite.optim.state import RuleState
from pyrite.tensor.creation import zeros_like
from pyrite.tensor.tensor import Tensor

_BETAS = {"beta1": 0.9, "beta2": 0.99}


@composite(
    samples=(sample((2, 3), distinct((2, 3)), distinct((2, 3), 0.1, 1.0), 0.1, 0.01, **_BETAS),)
)
def lion_update(
    parameter: Tensor,
    gradient: Tensor,
    moment: Tensor,
    learning_rate: float,
    decay: float,
    /,
    *,
    beta1: float,
    beta2: float,
) -> tuple[Tensor, ...]:
    """Parameter and moment after a step of Lion: three of (...) -> two of (...).

    ``decay`` is learning_rate * weight_decay.
    """
    direction = moment.lerp(gradient, 1 - beta1).sign()
    updated = parameter * (1 - decay) - learning_rate * direction
    return updated, moment.lerp(gradient, 1 - beta2)


@dataclass(frozen=True, eq=False, repr=False)
class Lion(Joint):
    """Lion: p = p - learning_rate (sign(beta1 m + (1 - beta1) g) + weight_decay p).

    Then m = beta2 m + (1 - beta2) g.  One moment, half of Adam's memory; rates are 3 to 10 times
    smaller than Adam's.  Source: Chen et al. 2023, arXiv:2302.06675, algorithm 2.
    """

    learning_rate: Rate = 1e-4
    _: KW_ONLY
    beta1: float = 0.9
    beta2: float = 0.99
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        fraction(self, "beta1", "beta2")
        non_negative(self, "weight_decay")

    def init(self, parameter: Tensor) -> RuleState:
        """Return a moment of 0."""
        return {"moment": zeros_like(parameter)}

    def joint_call(self, learning_rate: float, step: int) -> JointCall:
        """Return Lion's op."""
        inputs = (
            "parameter",
            "gradient",
            "moment",
            learning_rate,
            learning_rate * self.weight_decay,
        )
        return JointCall(lion_update, inputs, {"beta1": self.beta1, "beta2": self.beta2})
