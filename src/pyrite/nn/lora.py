"""Low-rank adaptation: a model is trained by small matrices beside its linear layers.

Names are PEFT's (``lora_A``, ``lora_B``, ``base_layer``), so that its files load by one rule for
their prefix.  Source: Hu et al. 2021, arXiv:2106.09685.
"""

from __future__ import annotations

from typing import TypeVar

from pyrite.errors import ArgumentError, ModuleError
from pyrite.nn.dropout import Dropout
from pyrite.nn.init import Zeros, positive
from pyrite.nn.linear import Linear
from pyrite.nn.module import Module
from pyrite.tensor.parameter import Parameter
from pyrite.tensor.tensor import Tensor

M = TypeVar("M", bound=Module)


class LoRA(Module):
    """base_layer(x) + alpha / rank * lora_B(lora_A(dropout(x))): (..., in) -> (..., out).

    ``base_layer`` is frozen.  lora_B begins as 0, so at first it gives what its base layer does.

    alpha: the scale of the change, rank by default; dropout: of what goes into ``lora_A``.
    """

    def __init__(
        self, base_layer: Linear, rank: int, *, alpha: float | None = None, dropout: float = 0.0
    ) -> None:
        if not isinstance(base_layer, Linear):
            raise ModuleError(f"LoRA requires an nn.Linear, got {type(base_layer).__name__}")
        positive("LoRA", rank=rank)
        weight = base_layer.weight
        dtype, device = weight.dtype, weight.device
        inner, outer = base_layer.in_features, base_layer.out_features
        self.rank = rank
        self.alpha = float(rank if alpha is None else alpha)
        self.base_layer = base_layer.freeze()
        self.dropout = Dropout(dropout)
        self.lora_A = Linear(inner, rank, bias=False, dtype=dtype, device=device)
        self.lora_B = Linear(
            rank, outer, bias=False, initializer=Zeros(), dtype=dtype, device=device
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return what the base layer makes of x, and the change beside it."""
        change = self.lora_B(self.lora_A(self.dropout(x)))
        return self.base_layer(x) + change * (self.alpha / self.rank)

    def merged(self) -> Linear:
        """Return the base layer with the change in its weight, which is a parameter of its own."""
        base = self.base_layer
        change = self.lora_B.weight @ self.lora_A.weight * (self.alpha / self.rank)
        # A weight of its own: what the base layer's is tied to was not adapted.
        weight = Parameter((base.weight + change).detach(), trainable=base.weight.trainable)
        return base.replace(weight=weight)


def lora(
    model: M, *patterns: str, rank: int, alpha: float | None = None, dropout: float = 0.0
) -> M:
    """Return the model frozen, with a trained `LoRA` in the place of linear layers, by path.

    patterns: of the paths of linear layers, as of ``Module.freeze``; other parts that they match
    stay.  alpha: the scale of the change, rank by default.  ``unfreeze`` trains more of it,
    ``model.save(path, only="*.lora_*")`` writes the adapters alone, and `merge_lora` leaves none.

    Raises ModuleError for a pattern without a linear layer, and where one is adapted already.

    >>> import pyrite
    >>> from pyrite import nn
    >>> layer = nn.TransformerEncoderLayer(16, 2, 32)
    >>> adapted = nn.lora(layer, "attention.*", rank=2)
    >>> sum(p.size for p in adapted.parameters() if p.trainable) == 4 * 2 * (16 + 16)
    True
    """
    if not patterns:
        raise ArgumentError('lora requires patterns of paths, got none; "*" is every linear layer')
    made = model.freeze()
    for pattern in patterns:
        layers = made.at[pattern].items()
        _require_plain(pattern, layers)
        made = made.at[pattern].apply(
            lambda part: (
                LoRA(part, rank, alpha=alpha, dropout=dropout) if isinstance(part, Linear) else part
            )
        )
    return made


def merge_lora(model: M) -> M:
    """Return the model with the change of each `LoRA` added to the weight of its base layer.

    It computes the same, up to rounding, and has no more parameters than before `lora`.  They are
    frozen where they were; see ``Module.unfreeze``.
    """
    return model.at["*"].apply(lambda part: part.merged() if isinstance(part, LoRA) else part)


def _require_plain(pattern: str, parts: dict[str, object]) -> None:
    if any(isinstance(part, LoRA) for part in parts.values()):
        raise ModuleError(
            f"lora requires layers that are not adapted, got {pattern!r}, which matches some that "
            "are; merge them first: nn.merge_lora(model)"
        )
    if not any(isinstance(part, Linear) for part in parts.values()):
        raise ModuleError(
            f"lora requires the path of an nn.Linear, got {pattern!r}, which matches "
            f"{', '.join(list(parts)[:8])}"
        )
