"""LAMB: Adam with a step size for each tensor, for very large batches."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from pyrite.optim.optimizer import Optimizer
from pyrite.optim.schedule.rate import Rate
from pyrite.optim.settings import fraction, non_negative
from pyrite.optim.state import RuleState
from pyrite.tensor.creation import zeros_like
from pyrite.tensor.tensor import Tensor


@dataclass(frozen=True, eq=False, repr=False)
class LAMB(Optimizer):
    """LAMB: p = p - learning_rate (|p| / |r|) r, with r Adam's step plus weight_decay p.

    The norms are those of the whole tensor; where one of them is 0 the ratio is 1.  Biases and
    scales of norms are best left without decay, in a group.

    Source: You et al. 2020, arXiv:1904.00962, algorithm 2, with phi(x) = x.
    """

    learning_rate: Rate = 1e-3
    _: KW_ONLY
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-6
    weight_decay: float = 1e-2

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
        first = state["first_moment"].lerp(gradient, 1 - self.beta1)
        second = state["second_moment"].lerp(gradient.square(), 1 - self.beta2)
        mean = first * (1 / (1 - self.beta1**step))
        scale = (second * (1 / (1 - self.beta2**step))).sqrt() + self.eps
        change = mean / scale + parameter * self.weight_decay
        ratio = _ratio(parameter.vector_norm(), change.vector_norm())
        stepped = parameter - learning_rate * ratio * change
        return stepped, {"first_moment": first, "second_moment": second}


def _ratio(of_parameter: Tensor, of_change: Tensor) -> Tensor:
    """Return the trust ratio, 1 where a norm is 0: a new bias of 0 would never move."""
    is_some = (of_parameter > 0) & (of_change > 0)
    return (of_parameter / of_change.where(is_some, 1)).where(is_some, 1)
