"""Rprop: steps whose size follows the sign of the gradient alone."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from pyrite.optim.optimizer import Optimizer
from pyrite.optim.schedule.rate import Rate, rate_at
from pyrite.optim.settings import positive, require
from pyrite.optim.state import RuleState
from pyrite.tensor.creation import full, zeros_like
from pyrite.tensor.tensor import Tensor


@dataclass(frozen=True, eq=False, repr=False)
class Rprop(Optimizer):
    """Rprop: p = p - sign(g) s, with a step size s of each element.

    Where g keeps its sign s grows by ``eta_plus``; where g changes it s shrinks by ``eta_minus``
    and the element stays.  ``learning_rate`` is the first step size, and nothing after it.  For
    whole data sets: of batches the signs say little.  Defaults and definition as PyTorch's.

    Source: Riedmiller & Braun 1993, in the form without backtracking of Igel & Hüsken 2000.
    """

    learning_rate: Rate = 1e-2
    _: KW_ONLY
    eta_minus: float = 0.5
    eta_plus: float = 1.2
    min_step: float = 1e-6
    max_step: float = 50.0

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "eta_minus", "min_step", "max_step")
        factors = f"eta_minus={self.eta_minus}, eta_plus={self.eta_plus}"
        require(self, "eta_minus < 1 < eta_plus", factors, self.eta_minus < 1 < self.eta_plus)

    def init(self, parameter: Tensor) -> RuleState:
        """Return a gradient of 0, and the first step size."""
        first = rate_at(self.learning_rate, 0)
        size = full(parameter.shape, first, dtype=parameter.dtype, device=parameter.device)
        return {"gradient": zeros_like(parameter), "size": size}

    def update(
        self,
        gradient: Tensor,
        parameter: Tensor,
        state: RuleState,
        *,
        learning_rate: float,
        step: int,
    ) -> tuple[Tensor, RuleState]:
        """Return the parameter, the gradient that counts, and the step sizes."""
        # By signs: the product of two small gradients would underflow to 0.
        turn = gradient.sign() * state["gradient"].sign()
        grown = (state["size"] * self.eta_plus).where(turn > 0, state["size"])
        size = (state["size"] * self.eta_minus).where(turn < 0, grown)
        size = size.clip(self.min_step, self.max_step)
        kept = zeros_like(gradient).where(turn < 0, gradient)
        return parameter - kept.sign() * size, {"gradient": kept, "size": size}
