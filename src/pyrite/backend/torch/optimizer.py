"""Steps of optimisers on lists of tensors: one kernel after the other over memory of its own.

Rates must be numbers and tensors of one shape and one dtype, float32 or float64, as optimisers give
them; others expand.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from pyrite.backend.torch.native import Native, native
from pyrite.op import Constant

_WIDE = (torch.float32, torch.float64)

Tensors = list[torch.Tensor]


def _has_numbers(first: int) -> Any:
    """Return the condition: tensors of one wide float and shape, and from a position on numbers."""

    def holds(lead: Any, *inputs: Any) -> bool:
        if not isinstance(lead, torch.Tensor) or lead.dtype not in _WIDE:
            return False
        dtype, shape = lead.dtype, lead.shape
        for i in inputs[: first - 1]:
            if i is None:
                continue
            if not isinstance(i, torch.Tensor) or i.dtype is not dtype or i.shape != shape:
                return False
        return all([isinstance(i, Constant) for i in inputs[first - 1 :]])

    return holds


def _are_of_one_dtype(*inputs: Any) -> bool:
    found = {i.dtype if isinstance(i, torch.Tensor) else None for i in inputs}
    return len(found) == 1 and found <= set(_WIDE)


class Optimizer(Native):
    """Steps of optimisers."""

    @native("norm_of_all", when=_are_of_one_dtype)
    def norm_of_all(self, *tensors: torch.Tensor) -> torch.Tensor:
        return torch.linalg.vector_norm(torch.stack(list(torch._foreach_norm(tensors))))

    @native("sgd_update", given="columns", when=_has_numbers(2))
    def sgd_update(self, p: Tensors, g: Tensors, rate: float, *, weight_decay: float) -> Any:
        return (torch._foreach_sub(p, _decayed(g, p, weight_decay), alpha=rate),)

    @native("momentum_update", given="columns", when=_has_numbers(3))
    def momentum_update(
        self,
        p: Tensors,
        g: Tensors,
        velocity: Tensors,
        rate: float,
        gain: float,
        *,
        momentum: float,
        nesterov: bool,
        weight_decay: float,
    ) -> Any:
        g = _decayed(g, p, weight_decay)
        velocity = torch._foreach_mul(velocity, momentum)
        torch._foreach_add_(velocity, g, alpha=gain)
        direction = torch._foreach_add(g, velocity, alpha=momentum) if nesterov else velocity
        return torch._foreach_sub(p, direction, alpha=rate), velocity

    @native("adam_update", given="columns", when=_has_numbers(5))
    def adam_update(
        self,
        p: Tensors,
        g: Tensors,
        first: Tensors,
        second: Tensors,
        largest: Tensors | None,
        rate: float,
        correction1: float,
        correction2: float,
        *,
        weight_decay: float,
        **betas: float,
    ) -> Any:
        g = _decayed(g, p, weight_decay)
        moments, divisor = _moments(g, first, second, largest, correction2, **betas)
        gain = math.sqrt(correction2) / correction1
        return torch._foreach_addcdiv(p, moments[0], divisor, value=-rate * gain), *moments

    @native("adamw_update", given="columns", when=_has_numbers(5))
    def adamw_update(
        self,
        p: Tensors,
        g: Tensors,
        first: Tensors,
        second: Tensors,
        largest: Tensors | None,
        rate: float,
        correction1: float,
        correction2: float,
        decay: float,
        *,
        cautious: bool,
        **betas: float,
    ) -> Any:
        moments, divisor = _moments(g, first, second, largest, correction2, **betas)
        kept = torch._foreach_mul(p, 1 - decay)
        if cautious:
            # The step goes where the first moment points.
            toward = torch._foreach_mul(moments[0], p)
            kept = [torch.where(t >= 0, k, x) for t, k, x in zip(toward, kept, p, strict=True)]
        gain = math.sqrt(correction2) / correction1
        torch._foreach_addcdiv_(kept, moments[0], divisor, value=-rate * gain)
        return kept, *moments


def _decayed(g: Tensors, p: Tensors, weight_decay: float) -> Any:
    return torch._foreach_add(g, p, alpha=weight_decay) if weight_decay else g


def _moments(
    g: Tensors,
    first: Tensors,
    second: Tensors,
    largest: Tensors | None,
    correction2: float,
    *,
    beta1: float,
    beta2: float,
    eps: float,
) -> tuple[tuple[Any, ...], Any]:
    """Return the moments after a step, and sqrt(correction2) (sqrt(second / correction2) + eps).

    With that factor, of which the step makes up, it takes one pass less.
    """
    first = torch._foreach_lerp(first, g, 1 - beta1)
    second = torch._foreach_mul(second, beta2)
    torch._foreach_addcmul_(second, g, g, value=1 - beta2)
    scale = second
    moments: tuple[Any, ...] = (first, second)
    if largest is not None:
        scale = torch._foreach_maximum(largest, second)
        moments = (first, second, scale)
    divisor = torch._foreach_sqrt(scale)
    torch._foreach_add_(divisor, eps * math.sqrt(correction2))
    return moments, divisor
