"""What Adam and its kin share: running means of the gradient and of its square."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from pyrite.optim.optimizer import Optimizer
from pyrite.optim.schedule.rate import Rate
from pyrite.optim.settings import fraction, non_negative
from pyrite.optim.state import RuleState
from pyrite.optim.values import decayed
from pyrite.tensor.creation import zeros_like
from pyrite.tensor.tensor import Tensor


@dataclass(frozen=True, eq=False, repr=False)
class Moments(Optimizer):
    """A rule with two moments: m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g².

    Both start from 0; divided by 1 - beta ** step they have the mean that they would have without.
    """

    learning_rate: Rate = 1e-3
    _: KW_ONLY
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        fraction(self, "beta1", "beta2")
        non_negative(self, "eps", "weight_decay")

    def init(self, parameter: Tensor) -> RuleState:
        """Return moments of 0."""
        return {"first_moment": zeros_like(parameter), "second_moment": zeros_like(parameter)}

    def _moments(self, gradient: Tensor, state: RuleState) -> RuleState:
        """Return the moments after a gradient."""
        return {
            "first_moment": state["first_moment"].lerp(gradient, 1 - self.beta1),
            "second_moment": state["second_moment"].lerp(gradient.square(), 1 - self.beta2),
        }


@dataclass(frozen=True, eq=False, repr=False)
class DecayedMoments(Moments):
    """A rule with two moments whose weight decay is Adam's or, decoupled, AdamW's."""

    _: KW_ONLY
    decoupled_weight_decay: bool = False

    def _decayed(
        self, gradient: Tensor, parameter: Tensor, learning_rate: float
    ) -> tuple[Tensor, Tensor]:
        """Return gradient and parameter, one of which has the decay in it."""
        if self.decoupled_weight_decay:
            return gradient, parameter * (1 - learning_rate * self.weight_decay)
        return decayed(gradient, parameter, self.weight_decay), parameter
