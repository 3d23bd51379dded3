"""RAdam: Adam that waits until its second moment is worth something."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass

from pyrite.optim.optimizer import Optimizer
from pyrite.optim.schedule.rate import Rate
from pyrite.optim.settings import fraction, non_negative
from pyrite.optim.state import RuleState
from pyrite.optim.values import decayed
from pyrite.tensor.creation import zeros_like
from pyrite.tensor.tensor import Tensor


@dataclass(frozen=True, eq=False, repr=False)
class RAdam(Optimizer):
    """RAdam: Adam times a factor that grows to 1, and momentum alone in the first steps.

    The factor corrects the variance of 1 / sqrt(second moment), which after few steps has no bound.
    ``decoupled_weight_decay`` is AdamW's.  Defaults and definition as PyTorch's.

    Source: Liu et al. 2020, arXiv:1908.03265, algorithm 2.
    """

    learning_rate: Rate = 1e-3
    _: KW_ONLY
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    decoupled_weight_decay: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        fraction(self, "beta1", "beta2")
        non_negative(self, "eps", "weight_decay")

    def init(self, parameter: Tensor) -> RuleState:
        """Return moments of 0."""
        return {"first_moment": zeros_like(parameter), "second_moment": zeros_like(parameter)}

    def update(
        self,
        gradient: Tensor,
        parameter: Tensor,
        state: RuleState,
        *,
        learning_rate: float,
        step: int,
    ) -> tuple[Tensor, RuleState]:
        """Return the parameter and the moments after a step."""
        if self.decoupled_weight_decay:
            parameter = parameter * (1 - learning_rate * self.weight_decay)
        else:
            gradient = decayed(gradient, parameter, self.weight_decay)
        first = state["first_moment"].lerp(gradient, 1 - self.beta1)
        second = state["second_moment"].lerp(gradient.square(), 1 - self.beta2)
        change = first * (learning_rate / (1 - self.beta1**step))
        factor = self._factor(step)
        if factor is not None:
            change = change * factor / (second.sqrt() + self.eps)
        return parameter - change, {"first_moment": first, "second_moment": second}

    def _factor(self, step: int) -> float | None:
        """Return the factor at a step, the second moment's bias included; None where it has none.

        The length of the average that the second moment is has to be more than 5.
        """
        bias = 1 - self.beta2**step
        most = 2 / (1 - self.beta2) - 1
        length = most - 2 * step * self.beta2**step / bias
        if length <= 5:
            return None
        ratio = (length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)
        return math.sqrt(ratio * bias)
