"""Adagrad: steps scaled by all squared gradients so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from pyrite.op import Spec, composite, many, sample
from pyrite.optim.joint import Joint, named
from pyrite.optim.schedule.rate import Rate
from pyrite.optim.settings import non_negative
from pyrite.optim.state import ParameterUpdate, RuleState
from pyrite.optim.values import decayed
from pyrite.tensor.creation import full
from pyrite.tensor.tensor import Tensor

_SQUARES = Spec((2, 3), low=0.5, high=2.0)


@composite(
    samples=(
        sample((2, 3), (2, 3), _SQUARES, 0.1, eps=1e-10, weight_decay=0.0),
        sample((2, 3), (2, 3), _SQUARES, 0.1, eps=1e-10, weight_decay=0.5),
    )
)
def adagrad_update(
    parameter: Tensor,
    gradient: Tensor,
    total: Tensor,
    learning_rate: float,
    /,
    *,
    eps: float,
    weight_decay: float,
) -> tuple[Tensor, ...]:
    """Parameter and sum of squares after a step of Adagrad: three of (...) -> two of (...)."""
    gradient = decayed(gradient, parameter, weight_decay)
    total = total + gradient.square()
    return parameter - learning_rate * gradient / (total.sqrt() + eps), total


@dataclass(frozen=True, eq=False, repr=False)
class Adagrad(Joint):
    """Adagrad: s = s + g², p = p - learning_rate g / (sqrt(s) + eps).

    ``lr_decay`` divides the rate of the n-th step by 1 + (n - 1) lr_decay.  Defaults and definition
    as PyTorch's.  Source: Duchi et al. 2011, JMLR 12, diagonal form.
    """

    learning_rate: Rate = 1e-2
    _: KW_ONLY
    lr_decay: float = 0.0
    weight_decay: float = 0.0
    initial_accumulator_value: float = 0.0
    eps: float = 1e-10

    def __post_init__(self) -> None:
        super().__post_init__()
        non_negative(self, "lr_decay", "weight_decay", "initial_accumulator_value", "eps")

    def init(self, parameter: Tensor) -> RuleState:
        """Return the sum of squares to begin with."""
        start = self.initial_accumulator_value
        total = full(parameter.shape, start, dtype=parameter.dtype, device=parameter.device)
        return {"sum_of_squares": total}

    def joint_update(
        self, updates: Sequence[ParameterUpdate], *, learning_rate: float
    ) -> list[tuple[Tensor, RuleState]]:
        """Return parameter and sum of squares of each update, by one op."""
        made = many(
            adagrad_update,
            [
                (
                    t.parameter,
                    t.gradient,
                    t.state["sum_of_squares"],
                    learning_rate / (1 + (t.step - 1) * self.lr_decay),
                )
                for t in updates
            ],
            eps=self.eps,
            weight_decay=self.weight_decay,
        )
        return named(updates, made)
