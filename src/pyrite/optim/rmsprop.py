"""RMSprop: steps scaled by a running mean of squared gradients."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from pyrite.op import Spec, composite, sample
from pyrite.optim.columns import JointCall
from pyrite.optim.joint import Joint
from pyrite.optim.schedule.rate import Rate
from pyrite.optim.settings import fraction, non_negative
from pyrite.optim.state import RuleState
from pyrite.optim.values import decayed
from pyrite.tensor.creation import zeros_like
from pyrite.tensor.tensor import Tensor

_SQUARES = Spec((2, 3), low=0.9, high=2.0)
_MEANS = Spec((2, 3), low=-0.5, high=0.5)
_SETTINGS = {"alpha": 0.9, "momentum": 0.9, "eps": 1e-8}


@composite(
    samples=(
        sample((2, 3), (2, 3), _SQUARES, None, None, 0.1, weight_decay=0.0, **_SETTINGS),
        sample((2, 3), (2, 3), _SQUARES, _MEANS, None, 0.1, weight_decay=0.0, **_SETTINGS),
        sample((2, 3), (2, 3), _SQUARES, _MEANS, (2, 3), 0.1, weight_decay=0.5, **_SETTINGS),
    )
)
def rmsprop_update(
    parameter: Tensor,
    gradient: Tensor,
    square: Tensor,
    mean: Tensor | None,
    velocity: Tensor | None,
    learning_rate: float,
    /,
    *,
    alpha: float,
    momentum: float,
    eps: float,
    weight_decay: float,
) -> tuple[Tensor, ...]:
    """Parameter, then the moments that there are, after a step of RMSprop: all of (...)."""
    gradient = decayed(gradient, parameter, weight_decay)
    square = alpha * square + (1 - alpha) * gradient.square()
    moments, variance = [square], square
    if mean is not None:
        mean = mean.lerp(gradient, 1 - alpha)
        # Rounding may take it below 0, where the root would be NaN.
        variance = (square - mean.square()).clamp_min(0.0)
        moments.append(mean)
    direction = gradient / (variance.sqrt() + eps)
    if velocity is not None:
        direction = momentum * velocity + direction
        moments.append(direction)
    return parameter - learning_rate * direction, *moments


@dataclass(frozen=True, eq=False, repr=False)
class RMSprop(Joint):
    """RMSprop: s = alpha s + (1 - alpha) g², p = p - learning_rate g / (sqrt(s) + eps).

    ``centered`` takes the running mean's square off s; with ``momentum`` the quotient enters a
    velocity.  Defaults and definition as PyTorch's, but that a variance is never below 0.

    Source: Tieleman & Hinton 2012, lecture 6.5; centered: Graves 2013, arXiv:1308.0850, (38).
    """

    learning_rate: Rate = 1e-2
    _: KW_ONLY
    alpha: float = 0.99
    eps: float = 1e-8
    weight_decay: float = 0.0
    momentum: float = 0.0
    centered: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        fraction(self, "alpha", "momentum")
        non_negative(self, "eps", "weight_decay")

    def init(self, parameter: Tensor) -> RuleState:
        """Return the moments that the settings ask for, as zeros."""
        names = ["square"] + ["mean"] * self.centered + ["velocity"] * (self.momentum > 0)
        return {name: zeros_like(parameter) for name in names}

    def joint_call(self, learning_rate: float, step: int) -> JointCall:
        """Return RMSprop's op."""
        inputs = ("parameter", "gradient", "square", "mean", "velocity", learning_rate)
        attrs = {"alpha": self.alpha, "momentum": self.momentum, "eps": self.eps}
        return JointCall(rmsprop_update, inputs, {**attrs, "weight_decay": self.weight_decay})
