"""NAdam: Adam with Nesterov's look ahead."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from pyrite.optim.moments import DecayedMoments
from pyrite.optim.schedule.rate import Rate
from pyrite.optim.settings import non_negative
from pyrite.optim.state import RuleState
from pyrite.tensor.creation import full
from pyrite.tensor.tensor import Tensor


@dataclass(frozen=True, eq=False, repr=False)
class NAdam(DecayedMoments):
    """NAdam: Adam whose first moment is that of the next step.

    With mu_t = beta1 (1 - 0.96 ** (t momentum_decay) / 2), the moment is
    mu_{t+1} m / (1 - mu_1 ... mu_{t+1}) + (1 - mu_t) g / (1 - mu_1 ... mu_t).
    ``decoupled_weight_decay`` is AdamW's.  Defaults and definition as PyTorch's.

    Source: Dozat 2016, "Incorporating Nesterov Momentum into Adam", algorithm 2.
    """

    learning_rate: Rate = 2e-3
    _: KW_ONLY
    momentum_decay: float = 4e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        non_negative(self, "momentum_decay")

    def init(self, parameter: Tensor) -> RuleState:
        """Return moments of 0, and a product of no factors."""
        one = full((), 1.0, dtype=parameter.dtype, device=parameter.device)
        return {**super().init(parameter), "momentum": one}

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
        gradient, parameter = self._decayed(gradient, parameter, learning_rate)
        mu, following = self._mu(step), self._mu(step + 1)
        product = state["momentum"] * mu
        moments = self._moments(gradient, state)
        ahead = moments["first_moment"] * (following / (1 - product * following))
        now = gradient * ((1 - mu) / (1 - product))
        square = moments["second_moment"] * (1 / (1 - self.beta2**step))
        stepped = parameter - learning_rate * (ahead + now) / (square.sqrt() + self.eps)
        return stepped, {**moments, "momentum": product}

    def _mu(self, step: int) -> float:
        decay: float = 0.96 ** (step * self.momentum_decay)
        return self.beta1 * (1 - 0.5 * decay)
