"""Clipping: gradients made smaller before a step.

Nothing here reads a value from the device: a norm is a tensor, compared where it is.  So a norm
that is infinite or NaN is no error; it shows in the norm that `clip_by_global_norm` returns.
Norms of float16 and bfloat16 gradients are taken in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from pyrite.autodiff.gradients import Gradients
from pyrite.op import composite, many, sample
from pyrite.optim.parameter_gradient import ParameterGradient
from pyrite.optim.settings import positive
from pyrite.optim.values import in_dtype
from pyrite.tensor.creation import full
from pyrite.tensor.tensor import Tensor

#: Keeps a norm of 0 from dividing; PyTorch's value, so that both scale alike.
EPS = 1e-6


def clip_by_value(gradients: Gradients, limit: float) -> Gradients:
    """Return the gradients with each element in [-limit, limit]."""
    clipping = Clipping("value", limit)
    return gradients.map(lambda g: g.clip(-clipping.limit, clipping.limit))


def clip_by_norm(gradients: Gradients, max_norm: float) -> Gradients:
    """Return the gradients with each tensor's 2-norm at most ``max_norm``."""
    clipping = Clipping("norm", max_norm)
    return gradients.map(lambda g: _scaled(g, _factor(global_norm([g]), clipping.limit)))


def clip_by_global_norm(gradients: Gradients, max_norm: float) -> tuple[Gradients, Tensor]:
    """Return the gradients scaled so that the 2-norm of all together is at most ``max_norm``.

    Also returns the norm before scaling, a tensor of shape () that nobody has waited for.

    >>> import pyrite
    >>> w = pyrite.tensor([3.0, 4.0], device=pyrite.autodiff("numpy")).require_grad()
    >>> clipped, norm = clip_by_global_norm((w * w).sum().backward(), 1.0)
    >>> norm.item(), clipped[w].numpy().round(3).tolist()
    (10.0, [0.6..., 0.8...])
    """
    clipping = Clipping("global_norm", max_norm)
    norm = global_norm(list(gradients))
    factor = _factor(norm, clipping.limit)
    return gradients.map(lambda g: _scaled(g, factor)), norm


def global_norm(gradients: Sequence[Tensor]) -> Tensor:
    """Return the 2-norm of all elements of all tensors, shape (); 0 for no tensors."""
    return norm_of_all(*gradients) if gradients else full((), 0.0)


@composite(samples=(sample((2, 3), (4,)), sample((3,))))
def norm_of_all(*tensors: Tensor) -> Tensor:
    """The 2-norm of all elements of one tensor or more: (...), ... -> ()."""
    squares = [in_dtype(t, t.dtype.compute).square().sum() for t in tensors]
    total = squares[0]
    for square in squares[1:]:
        total = total + square
    return total.sqrt()


@composite(samples=(sample((2, 3), ()), sample((4,), ())))
def gradient_scaled(gradient: Tensor, factor: Tensor, /) -> Tensor:
    """A gradient times a factor: (...), () -> (...)."""
    return gradient * factor


@dataclass(frozen=True)
class Clipping:
    """How an optimiser clips: by value, by the norm of each tensor, or by the norm of all."""

    by: Literal["value", "norm", "global_norm"]
    limit: float

    def __post_init__(self) -> None:
        positive(self, "limit")

    def __call__(self, gradients: Sequence[Tensor]) -> tuple[list[Tensor], Tensor | None]:
        """Return the gradients clipped, and their norm before, where it took one of all."""
        if self.by == "value":
            return [g.clip(-self.limit, self.limit) for g in gradients], None
        if self.by == "norm":
            factors = [_factor(global_norm([g]), self.limit) for g in gradients]
            return _all_scaled(gradients, factors), None
        norm = global_norm(gradients)
        return _all_scaled(gradients, [_factor(norm, self.limit)] * len(gradients)), norm


def _factor(norm: Tensor, max_norm: float) -> Tensor:
    return (max_norm / (norm + EPS)).minimum(1.0)


def _all_scaled(gradients: Sequence[Tensor], factors: Sequence[Tensor]) -> list[Tensor]:
    made = many(gradient_scaled, list(zip(gradients, factors, strict=True)))
    return [in_dtype(new, g.dtype) for new, g in zip(made, gradients, strict=True)]


def _scaled(g: Tensor, factor: Tensor) -> Tensor:
    return in_dtype(g * factor, g.dtype)


class Clipped(Protocol):
    """What is asked of an optimiser here."""

    @property
    def _clipping(self) -> Clipping | None: ...


def clip_groups(
    base: Clipped, due: list[ParameterGradient], chosen: Sequence[Clipped]
) -> tuple[list[ParameterGradient], Tensor | None]:
    """Clip each group that has a clipping of its own by itself, and all others together.

    ``chosen`` are the rules of those that are due.  Also returns the norm of the base's.
    """
    done, own_norm = list(due), None
    for rule in {id(rule): rule for rule in (base, *chosen)}.values():
        is_base = rule is base
        if rule._clipping is None:
            continue
        at = [
            i
            for i, other in enumerate(chosen)
            if other is rule or (is_base and other._clipping is None)
        ]
        gradients, norm = rule._clipping([due[i].gradient for i in at])
        for i, g in zip(at, gradients, strict=True):
            done[i] = due[i]._replace(gradient=g)
        own_norm = norm if is_base else own_norm
    return done, own_norm
