"""What all losses share: what becomes of the losses of single elements or samples."""

from __future__ import annotations

from typing import Literal, get_args

from pyrite.errors import ArgumentError, ShapeError
from pyrite.nn.module import Module
from pyrite.tensor.tensor import Tensor

#: The mean, the sum, the sum over the size of the first axis, or all of them as they are.
Reduction = Literal["mean", "sum", "batch_mean", "none"]
#: PyTorch's word for "batch_mean" is taken too.
Given = Reduction | Literal["batchmean"]


class Loss(Module):
    """A loss: how wrong predictions are, as one number unless ``reduction`` is "none".

    ``"mean"`` and ``"sum"`` are over all elements or samples, ``"batch_mean"`` is the sum over the
    number of samples, the size of the first axis.
    """

    def __init__(self, reduction: Given = "mean") -> None:
        if reduction == "batchmean":
            reduction = "batch_mean"
        if reduction not in get_args(Reduction):
            raise ArgumentError(
                f"{type(self).__name__} requires reduction to be one of "
                f"{', '.join(get_args(Reduction))}, got {reduction!r}"
            )
        self.reduction: Reduction = reduction

    def _reduced(self, losses: Tensor) -> Tensor:
        if self.reduction == "none":
            return losses
        if self.reduction == "mean":
            return losses.mean()
        if self.reduction == "sum":
            return losses.sum()
        return losses.sum() / self._samples(losses)

    def _samples(self, x: Tensor) -> int:
        if not x.ndim:
            raise ShapeError(f"{type(self).__name__} requires a batch axis, got shape ()")
        return x.shape[0]

    def _require_same_shape(self, prediction: Tensor, **others: Tensor) -> None:
        """Raise ShapeError where shapes differ: to broadcast a target is nearly always wrong."""
        for name, other in others.items():
            if other.shape != prediction.shape:
                raise ShapeError(
                    f"{type(self).__name__} requires {name} of the prediction's shape "
                    f"{prediction.shape}, got {other.shape}; reshape one of them"
                )
