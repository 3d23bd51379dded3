"""Muon: momentum made orthogonal, for the matrices of a network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from pyrite.errors import ShapeError
from pyrite.op import composite, many, sample
from pyrite.optim.joint import Joint, named
from pyrite.optim.schedule.rate import Rate
from pyrite.optim.settings import fraction, non_negative, positive, require
from pyrite.optim.state import ParameterUpdate, RuleState
from pyrite.tensor.creation import zeros_like
from pyrite.tensor.tensor import Tensor

#: Steepest at 0 of the quintics that keep [0, 1] near 1 (Jordan et al. 2024, "Muon").
COEFFICIENTS = (3.4445, -4.7750, 2.0315)


@composite(
    samples=(
        sample((3, 2), coefficients=COEFFICIENTS, steps=2, eps=1e-7),
        sample((2, 3), coefficients=(1.5, -0.5, 0.0), steps=3, eps=1e-7),
    )
)
def newton_schulz(
    x: Tensor, /, *, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """A matrix with the singular vectors of x and singular values near 1: (M, N) -> (M, N).

    Each step takes x to a x + b (x xᵀ) x + c (x xᵀ)² x.  Computed in x's dtype, where PyTorch
    rounds to bfloat16.  Source: Higham 2008, "Functions of Matrices", section 8.3.
    """
    is_tall = x.shape[0] > x.shape[1]
    x = x.permute_dims((1, 0)) if is_tall else x
    a, b, c = coefficients
    x = x / x.reshape(-1).square().sum().sqrt().clamp_min(eps)
    for _ in range(steps):
        gram = x @ x.permute_dims((1, 0))
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x.permute_dims((1, 0)) if is_tall else x


_SETTINGS = {"momentum": 0.9, "coefficients": COEFFICIENTS, "steps": 2, "eps": 1e-7}


@composite(
    promotes="all",
    samples=(
        sample((3, 2), (3, 2), (3, 2), 0.1, 0.0, nesterov=True, **_SETTINGS),
        sample((2, 3), (2, 3), (2, 3), 0.1, 0.5, nesterov=False, **_SETTINGS),
    ),
)
def muon_update(
    parameter: Tensor,
    gradient: Tensor,
    mean: Tensor,
    learning_rate: float,
    decay: float,
    /,
    *,
    momentum: float,
    nesterov: bool,
    coefficients: tuple[float, float, float],
    steps: int,
    eps: float,
) -> tuple[Tensor, ...]:
    """Parameter and mean gradient after a step of Muon: three of (M, N) -> two of (M, N).

    ``decay`` is the rate, not adjusted to the shape, times weight_decay.
    """
    mean = mean.lerp(gradient, 1 - momentum)
    direction = gradient.lerp(mean, momentum) if nesterov else mean
    orthogonal = newton_schulz(direction, coefficients=coefficients, steps=steps, eps=eps)
    return parameter * (1 - decay) - learning_rate * orthogonal, mean


@dataclass(frozen=True, eq=False, repr=False)
class Muon(Joint):
    """Muon: p = p - rate * orthogonal(momentum of g), for matrices only.

    m = momentum m + (1 - momentum) g, mixed with g once more for Nesterov; its singular values are
    brought near 1 by `newton_schulz`.  ``adjust_lr`` is how the rate follows the shape (M, N):
    "original" by sqrt(max(1, M / N)), "match_rms_adamw" by 0.2 sqrt(max(M, N)), which makes rates
    of AdamW fit.  Weight decay is AdamW's, at the rate not adjusted.

    Biases, norms, embeddings and heads get another rule:
    ``Muon(0.02).with_group("*.bias", optimizer=AdamW(1e-3))``.  Raises ShapeError for a parameter
    that is no matrix.  Defaults and definition as PyTorch's.

    Source: Jordan et al. 2024, kellerjordan.github.io/posts/muon; match_rms_adamw: Liu et al. 2025,
    arXiv:2502.16982, equation 4.
    """

    learning_rate: Rate = 1e-3
    _: KW_ONLY
    weight_decay: float = 0.1
    momentum: float = 0.95
    nesterov: bool = True
    ns_coefficients: tuple[float, float, float] = COEFFICIENTS
    ns_steps: int = 5
    eps: float = 1e-7
    adjust_lr: Literal["original", "match_rms_adamw"] = "original"

    def __post_init__(self) -> None:
        super().__post_init__()
        fraction(self, "momentum")
        non_negative(self, "weight_decay")
        positive(self, "eps", "ns_steps")
        ok = self.adjust_lr in ("original", "match_rms_adamw")
        require(self, "adjust_lr 'original' or 'match_rms_adamw'", repr(self.adjust_lr), ok)
        ok = len(self.ns_coefficients) == 3
        require(self, "three ns_coefficients", self.ns_coefficients, ok)

    def init(self, parameter: Tensor) -> RuleState:
        """Return a momentum of 0.  Raises ShapeError for a parameter that is no matrix."""
        if parameter.ndim != 2:
            raise ShapeError(
                f"Muon requires parameters with two axes, got shape {parameter.shape}; give others "
                "another rule: with_group('*.bias', optimizer=AdamW(...))"
            )
        return {"momentum": zeros_like(parameter)}

    def joint_update(
        self, updates: Sequence[ParameterUpdate], *, learning_rate: float
    ) -> list[tuple[Tensor, RuleState]]:
        """Return parameter and momentum of each update, by one op."""
        decay = learning_rate * self.weight_decay
        made = many(
            muon_update,
            [
                (
                    t.parameter,
                    t.gradient,
                    t.state["momentum"],
                    learning_rate * self._adjustment(*t.parameter.shape),
                    decay,
                )
                for t in updates
            ],
            momentum=self.momentum,
            nesterov=self.nesterov,
            coefficients=self.ns_coefficients,
            steps=self.ns_steps,
            eps=self.eps,
        )
        return named(updates, made)

    def _adjustment(self, rows: int, columns: int) -> float:
        if self.adjust_lr == "original":
            return math.sqrt(max(1.0, rows / max(columns, 1)))
        return 0.2 * math.sqrt(max(rows, columns))
