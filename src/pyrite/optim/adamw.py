"""AdamW: Adam with weight decay beside the gradient instead of in it."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from pyrite.op import Spec, composite, sample
from pyrite.optim.adam import Adam, adam_direction
from pyrite.optim.columns import JointCall
from pyrite.optim.schedule.rate import Rate
from pyrite.tensor.tensor import Tensor

_SQUARES = Spec((2, 3), low=0.5, high=2.0)
_SETTINGS = {"beta1": 0.9, "beta2": 0.99, "eps": 1e-8}


@composite(
    samples=(
        sample((2, 3), (2, 3), (2, 3), _SQUARES, None, 0.1, 0.5, 0.5, 0.1, cautious=False,
               **_SETTINGS),
        sample((2, 3), (2, 3), (2, 3), _SQUARES, _SQUARES, 0.1, 0.5, 0.5, 0.1, cautious=True,
               **_SETTINGS),
    )
)  # fmt: skip
def adamw_update(
    parameter: Tensor,
    gradient: Tensor,
    first: Tensor,
    second: Tensor,
    largest: Tensor | None,
    learning_rate: float,
    correction1: float,
    correction2: float,
    decay: float,
    /,
    *,
    beta1: float,
    beta2: float,
    eps: float,
    cautious: bool,
) -> tuple[Tensor, ...]:
    """Parameter and moments after a step of AdamW: four or five of (...) -> three or four of (...).

    ``decay`` is learning_rate * weight_decay; the rest is as in ``adam_update``.
    """
    direction, *moments = adam_direction(
        gradient, first, second, largest, correction1, correction2, beta1, beta2, eps
    )
    shrunk = parameter * (1 - decay)
    if cautious:
        shrunk = shrunk.where(direction * parameter >= 0, parameter)
    return shrunk - learning_rate * direction, *moments


@dataclass(frozen=True, eq=False, repr=False)
class AdamW(Adam):
    """Adam with decoupled weight decay: p = p - learning_rate weight_decay p, beside Adam's step.

    ``cautious_weight_decay`` decays only where the step itself takes p towards 0.

    Defaults and definition as PyTorch's.  Source: Loshchilov & Hutter 2019, arXiv:1711.05101,
    algorithm 2; cautious: Chen et al. 2025, arXiv:2510.12402.
    """

    learning_rate: Rate = 1e-3
    _: KW_ONLY
    weight_decay: float = 1e-2
    cautious_weight_decay: bool = False

    def joint_call(self, learning_rate: float, step: int) -> JointCall:
        """Return AdamW's op."""
        inputs = (*self._inputs(learning_rate, step), learning_rate * self.weight_decay)
        attrs = {"beta1": self.beta1, "beta2": self.beta2, "eps": self.eps}
        return JointCall(adamw_update, inputs, {**attrs, "cautious": self.cautious_weight_decay})
