"""LAMB: Adam with a step size for each tensor, for very large batches."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from pyrite.optim.moments import Moments
from pyrite.optim.state import RuleState
from pyrite.tensor.tensor import Tensor


@dataclass(frozen=True, eq=False, repr=False)
class LAMB(Moments):
    """LAMB: p = p - learning_rate (|p| / |r|) r, with r Adam's step plus weight_decay p.

    The norms are those of the whole tensor; where one of them is 0 the ratio is 1.  Biases and
    scales of norms are best left without decay, in a group.

    Source: You et al. 2020, arXiv:1904.00962, algorithm 2, with phi(x) = x.
    """

    _: KW_ONLY
    eps: float = 1e-6
    weight_decay: float = 1e-2

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
        moments = self._moments(gradient, state)
        mean = moments["first_moment"] * (1 / (1 - self.beta1**step))
        square = moments["second_moment"] * (1 / (1 - self.beta2**step))
        change = mean / (square.sqrt() + self.eps) + parameter * self.weight_decay
        ratio = _ratio(parameter.vector_norm(), change.vector_norm())
        return parameter - learning_rate * ratio * change, moments


def _ratio(of_parameter: Tensor, of_change: Tensor) -> Tensor:
    """Return the trust ratio, 1 where a norm is 0: a new bias of 0 would never move."""
    is_some = (of_parameter > 0) & (of_change > 0)
    return (of_parameter / of_change.where(is_some, 1)).where(is_some, 1)
