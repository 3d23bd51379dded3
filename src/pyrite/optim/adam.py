"""Adam: steps scaled by running means of the gradient and of its square."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from pyrite.op import Spec, composite, many, sample
from pyrite.optim.joint import Joint, named
from pyrite.optim.moments import Moments
from pyrite.optim.state import ParameterUpdate, RuleState
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

    def joint_update(
        self, updates: Sequence[ParameterUpdate], *, learning_rate: float
    ) -> list[tuple[Tensor, RuleState]]:
        """Return parameter and moments of each update, by one op."""
        made = many(
            adam_update,
            self._inputs(updates, learning_rate),
            beta1=self.beta1,
            beta2=self.beta2,
            eps=self.eps,
            weight_decay=self.weight_decay,
        )
        return named(updates, made)

    def _inputs(
        self, updates: Sequence[ParameterUpdate], learning_rate: float
    ) -> list[tuple[Tensor | float | None, ...]]:
        """Return what the op takes for each update; parameters of one age share their numbers."""
        corrections: dict[int, tuple[float, float]] = {}
        found: list[tuple[Tensor | float | None, ...]] = []
        for gradient, parameter, state, step in updates:
            # A number of a captured call is one by itself.
            age = step if type(step) is int else id(step)
            known = corrections.get(age)
            if known is None:
                known = corrections[age] = (1 - self.beta1**step, 1 - self.beta2**step)
            found.append((
                parameter, gradient, state["first_moment"], state["second_moment"],
                state.get("largest_moment"), learning_rate, *known,
            ))  # fmt: skip
        return found
