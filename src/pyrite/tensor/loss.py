"""Losses that deserve an op: their gradient is cheaper and safer than what their parts give.

A target of cross-entropy is a class index or a distribution over the classes; both become one
weight per class, so that value and gradient are elementwise work and sums along the class axis,
without a gather or a scatter.  float16 and bfloat16 are computed in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np

from pyrite.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from pyrite.op import Attributes, composite, integers, primitive, public, sample
from pyrite.op.rule import ASSIGN, Scatter
from pyrite.tensor.activation import Activation
from pyrite.tensor.extremum import Extremum
from pyrite.tensor.gradient import Gradients, by_position, chosen, in_dtype, widened
from pyrite.tensor.normalization import along
from pyrite.tensor.softmax import Softmax
from pyrite.types import Array, Shape, TensorType, bool_, broadcast, normalize_axis

#: What is returned of losses by sample: their mean, their sum, or all of them.
Reduction = Literal["mean", "sum", "none"]
#: Class indices that mark samples without a target.
Ignored = int | Sequence[int] | None

_OP = "cross_entropy"


# ---- types ----


def _without(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]


def _class_mask_type(targets: TensorType, *, classes: int, axis: int) -> TensorType:
    shape = targets.shape
    return TensorType((*shape[:axis], classes, *shape[axis:]), bool_)


def _class_mask(targets: Array, *, classes: int, axis: int) -> Array:
    outside = targets[(targets < 0) | (targets >= classes)]
    if outside.size:
        raise IndexRangeError(
            f"{_OP} requires targets 0 <= index < {classes}, the number of classes, got "
            f"{outside[0]}; mark samples without a target by ignore_index"
        )
    numbers = np.arange(classes).reshape((classes,) + (1,) * (targets.ndim - axis))
    mask: Array = np.expand_dims(targets, axis) == numbers
    return mask


def class_axis(op: str, axis: int | None, rank: int) -> int:
    """Return the axis of the classes: the last one, where nothing else can be meant."""
    if axis is None and rank > 2:
        raise ArgumentError(
            f"{op} requires the axis of the classes for {rank} axes, got none; write axis=1 for "
            "(N, C, ...), as of images, or axis=-1 for (N, T, C), as of texts"
        )
    return normalize_axis(op, -1 if axis is None else axis, rank)


def _canonical(
    logits: TensorType,
    *rest: TensorType | None,
    axis: int,
    label_smoothing: float,
    ignore_index: Ignored,
) -> Attributes:
    if not 0.0 <= label_smoothing <= 1.0:
        raise ArgumentError(f"{_OP} requires 0 <= label_smoothing <= 1, got {label_smoothing}")
    return {
        "axis": normalize_axis(_OP, axis, logits.ndim),
        "label_smoothing": float(label_smoothing),
        "ignore_index": _as_tuple(ignore_index),
    }


def _as_tuple(ignored: Ignored) -> tuple[int, ...]:
    if ignored is None:
        return ()
    return (ignored,) if isinstance(ignored, int) else tuple(ignored)


def _cross_entropy_type(
    logits: TensorType, targets: TensorType, weight: TensorType | None, *, axis: int, **_: Any
) -> TensorType:
    classes, rest = logits.shape[axis], _without(logits.shape, axis)
    if targets.dtype.is_bool or (targets.dtype.is_float and targets.dtype is not logits.dtype):
        raise DTypeError(
            f"{_OP} requires targets of an integer dtype, or probabilities in that of the logits, "
            f"{logits.dtype.name}, got {targets.dtype.name}; cast them with astype"
        )
    wanted = logits.shape if targets.dtype.is_float else rest
    if targets.shape != wanted:
        is_meant_as_index = targets.dtype.is_float and targets.shape == rest
        fix = "; cast indices of classes: targets.astype(int32)" if is_meant_as_index else ""
        kind = "probabilities" if targets.dtype.is_float else "indices"
        raise ShapeError(
            f"{_OP} requires targets of shape {wanted}, {kind} for logits of shape {logits.shape} "
            f"with classes on axis {axis}, got {targets.shape}{fix}"
        )
    if weight is not None and weight.shape != (classes,):
        raise ShapeError(
            f"{_OP} requires weight.shape == ({classes},), one for each class, got {weight.shape}"
        )
    return TensorType(rest, logits.dtype)


def _backward_types(
    g: TensorType, logits: TensorType, targets: TensorType, weight: TensorType | None, *,
    argnums: tuple[int, ...], **attrs: Any,
) -> tuple[TensorType, ...]:  # fmt: skip
    losses = _cross_entropy_type(logits, targets, weight, **attrs)
    if g.shape != losses.shape:
        raise ShapeError(f"{_OP}_backward requires g of shape {losses.shape}, got {g.shape}")
    found = [(logits, targets, weight)[position] for position in argnums]
    return tuple(t for t in found if t is not None)


def _binary_type(
    logits: TensorType, targets: TensorType, pos_weight: TensorType | None
) -> TensorType:
    shape = logits.shape
    name = "binary_cross_entropy_with_logits"
    if targets.shape != shape:
        raise ShapeError(f"{name} requires targets of shape {shape}, got {targets.shape}")
    if pos_weight is not None and broadcast(name, pos_weight.shape, shape) != shape:
        raise ShapeError(
            f"{name} requires pos_weight to broadcast to {shape}, got {pos_weight.shape}"
        )
    return logits


def _canonical_backward(
    g: TensorType, logits: TensorType, *rest: Any, argnums: Sequence[int], **attrs: Any
) -> Attributes:
    return {**_canonical(logits, **attrs), "argnums": tuple(argnums)}


# ---- arithmetic ----


def _distribution(
    targets: Any, logits: Any, *, axis: int, label_smoothing: float, ignore_index: tuple[int, ...]
) -> Any:
    """Return the target as a distribution over classes, smoothed; zeros where it is ignored."""
    classes = logits.shape[axis]
    if targets.dtype.is_float:
        return _smoothed(widened(targets), classes, label_smoothing)
    ignored = _is_any_of(targets, ignore_index)
    if ignored is not None:
        targets = ignored._where(0, targets)
    mask = targets._class_mask(classes=classes, axis=axis)
    found = _smoothed(mask.astype(logits.dtype), classes, label_smoothing)
    return found if ignored is None else ignored.expand_dims(axis)._where(0.0, found)


def _is_any_of(targets: Any, indices: tuple[int, ...]) -> Any:
    found = None
    for index in indices:
        same = targets.equal(index)
        found = same if found is None else found | same
    return found


def _smoothed(distribution: Any, classes: int, label_smoothing: float) -> Any:
    """Return the mixture with the uniform distribution (Szegedy et al. 2016, arXiv:1512.00567)."""
    if label_smoothing == 0.0:
        return distribution
    return distribution * (1.0 - label_smoothing) + label_smoothing / max(1, classes)


def _by_class(distribution: Any, weight: Any, axis: int) -> Any:
    return distribution if weight is None else distribution * along(weight, distribution, (axis,))


def _expected(coefficients: Any, log_probabilities: Any, axis: int) -> Any:
    """Return -sum(coefficients * log_probabilities), of which 0 * -inf is 0."""
    terms = coefficients * log_probabilities
    return -coefficients.equal(0.0)._where(0.0, terms).sum(axis)


def _reduced(losses: Any, reduction: Reduction, total: Any = None) -> Any:
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    if reduction == "mean" and total is None:
        return losses.mean()
    if reduction == "mean":
        return in_dtype(widened(losses).sum() / total, losses.dtype)
    raise ArgumentError(f"a loss requires reduction 'mean', 'sum' or 'none', got {reduction!r}")


def _total_weight(logits: Any, targets: Any, weight: Any, axis: int, ignore_index: Ignored) -> Any:
    """Return the sum of the targets' weights, by which a mean divides; None for their number."""
    indices = _as_tuple(ignore_index)
    if targets.dtype.is_float or (weight is None and not indices):
        return None
    # In the dtype of the computation: float16 counts no further than 65504.
    logits = widened(logits)
    if weight is None:
        return (~_is_any_of(targets, indices)).astype(logits.dtype).sum()
    found = _distribution(targets, logits, axis=axis, label_smoothing=0.0, ignore_index=indices)
    return _by_class(found, weight, axis).sum()


def _cross_entropy_vjp(
    g: Any, _: Any, logits: Any, targets: Any, weight: Any, *, axis: int, label_smoothing: float,
    ignore_index: tuple[int, ...], tracked: tuple[int, ...],
) -> tuple[Any, ...]:  # fmt: skip
    found = g._cross_entropy_backward(
        logits, targets, weight, axis=axis, label_smoothing=label_smoothing,
        ignore_index=ignore_index, argnums=tracked,
    )  # fmt: skip
    return by_position(found, tracked, 3)


class Loss(Softmax, Activation, Extremum):
    """Losses that deserve an op."""

    __slots__ = ()

    # ---- cross-entropy ----

    @primitive(
        rule=Scatter(
            lambda at, index, _, *, axis, **__: (*at[:axis], index(*at, of=0), *at[axis:]),
            ASSIGN,
            points=lambda targets, **_: targets.shape,
            counts_from_end=False,
            asked=_OP,
        ),
        reference=_class_mask,
        infer=_class_mask_type,
        vjp=(None,),
        accepts="integer",
        promotes=(0,),
        samples=(
            sample(integers((2, 3), 0, 4), classes=4, axis=1),
            sample(integers((), 0, 2), classes=2, axis=0),
            sample(integers((0,), 0, 2), classes=2, axis=1),
        ),
    )
    def _class_mask(self, /, *, classes: int, axis: int) -> Self:
        """Whether each class is the one that an index names: (...) -> bool (..., C, ...)."""
        ...

    @composite(
        canonical=_canonical,
        infer=_cross_entropy_type,
        vjp=_cross_entropy_vjp,
        accepts="float",
        promotes=(0, 2),
        samples=(
            sample((4, 3), integers((4,), 0, 3), None),
            sample((2, 3, 4), integers((2, 4), 0, 3), (3,), axis=1, label_smoothing=0.2),
            sample((4, 3), integers((4,), 0, 3), (3,), ignore_index=1),
            sample((2, 3), (2, 3), (3,), label_smoothing=0.1),
        ),
    )
    def _cross_entropy(
        self, targets: Self, weight: Self | None, /, *, axis: int = -1,
        label_smoothing: float = 0.0, ignore_index: Ignored = None,
    ) -> Self:  # fmt: skip
        """Cross-entropy by sample: (..., C) -> (...)."""
        logits = widened(self)
        found = _distribution(
            targets, logits, axis=axis, label_smoothing=label_smoothing,
            ignore_index=_as_tuple(ignore_index),
        )  # fmt: skip
        losses: Self = _expected(_by_class(found, weight, axis), logits.log_softmax(axis), axis)
        return in_dtype(losses, self.dtype)

    @composite(
        canonical=_canonical_backward,
        infer=_backward_types,
        accepts="float",
        promotes=(0, 1, 3),
        samples=(
            sample(
                (4,), (4, 3), integers((4,), 0, 3), (3,),
                axis=-1, label_smoothing=0.1, ignore_index=2, argnums=(0, 2),
            ),
            sample(
                (2,), (2, 3), (2, 3), None,
                axis=-1, label_smoothing=0.1, ignore_index=None, argnums=(0, 1),
            ),
        ),
    )  # fmt: skip
    def _cross_entropy_backward(
        self, logits: Self, targets: Self, weight: Self | None, /, *, axis: int,
        label_smoothing: float, ignore_index: tuple[int, ...], argnums: tuple[int, ...],
    ) -> Gradients:  # fmt: skip
        """Gradients of logits, targets and weight of `cross_entropy`, those at ``argnums``.

        self is g.  That of the logits is g * (softmax(logits) * sum(c) - c), where c is the target
        distribution times the weights of the classes.
        """
        g, logits = widened(self).expand_dims(axis), widened(logits)
        found = _distribution(
            targets, logits, axis=axis, label_smoothing=label_smoothing, ignore_index=ignore_index
        )
        coefficients = _by_class(found, weight, axis)

        def of_logits() -> Any:
            total = coefficients.sum(axis, keepdims=True)
            return g * (logits.softmax(axis) * total - coefficients)

        def of_targets() -> Any:
            slope = logits.log_softmax(axis) * (label_smoothing - 1.0)
            return g * _by_class(slope, weight, axis)

        def of_weight() -> Any:
            others = tuple(a for a in range(logits.ndim) if a != axis)
            return -(g * found * logits.log_softmax(axis)).sum(others)

        makers = {0: of_logits, 1: of_targets, 2: of_weight}
        return chosen(makers, argnums, self.dtype)

    @public
    def cross_entropy_with_logits(
        self,
        targets: Self,
        weight: Self | None = None,
        *,
        axis: int | None = None,
        label_smoothing: float = 0.0,
        ignore_index: Ignored = None,
        reduction: Reduction = "mean",
    ) -> Self:
        """-sum(targets * log_softmax(self)) along the class axis: (..., C, ...), targets -> ().

        Targets are class indices (...) of an integer dtype, or probabilities (..., C, ...).
        ``axis`` is that of the classes, and needed for logits of more than two: 1 for images, as in
        PyTorch, -1 for the (N, T, C) of language models.  ``weight`` (C,) weighs the classes;
        ``label_smoothing`` mixes targets with the uniform distribution; samples whose index is
        ``ignore_index``, or one of several, count for nothing.

        The mean over indices is weighted: it is divided by the weights of their classes, as in
        torch, and is NaN where all are ignored.  A class of target 0 adds nothing, also at a logit
        of -inf, where torch gives NaN.

        Raises ShapeError or DTypeError for targets of another shape or kind, and IndexRangeError
        for an index that is no class.

        >>> from pyrite.tensor.creation import tensor
        >>> loss = tensor([[0.0, 0.0]]).cross_entropy_with_logits(tensor([1]))
        >>> round(loss.item(), 4)
        0.6931
        """
        axis = class_axis(_OP, axis, self.ndim)
        if targets.dtype.is_float:
            targets = in_dtype(targets, self.dtype)
        losses = self._cross_entropy(
            targets, weight, axis=axis, label_smoothing=label_smoothing, ignore_index=ignore_index
        )
        total = None
        if reduction == "mean" and not (weight is None and ignore_index is None):
            total = _total_weight(self, targets, weight, axis, ignore_index)
        found: Self = _reduced(losses, reduction, total)
        return found

    cross_entropy = cross_entropy_with_logits

    @public
    def nll_loss(
        self,
        targets: Self,
        weight: Self | None = None,
        *,
        axis: int | None = None,
        ignore_index: Ignored = None,
        reduction: Reduction = "mean",
    ) -> Self:
        """-self at the target classes, self being log-probabilities: (..., C, ...), (...) -> ().

        Arguments and mean as in `cross_entropy_with_logits`, of which it is the second half.
        """
        axis = class_axis("nll_loss", axis, self.ndim)
        types = (self._type, targets._type, None if weight is None else weight._type)
        _cross_entropy_type(*types, axis=axis)
        found = _distribution(
            targets, self, axis=axis, label_smoothing=0.0, ignore_index=_as_tuple(ignore_index)
        )
        losses = _expected(_by_class(found, weight, axis), self, axis)
        total = None
        if reduction == "mean" and not (weight is None and ignore_index is None):
            total = _total_weight(self, targets, weight, axis, ignore_index)
        reduced: Self = _reduced(losses, reduction, total)
        return reduced

    # ---- binary cross-entropy ----

    @composite(
        accepts="float",
        promotes="all",
        infer=_binary_type,
        samples=(
            sample((2, 3), (2, 3), None),
            sample((2, 3), (2, 3), (3,)),
        ),
    )
    def _binary_cross_entropy_with_logits(self, targets: Self, pos_weight: Self | None, /) -> Self:
        """-(pos_weight * y * log(sigmoid(x)) + (1 - y) * log(1 - sigmoid(x))), elementwise."""
        x, y = widened(self), widened(targets)
        positive = y * (-x).softplus()
        if pos_weight is not None:
            positive = positive * widened(pos_weight)
        return in_dtype(positive + (1.0 - y) * x.softplus(), self.dtype)

    @public
    def binary_cross_entropy_with_logits(
        self,
        targets: Self,
        weight: Self | None = None,
        *,
        pos_weight: Self | None = None,
        reduction: Reduction = "mean",
    ) -> Self:
        """-(p y log(sigmoid(x)) + (1 - y) log(1 - sigmoid(x))): (...), targets y (...) -> ().

        ``pos_weight`` is p, one for each of the last axis in most uses; ``weight`` multiplies the
        losses; both broadcast.  Each half is a softplus, exact where the other is 0, so confident
        predictions keep their digits: x = -50 at y = 0 costs 2e-22.
        """
        losses = self._binary_cross_entropy_with_logits(targets, pos_weight)
        found: Self = _reduced(losses if weight is None else losses * weight, reduction)
        return found
