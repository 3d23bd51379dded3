"""Steps of optimisers: each one pass after the other over memory of its own, written in place.

Rates must be numbers and tensors float32 or float64, as optimisers give them; others expand.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from pyrite.backend.torch.native import Native, native
from pyrite.op import Constant

_WIDE = (torch.float32, torch.float64)


def _has_numbers(first: int) -> Any:
    """Return the condition: tensors of wide floats, and from a position on numbers."""

    def holds(*inputs: Any) -> bool:
        tensors = (i for i in inputs[:first] if i is not None)
        return all(isinstance(i, Constant) for i in inputs[first:]) and all(
            isinstance(i, torch.Tensor) and i.dtype in _WIDE for i in tensors
        )

    return holds


class Optimizer(Native):
    """Steps of optimisers."""

    @native("sgd_update", given="numbers", when=_has_numbers(2))
    def sgd_update(
        self, p: torch.Tensor, g: torch.Tensor, rate: float, *, weight_decay: float
    ) -> torch.Tensor:
        return torch.sub(p, _decayed(g, p, weight_decay), alpha=rate)

    @native("momentum_update", given="numbers", when=_has_numbers(3))
    def momentum_update(
        self,
        p: torch.Tensor,
        g: torch.Tensor,
        velocity: torch.Tensor,
        rate: float,
        gain: float,
        *,
        momentum: float,
        nesterov: bool,
        weight_decay: float,
    ) -> tuple[torch.Tensor, ...]:
        g = _decayed(g, p, weight_decay)
        velocity = (velocity * momentum).add_(g, alpha=gain)
        direction = torch.add(g, velocity, alpha=momentum) if nesterov else velocity
        return torch.sub(p, direction, alpha=rate), velocity

    @native("adam_update", given="numbers", when=_has_numbers(5))
    def adam_update(
        self,
        p: torch.Tensor,
        g: torch.Tensor,
        first: torch.Tensor,
        second: torch.Tensor,
        largest: torch.Tensor | None,
        rate: float,
        correction1: float,
        correction2: float,
        *,
        weight_decay: float,
        **betas: float,
    ) -> tuple[torch.Tensor, ...]:
        g = _decayed(g, p, weight_decay)
        moments, divisor = _moments(g, first, second, largest, correction2, **betas)
        return torch.addcdiv(p, moments[0], divisor, value=-rate / correction1), *moments

    @native("adamw_update", given="numbers", when=_has_numbers(5))
    def adamw_update(
        self,
        p: torch.Tensor,
        g: torch.Tensor,
        first: torch.Tensor,
        second: torch.Tensor,
        largest: torch.Tensor | None,
        rate: float,
        correction1: float,
        correction2: float,
        decay: float,
        *,
        cautious: bool,
        **betas: float,
    ) -> tuple[torch.Tensor, ...]:
        moments, divisor = _moments(g, first, second, largest, correction2, **betas)
        kept = p * (1 - decay)
        if cautious:
            # The step goes where the first moment points.
            kept = torch.where(moments[0] * p >= 0, kept, p)
        return kept.addcdiv_(moments[0], divisor, value=-rate / correction1), *moments


def _decayed(g: torch.Tensor, p: torch.Tensor, weight_decay: float) -> torch.Tensor:
    return torch.add(g, p, alpha=weight_decay) if weight_decay else g


def _moments(
    g: torch.Tensor,
    first: torch.Tensor,
    second: torch.Tensor,
    largest: torch.Tensor | None,
    correction2: float,
    *,
    beta1: float,
    beta2: float,
    eps: float,
) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
    """Return the moments after a step, and sqrt(second / correction2) + eps."""
    first = torch.lerp(first, g, 1 - beta1)
    second = (second * beta2).addcmul_(g, g, value=1 - beta2)
    scale = second
    moments: tuple[torch.Tensor, ...] = (first, second)
    if largest is not None:
        scale = torch.maximum(largest, second)
        moments = (first, second, scale)
    return moments, torch.sqrt(scale).div_(math.sqrt(correction2)).add_(eps)
