"""NAdam: Adam with Nesterov's look ahead."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass

from pyrite.optim.optimizer import Optimizer
from pyrite.optim.schedule.rate import Rate
from pyrite.optim.settings import fraction, non_negative
from pyrite.optim.state import RuleState
from pyrite.optim.values import decayed
from pyrite.tensor.creation import full, zeros_like
from pyrite.tensor.tensor import Tensor


@dataclass(frozen=True, eq=False, repr=False)
class NAdam(Optimizer):
    """NAdam: Adam whose first moment is that of the next step.

    With mu_t = beta1 (1 - 0.96 ** (t momentum_decay) / 2), the moment is
    mu_{t+1} m / (1 - mu_1 ... mu_{t+1}) + (1 - mu_t) g / (1 - mu_1 ... mu_t).
    ``decoupled_weight_decay`` is AdamW's.  Defaults and definition as PyTorch's.

    Source: Dozat 2016, "Incorporating Nesterov Momentum into Adam", algorithm 2.
    """

    learning_rate: Rate = 2e-3
    _: KW_ONLY
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    momentum_decay: float = 4e-3
    decoupled_weight_decay: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        fraction(self, "beta1", "beta2")
        non_negative(self, "eps", "weight_decay", "momentum_decay")

    def init(self, parameter: Tensor) -> RuleState:
        """Return moments of 0, and a product of no factors."""
        one = full((), 1.0, dtype=parameter.dtype, device=parameter.device)
        return {
            "first_moment": zeros_like(parameter),
            "second_moment": zeros_like(parameter),
            "momentum": one,
        }

    def update(
        self,
        gradient: Tensor,
        parameter: Tensor,
        state: RuleState,
        *,
        learning_rate: float,
        step: int,
    ) -> tuple[Tensor, RuleState]:
        """Return the parameter, the moments, and the product of all mu so far."""
        if self.decoupled_weight_decay:
            parameter = parameter * (1 - learning_rate * self.weight_decay)
        else:
            gradient = decayed(gradient, parameter, self.weight_decay)
        mu, following = self._mu(step), self._mu(step + 1)
        product = state["momentum"] * mu
        first = state["first_moment"].lerp(gradient, 1 - self.beta1)
        second = state["second_moment"].lerp(gradient.square(), 1 - self.beta2)
        ahead = first * (following / (1 - product * following))
        now = gradient * ((1 - mu) / (1 - product))
        scale = (second * (1 / (1 - self.beta2**step))).sqrt() + self.eps
        stepped = parameter - learning_rate * (ahead + now) / scale
        return stepped, {"first_moment": first, "second_moment": second, "momentum": product}

    def _mu(self, step: int) -> float:
        return self.beta1 * (1 - 0.5 * math.pow(0.96, step * self.momentum_decay))
