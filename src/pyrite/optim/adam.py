"""Adam: steps scaled by running means of the gradient and of its square."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from pyrite.op import Spec, composite, sample
from pyrite.optim.columns import JointCall
from pyrite.optim.joint import Joint
from pyrite.optim.moments import Moments
from pyrite.optim.state import RuleState
from pyrite.optim.values import decayed
from pyrite.tensor.creation import zeros_like
from pyrite.tensor.tensor import Tensor

_SQUARES = Spec((2, 3), low=0.5, high=2.0)
_BETAS = {"beta1": 0.9, "beta2": 0.99, "eps": 1e-8}


@composite(
    samples=(
        sample((2, 3), (2, 3), (2, 3), _SQUARES, None, 0.1, 0.5, 0.5, weight_decay=0.0, **_BETAS),
        sample(
            (2, 3), (2, 3), (2, 3), _SQUARES, _SQUARES, 0.1, 0.5, 0.5, weight_decay=0.5, **_BETAS
        ),
    )
)
def adam_update(
    parameter: Tensor,
    gradient: Tensor,
    first: Tensor,
    second: Tensor,
    largest: Tensor | None,
    learning_rate: float,
    correction1: float,
    correction2: float,
    /,
    *,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
) -> tuple[Tensor, ...]:
    """Parameter and moments after a step of Adam: four or five of (...) -> three or four of (...).

    The corrections are 1 - beta ** step.  ``largest`` is AMSGrad's, or None.
    """
    gradient = decayed(gradient, parameter, weight_decay)
    direction, *moments = adam_direction(
        gradient, first, second, largest, correction1, correction2, beta1, beta2, eps
    )
    return parameter - learning_rate * direction, *moments


def adam_direction(
    gradient: Tensor,
    first: Tensor,
    second: Tensor,
    largest: Tensor | None,
    correction1: float,
    correction2: float,
    beta1: float,
    beta2: float,
    eps: float,
) -> tuple[Tensor, ...]:
    """Return the direction of a step, and the moments after it; ``largest`` if there was one."""
    first = first.lerp(gradient, 1 - beta1)
    second = beta2 * second + (1 - beta2) * gradient.square()
    moments: tuple[Tensor, ...] = (first, second)
    scale = second
    if largest is not None:
        scale = largest.maximum(second)
        moments = (first, second, scale)
    direction = (first / correction1) / ((scale / correction2).sqrt() + eps)
    return direction, *moments


@dataclass(frozen=True, eq=False, repr=False)
class Adam(Moments, Joint):
    """Adam, with weight decay as part of the gradient; see `AdamW` for the decoupled kind.

    m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g², both corrected for their start at 0,
    and p = p - learning_rate m / (sqrt(v) + eps).  ``amsgrad`` divides by the largest v so far.

    Defaults and definition as PyTorch's.  Source: Kingma & Ba 2015, arXiv:1412.6980, algorithm 1;
    amsgrad: Reddi et al. 2018, arXiv:1904.09237, with the bias corrected after the maximum.
    """

    _: KW_ONLY
    amsgrad: bool = False

    def init(self, parameter: Tensor) -> RuleState:
        """Return both moments, and with amsgrad the largest second one, as zeros."""
        moments = super().init(parameter)
        if self.amsgrad:
            moments["largest_moment"] = zeros_like(parameter)
        return moments

    def joint_call(self, learning_rate: float, step: int) -> JointCall:
        """Return Adam's op."""
        attrs = {"beta1": self.beta1, "beta2": self.beta2, "eps": self.eps}
        inputs = self._inputs(learning_rate, step)
        return JointCall(adam_update, inputs, {**attrs, "weight_decay": self.weight_decay})

    def _inputs(self, learning_rate: float, step: int) -> tuple[str | float, ...]:
        corrections = (1 - self.beta1**step, 1 - self.beta2**step)
        tensors = ("parameter", "gradient", "first_moment", "second_moment", "largest_moment")
        return (*tensors, learning_rate, *corrections)
