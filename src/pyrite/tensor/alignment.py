"""What losses over alignments share: log-probabilities of paths, lengths, reductions.

A path that cannot be has the log-probability `IMPOSSIBLE`, a number and not -inf: the sum of two
such paths has a slope, so that the losses can be differentiated any number of times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyrite.errors import ArgumentError, DTypeError, ShapeError
from pyrite.op import Attributes, Sample, composite, sample
from pyrite.tensor.creation import tensor
from pyrite.tensor.loss import Reduction
from pyrite.tensor.tensor import Tensor
from pyrite.types import TensorType, normalize_axis

#: The log-probability of what cannot be: so small that no sum of real ones comes near, so large
#: that a sum of a million is a float32.
IMPOSSIBLE = -1e30

#: Numbers of steps or of labels, one for each sample.
Lengths = Tensor | Sequence[int]


def as_integers(values: Lengths, like: Tensor) -> Tensor:
    """Return labels, or lengths, as an int32 tensor; floats as they are, for an error."""
    if isinstance(values, Tensor):
        return values.astype("int32") if values.dtype.is_integer else values
    array = np.asarray(values)
    is_integer = array.dtype.kind in "iu" or not array.size
    return tensor(array.astype(np.int32) if is_integer else array, device=like.device)


def require_within(op: str, most: int, **lengths: Lengths) -> None:
    """Raise unless lengths that the host knows lie between 0 and the most.

    It is asked once shapes are known to fit; a device's lengths are not waited for.
    """
    for name, given in lengths.items():
        for length in () if isinstance(given, Tensor) else np.asarray(given).flat:
            if not 0 <= length <= most:
                raise ArgumentError(f"{op} requires 0 <= {name} <= {most}, got {length}")


def require_labels(op: str, targets: TensorType, lengths: Sequence[TensorType], batch: int) -> None:
    """Raise unless targets are integers (N, S), and there is a length of each kind a sample."""
    for name, t in (
        ("targets", targets),
        ("input_lengths", lengths[0]),
        ("target_lengths", lengths[1]),
    ):
        if not t.dtype.is_integer:
            raise DTypeError(f"{op} requires {name} of an integer dtype, got {t.dtype.name}")
    if targets.ndim != 2 or targets.shape[0] != batch:
        raise ShapeError(f"{op} requires targets of shape ({batch}, S), got {targets.shape}")
    for name, t in (("input_lengths", lengths[0]), ("target_lengths", lengths[1])):
        if t.shape != (batch,):
            raise ShapeError(f"{op} requires {name} of shape ({batch},), got {t.shape}")


def gradient_of(
    canonical: Callable[..., Attributes],
    infer: Callable[..., TensorType],
    samples: Sequence[Sample],
    *,
    batch: int,
) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    """Return the decorator of a loss's gradient for its log-probabilities.

    Its operands are those of the loss, behind the cotangents of the losses (N,), and what it gives
    has the type of the log-probabilities.  batch: their axis of samples.
    """

    def attributes(g: TensorType, *operands: TensorType, **attrs: Any) -> Attributes:
        return canonical(*operands, **attrs)

    def type_of(g: TensorType, log_probs: TensorType, *rest: TensorType, **attrs: Any) -> Any:
        infer(log_probs, *rest, **attrs)
        return log_probs

    return composite(
        canonical=attributes,
        infer=type_of,
        accepts="float",
        promotes=(0, 1),
        samples=tuple(
            sample((s.inputs[0].shape[batch],), *s.inputs, **s.attrs)  # type: ignore[union-attr]
            for s in samples
        ),
    )


def blank_of(op: str, log_probs: TensorType, blank: int) -> Attributes:
    """Return the class of the blank, counted from the first."""
    classes = log_probs.shape[-1] if log_probs.ndim else 0
    if not classes:
        raise ShapeError(f"{op} requires log_probs with an axis of classes, got {log_probs.shape}")
    if not -classes <= blank < classes:
        raise ArgumentError(f"{op} requires {-classes} <= blank < {classes}, got {blank}")
    return {"blank": normalize_axis(op, blank, classes)}


def loss_of(total: Any, zero_infinity: bool) -> Any:
    """Return -log of the probability of all paths: infinity, or 0, where there is none."""
    return is_possible(total)._where(-total, 0.0 if zero_infinity else math.inf)


def slope_of(posterior: Any, total: Any, zero_infinity: bool) -> Any:
    """Return how often a step is on a path: NaN, or 0, where there is none."""
    return is_possible(total)._where(posterior, 0.0 if zero_infinity else math.nan)


def is_possible(total: Any) -> Any:
    """Whether there is any path; a total that is NaN is none that there is not."""
    return ~(total < IMPOSSIBLE / 2)


def reduced(losses: Tensor, reduction: Reduction) -> Tensor:
    """Return the mean or sum of losses, or themselves."""
    if reduction == "mean":
        return losses.mean()
    if reduction == "sum":
        return losses.sum()
    if reduction == "none":
        return losses
    raise ArgumentError(f"a loss requires reduction 'mean', 'sum' or 'none', got {reduction!r}")
