"""Adadelta: steps scaled by the steps before."""

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
class Adadelta(Optimizer):
    """Adadelta: d = sqrt(u + eps) / sqrt(s + eps) g, p = p - learning_rate d.

    s and u are running means, of rate 1 - rho, of g² and of d².  Defaults and definition as
    PyTorch's.  Source: Zeiler 2012, arXiv:1212.5701, algorithm 1.
    """

    learning_rate: Rate = 1.0
    _: KW_ONLY
    rho: float = 0.9
    eps: float = 1e-6
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        fraction(self, "rho")
        non_negative(self, "eps", "weight_decay")

    def init(self, parameter: Tensor) -> RuleState:
        """Return running means of 0."""
        return {"squares": zeros_like(parameter), "steps": zeros_like(parameter)}

    def update(
        self,
        gradient: Tensor,
        parameter: Tensor,
        state: RuleState,
        *,
        learning_rate: float,
        step: int,
    ) -> tuple[Tensor, RuleState]:
        """Return the parameter and the running means after a step."""
        gradient = decayed(gradient, parameter, self.weight_decay)
        squares = state["squares"].lerp(gradient.square(), 1 - self.rho)
        scale = (state["steps"] + self.eps).sqrt() / (squares + self.eps).sqrt()
        change = scale * gradient
        steps = state["steps"].lerp(change.square(), 1 - self.rho)
        return parameter - learning_rate * change, {"squares": squares, "steps": steps}
