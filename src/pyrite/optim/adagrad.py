"""Adagrad: steps scaled by all squared gradients so far."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from pyrite.op import Spec, composite, sample
from pyrite.optim.columns import JointCall
from pyrite.optim.joint import Joint
from pyrite.optim.schedule.rate import Rate
from pyrite.optim.settings import non_negative
from pyrite.optim.state import RuleState
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

    def joint_call(self, learning_rate: float, step: int) -> JointCall:
        """Return Adagrad's op."""
        rate = learning_rate / (1 + (step - 1) * self.lr_decay)
        inputs = ("parameter", "gradient", "sum_of_squares", rate)
        return JointCall(
            adagrad_update, inputs, {"eps": self.eps, "weight_decay": self.weight_decay}
        )
