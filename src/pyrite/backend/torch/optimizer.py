"""Steps of optimisers on lists of tensors: one kernel after the other over memory of its own.

Rates must be numbers and tensors of one shape and one dtype, float32 or float64, as optimisers give
them; others expand.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from pyrite.backend.torch.layout import all_dense
from pyrite.backend.torch.native import Native, native
from pyrite.op import Constant

_WIDE = (torch.float32, torch.float64)

#: Elements of the greatest matrix that joins a batch: products of greater ones take longer than
#: their launches, and a batch of these would need several times their memory at once.
_BATCHED = 1 << 18

Tensors = Sequence[torch.Tensor]


def _has_numbers(first: int) -> Callable[..., bool]:
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


def _are_scaled(gradient: Any, factor: Any) -> bool:
    return _are_of_one_dtype(gradient, factor) and not factor.shape


class Optimizer(Native):
    """Steps of optimisers."""

    @native("norm_of_all", when=_are_of_one_dtype)
    def norm_of_all(self, *tensors: torch.Tensor) -> torch.Tensor:
        return torch.linalg.vector_norm(torch.stack(list(torch._foreach_norm(tensors))))

    @native("gradient_scaled", given="columns", when=_are_scaled)
    def gradient_scaled(self, g: Tensors, factors: Tensors) -> Any:
        first = factors[0]
        if all([factor is first for factor in factors]):
            return (torch._foreach_mul(g, first),)
        return (torch._foreach_mul(g, factors),)

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

    @property
    def _has_fused(self) -> bool:
        """Whether PyTorch steps Adam by one kernel here, as far as this was ever run."""
        return self.device.type in ("cpu", "cuda")

    def _stepped_by(
        self,
        step: Callable[..., None],
        p: Tensors,
        g: Tensors,
        first: Tensors,
        second: Tensors,
        largest: Tensors | None,
        **settings: float,
    ) -> tuple[Tensors, ...]:
        """Return copies of parameters and moments that one of PyTorch's kernels has stepped.

        The kernel corrects moments by the number of the step: after that many there is nothing to
        correct.
        """
        kept = [p, first, second] if largest is None else [p, first, second, largest]
        copies = self._copies(all_dense(t for tensors in kept for t in tensors))
        n = len(p)
        moved, first, second, *rest = (copies[i : i + n] for i in range(0, len(copies), n))
        step(
            moved, all_dense(g), first, second, rest[0] if rest else [],
            [self._forever] * n, **settings, amsgrad=bool(rest), maximize=False,
        )  # fmt: skip
        return moved, first, second, *rest

    def _copies(self, tensors: Tensors) -> Tensors:
        """Return copies, which by a factor of 1 are few kernels on a GPU."""
        if self.is_host:
            return [t.clone() for t in tensors]
        return list(torch._foreach_mul(tensors, 1.0))

    @functools.cached_property
    def _forever(self) -> torch.Tensor:
        return torch.full((), 1e9, device=self.device)

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
        if self._has_fused:
            rate, eps = _corrected(rate, correction1, correction2, betas.pop("eps"))
            return self._stepped_by(
                torch._fused_adam_, p, g, first, second, largest,
                lr=rate, eps=eps, weight_decay=weight_decay, **betas,
            )  # fmt: skip
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
        if self._has_fused and not cautious:
            rate, eps = _corrected(rate, correction1, correction2, betas.pop("eps"))
            return self._stepped_by(
                torch._fused_adamw_, p, g, first, second, largest,
                lr=rate, eps=eps, weight_decay=decay / rate if rate else 0.0, **betas,
            )  # fmt: skip
        moments, divisor = _moments(g, first, second, largest, correction2, **betas)
        kept = torch._foreach_mul(p, 1 - decay)
        if cautious:
            # The step goes where the first moment points.
            toward = torch._foreach_mul(moments[0], p)
            kept = [torch.where(t >= 0, k, x) for t, k, x in zip(toward, kept, p, strict=True)]
        gain = math.sqrt(correction2) / correction1
        torch._foreach_addcdiv_(kept, moments[0], divisor, value=-rate * gain)
        return kept, *moments

    @native("rmsprop_update", given="columns", when=_has_numbers(5))
    def rmsprop_update(
        self,
        p: Tensors,
        g: Tensors,
        square: Tensors,
        mean: Tensors | None,
        velocity: Tensors | None,
        rate: float,
        *,
        alpha: float,
        momentum: float,
        eps: float,
        weight_decay: float,
    ) -> Any:
        g = _decayed(g, p, weight_decay)
        square = _mean_of_squares(square, g, alpha)
        moments = [square]
        if mean is None:
            divisor = torch._foreach_sqrt(square)
        else:
            mean = torch._foreach_lerp(mean, g, 1 - alpha)
            moments.append(mean)
            divisor = torch._foreach_addcmul(square, mean, mean, value=-1.0)
            torch._foreach_clamp_min_(divisor, 0.0)
            torch._foreach_sqrt_(divisor)
        torch._foreach_add_(divisor, eps)
        if velocity is None:
            return torch._foreach_addcdiv(p, g, divisor, value=-rate), *moments
        velocity = torch._foreach_mul(velocity, momentum)
        torch._foreach_addcdiv_(velocity, g, divisor)
        return torch._foreach_sub(p, velocity, alpha=rate), *moments, velocity

    @native("lion_update", given="columns", when=_has_numbers(3))
    def lion_update(
        self,
        p: Tensors,
        g: Tensors,
        moment: Tensors,
        rate: float,
        decay: float,
        *,
        beta1: float,
        beta2: float,
    ) -> Any:
        updated = _sign(torch._foreach_lerp(moment, g, 1 - beta1))
        torch._foreach_mul_(updated, -rate)
        torch._foreach_add_(updated, p, alpha=1 - decay)
        return updated, torch._foreach_lerp(moment, g, 1 - beta2)

    @native("adagrad_update", given="columns", when=_has_numbers(3))
    def adagrad_update(
        self,
        p: Tensors,
        g: Tensors,
        total: Tensors,
        rate: float,
        *,
        eps: float,
        weight_decay: float,
    ) -> Any:
        g = _decayed(g, p, weight_decay)
        total = torch._foreach_addcmul(total, g, g)
        divisor = torch._foreach_sqrt(total)
        torch._foreach_add_(divisor, eps)
        return torch._foreach_addcdiv(p, g, divisor, value=-rate), total

    @native("adan_update", given="columns", when=_has_numbers(6))
    def adan_update(
        self,
        p: Tensors,
        g: Tensors,
        first: Tensors,
        change: Tensors,
        second: Tensors,
        previous: Tensors,
        rate: float,
        correction1: float,
        correction2: float,
        correction3: float,
        decay: float,
        *,
        beta1: float,
        beta2: float,
        beta3: float,
        eps: float,
        no_prox: bool,
    ) -> Any:
        difference = torch._foreach_sub(g, previous)
        first = torch._foreach_lerp(first, g, 1 - beta1)
        change = torch._foreach_lerp(change, difference, 1 - beta2)
        second = _mean_of_squares(second, torch._foreach_add(g, difference, alpha=beta2), beta3)
        momentum = torch._foreach_div(first, correction1)
        torch._foreach_add_(momentum, change, alpha=beta2 / correction2)
        divisor = _divisor(second, correction3, eps)
        step = -rate * math.sqrt(correction3)
        kept = torch._foreach_mul(p, 1 - decay) if no_prox else p
        updated = torch._foreach_addcdiv(kept, momentum, divisor, value=step)
        if decay and not no_prox:
            torch._foreach_div_(updated, 1 + decay)
        return updated, first, change, second

    @native("newton_schulz", given="columns", when=_has_numbers(1))
    def newton_schulz(self, x: Tensors, **settings: Any) -> Any:
        self.note_products(x[0])
        return (_orthogonal(x, **settings),)

    @native("muon_update", given="columns", when=_has_numbers(3))
    def muon_update(
        self,
        p: Tensors,
        g: Tensors,
        mean: Tensors,
        rate: float,
        decay: float,
        *,
        momentum: float,
        nesterov: bool,
        **settings: Any,
    ) -> Any:
        self.note_products(g[0])
        mean = torch._foreach_lerp(mean, g, 1 - momentum)
        direction = torch._foreach_lerp(g, mean, momentum) if nesterov else mean
        updated = torch._foreach_mul(p, 1 - decay)
        torch._foreach_sub_(updated, _orthogonal(direction, **settings), alpha=rate)
        return updated, mean


def _corrected(
    rate: float, correction1: float, correction2: float, eps: float
) -> tuple[float, float]:
    """Return rate and eps with which Adam's step without corrections is that with them."""
    factor = math.sqrt(correction2)
    return rate * factor / correction1, eps * factor


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
    """Return the moments after a step, and what the first is divided by: see `_divisor`."""
    first = torch._foreach_lerp(first, g, 1 - beta1)
    second = _mean_of_squares(second, g, beta2)
    scale = second
    moments: tuple[Any, ...] = (first, second)
    if largest is not None:
        scale = torch._foreach_maximum(largest, second)
        moments = (first, second, scale)
    return moments, _divisor(scale, correction2, eps)


def _mean_of_squares(mean: Tensors, g: Tensors, beta: float) -> Any:
    """Return beta mean + (1 - beta) g²."""
    mean = torch._foreach_mul(mean, beta)
    torch._foreach_addcmul_(mean, g, g, value=1 - beta)
    return mean


def _divisor(scale: Tensors, correction: float, eps: float) -> Any:
    """Return sqrt(correction) (sqrt(scale / correction) + eps).

    With that factor, for which the step makes up, it takes one pass less.
    """
    divisor = torch._foreach_sqrt(scale)
    torch._foreach_add_(divisor, eps * math.sqrt(correction))
    return divisor


def _sign(x: Tensors) -> Any:
    """Return -1, 0 or 1 in the memory of x; NaN stays NaN, of which PyTorch's sign is 0."""
    bound = torch._foreach_clamp_max(x, -1.0)  # at most what the sign is, or NaN
    torch._foreach_sign_(x)
    torch._foreach_maximum_(x, bound)
    return x


def _orthogonal(
    x: Tensors, *, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensors:
    """Return what `newton_schulz` says of each matrix; small ones of one shape are one batch."""
    found = list(x)
    batches: dict[Any, list[int]] = {}
    for place, matrix in enumerate(x):
        key = matrix.shape if matrix.numel() <= _BATCHED else place
        batches.setdefault(key, []).append(place)
    for places in batches.values():
        batch = torch.stack([x[place] for place in places])
        made = _newton_schulz(batch, coefficients, steps, eps)
        for place, matrix in zip(places, made, strict=True):
            found[place] = matrix
    return found


def _newton_schulz(
    x: torch.Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> torch.Tensor:
    """Return the matrices of a batch with singular values near 1: (B, M, N) -> (B, M, N)."""
    a, b, c = coefficients
    is_tall = x.shape[1] > x.shape[2]
    x = x.mT if is_tall else x
    x = x / torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True).clamp_min_(eps)
    for _ in range(steps):
        gram = x @ x.mT
        polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.baddbmm(x, polynomial, x, beta=a)
    return x.mT if is_tall else x
