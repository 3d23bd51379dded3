"""RAdam: Adam that waits until its second moment is worth something."""

from __future__ import annotations

from dataclasses import dataclass

from pyrite.optim.moments import DecayedMoments
from pyrite.optim.state import RuleState
from pyrite.tensor.tensor import Tensor


@dataclass(frozen=True, eq=False, repr=False)
class RAdam(DecayedMoments):
    """RAdam: Adam times a factor that grows to 1, and momentum alone in the first steps.

    The factor corrects the variance of 1 / sqrt(second moment), which after few steps has no bound.
    ``decoupled_weight_decay`` is AdamW's.  Defaults and definition as PyTorch's.

    Source: Liu et al. 2020, arXiv:1908.03265, algorithm 2.
    """

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
        gradient, parameter = self._decayed(gradient, parameter, learning_rate)
        moments = self._moments(gradient, state)
        change = moments["first_moment"] * (learning_rate / (1 - self.beta1**step))
        factor = self._factor(step)
        if factor is not None:
            change = change * factor / (moments["second_moment"].sqrt() + self.eps)
        return parameter - change, moments

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
        # A power, which a compiled step makes again at each call, as no function of `math`.
        factor: float = (ratio * bias) ** 0.5
        return factor
