"""Adan: Adam with Nesterov's momentum, by differences of gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from pyrite.op import Spec, composite, many, sample
from pyrite.optim.joint import Joint, named
from pyrite.optim.schedule.rate import Rate
from pyrite.optim.settings import fraction, non_negative
from pyrite.optim.state import ParameterUpdate, RuleState
from pyrite.tensor.creation import zeros_like
from pyrite.tensor.tensor import Tensor

_SQUARES = Spec((2, 3), low=0.5, high=2.0)
_BETAS = {"beta1": 0.98, "beta2": 0.92, "beta3": 0.9, "eps": 1e-8}


@composite(
    samples=(
        sample((2, 3), (2, 3), (2, 3), (2, 3), _SQUARES, (2, 3), 0.1, 0.5, 0.5, 0.5, 0.1,
               no_prox=False, **_BETAS),
        sample((2, 3), (2, 3), (2, 3), (2, 3), _SQUARES, (2, 3), 0.1, 0.5, 0.5, 0.5, 0.1,
               no_prox=True, **_BETAS),
    )
)  # fmt: skip
def adan_update(
    parameter: Tensor,
    gradient: Tensor,
    first: Tensor,
    change: Tensor,
    second: Tensor,
    previous: Tensor,
    learning_rate: float,
    correction1: float,
    correction2: float,
    correction3: float,
    decay: float,
    /,
    *,
    beta1: float,
    beta2: float,
    beta3: float,
    eps: float,
    no_prox: bool,
) -> tuple[Tensor, ...]:
    """Parameter and three moments after a step of Adan: six of (...) -> four of (...).

    The corrections are 1 - beta ** step, ``decay`` is learning_rate * weight_decay, ``previous`` is
    the gradient of the step before.
    """
    difference = gradient - previous
    first = first.lerp(gradient, 1 - beta1)
    change = change.lerp(difference, 1 - beta2)
    ahead = gradient + beta2 * difference
    second = beta3 * second + (1 - beta3) * ahead.square()
    momentum = first / correction1 + beta2 * change / correction2
    move = learning_rate * momentum / ((second / correction3).sqrt() + eps)
    if no_prox:
        updated = parameter * (1 - decay) - move
    else:
        updated = (parameter - move) / (1 + decay)
    return updated, first, change, second


@dataclass(frozen=True, eq=False, repr=False)
class Adan(Joint):
    """Adan: the moments of g, of its change d, and of (g + beta2 d)², each corrected as Adam's.

    p = (p - learning_rate (m + beta2 v) / (sqrt(n) + eps)) / (1 + learning_rate weight_decay); with
    ``no_prox`` weight decay is AdamW's instead.

    Source: Xie et al. 2022, arXiv:2208.06677, algorithm 1.  As in the authors' program the betas
    are the weights of the past (the paper's 1 - beta), moments are corrected for their start at 0,
    and eps stands outside the root.
    """

    learning_rate: Rate = 1e-3
    _: KW_ONLY
    beta1: float = 0.98
    beta2: float = 0.92
    beta3: float = 0.99
    eps: float = 1e-8
    weight_decay: float = 0.0
    no_prox: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        fraction(self, "beta1", "beta2", "beta3")
        non_negative(self, "eps", "weight_decay")

    def init(self, parameter: Tensor) -> RuleState:
        """Return three moments and the gradient before the first, all zeros."""
        names = ("first_moment", "change_moment", "second_moment", "previous_gradient")
        return {name: zeros_like(parameter) for name in names}

    def joint_update(
        self, updates: Sequence[ParameterUpdate], *, learning_rate: float
    ) -> list[tuple[Tensor, RuleState]]:
        """Return parameter, moments and gradient of each update, by one op."""
        made = many(
            adan_update,
            [self._inputs(update, learning_rate) for update in updates],
            beta1=self.beta1,
            beta2=self.beta2,
            beta3=self.beta3,
            eps=self.eps,
            no_prox=self.no_prox,
        )
        # The op returns no gradient: it is kept for the next change.
        return named(updates, [(*new, t.gradient) for t, new in zip(updates, made, strict=True)])

    def _inputs(self, update: ParameterUpdate, learning_rate: float) -> tuple[Tensor | float, ...]:
        state, step = update.state, update.step
        return (
            update.parameter,
            update.gradient,
            state["first_moment"],
            state["change_moment"],
            state["second_moment"],
            update.gradient if step == 1 else state["previous_gradient"],  # the first change is 0
            learning_rate,
            1 - self.beta1**step,
            1 - self.beta2**step,
            1 - self.beta3**step,
            learning_rate * self.weight_decay,
        )
