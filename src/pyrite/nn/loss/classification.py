"""Losses of classes and of distributions over them.

Cross-entropies come as ops with their own gradient (`pyrite.tensor.loss`); weights of classes are
constants of the module and are used in the dtype of the prediction.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyrite.errors import ArgumentError, ShapeError
from pyrite.nn.loss.reduction import Given, Loss
from pyrite.tensor.creation import tensor
from pyrite.tensor.inspection import finfo
from pyrite.tensor.loss import Reduction as OpReduction
from pyrite.tensor.tensor import Tensor

Weights = Tensor | Sequence[float] | None


def _weights(weights: Weights) -> Tensor | None:
    return weights if weights is None or isinstance(weights, Tensor) else tensor(weights)


def _like(weights: Tensor | None, x: Tensor) -> Tensor | None:
    return None if weights is None else weights.astype(x.dtype)


class _ByClass(Loss):
    """A loss of class indices, with weights of classes and indices that count for nothing."""

    def __init__(
        self,
        weight: Weights,
        ignore_index: int | Sequence[int] | None,
        axis: int | None,
        reduction: Given,
    ) -> None:
        super().__init__(reduction)
        self.weight = _weights(weight)
        if isinstance(ignore_index, Sequence):
            ignore_index = tuple(ignore_index)
        self.ignore_index = ignore_index
        self.axis = axis

    def _of_op(self, loss: Tensor, prediction: Tensor) -> Tensor:
        """Return what the op made; it sums where the mean over the batch is wanted."""
        return loss / self._samples(prediction) if self.reduction == "batch_mean" else loss

    @property
    def _op_reduction(self) -> OpReduction:
        return "sum" if self.reduction == "batch_mean" else self.reduction


class CrossEntropyLoss(_ByClass):
    """-log softmax(prediction) at the target class: (N, C, ...), (N, ...) -> ().

    Targets are class indices, or probabilities of the shape of the prediction.  ``axis`` is that of
    the classes, and needed for predictions of more than two: 1 for images, as in PyTorch, or -1 for
    the (N, T, C) of language models.  ``weight`` (C,) weighs classes, and the mean divides by the
    weights of the targets.  Samples whose index is ``ignore_index``, or one of several (Burn's
    pad_tokens), count for nothing.  ``label_smoothing`` mixes targets with the uniform
    distribution.  ``logits=False`` means that predictions are probabilities.

    Raises ShapeError, DTypeError or IndexRangeError for targets that do not fit.

    >>> import pyrite
    >>> from pyrite import nn
    >>> nn.CrossEntropyLoss()(pyrite.tensor([[0.0, 0.0]]), pyrite.tensor([1])).item()
    0.693147...
    """

    def __init__(
        self,
        weight: Weights = None,
        ignore_index: int | Sequence[int] | None = -100,
        label_smoothing: float = 0.0,
        axis: int | None = None,
        logits: bool = True,
        reduction: Given = "mean",
    ) -> None:
        super().__init__(weight, ignore_index, axis, reduction)
        _require_smoothing(self, label_smoothing)
        self.label_smoothing = label_smoothing
        self.logits = logits

    def forward(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the cross-entropy of the target and the prediction."""
        logits = prediction if self.logits else _log_of_probabilities(prediction)
        loss = logits.cross_entropy_with_logits(
            target, _like(self.weight, logits), axis=self.axis,
            label_smoothing=self.label_smoothing, ignore_index=self.ignore_index,
            reduction=self._op_reduction,
        )  # fmt: skip
        return self._of_op(loss, prediction)


def _require_smoothing(loss: Loss, label_smoothing: float) -> None:
    if not 0 <= label_smoothing <= 1:
        raise ArgumentError(
            f"{type(loss).__name__} requires 0 <= label_smoothing <= 1, got {label_smoothing}"
        )


def _log_of_probabilities(p: Tensor) -> Tensor:
    # Probabilities of 0 count as the smallest normal number: the log and its slope stay finite.
    return p.maximum(finfo(p.dtype).smallest_normal).log()


class NLLLoss(_ByClass):
    """-prediction at the target class, of log-probabilities: (N, C, ...), (N, ...) -> ().

    Arguments as of `CrossEntropyLoss`, of which this is the second half.
    """

    def __init__(
        self,
        weight: Weights = None,
        ignore_index: int | Sequence[int] | None = -100,
        axis: int | None = None,
        reduction: Given = "mean",
    ) -> None:
        super().__init__(weight, ignore_index, axis, reduction)

    def forward(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the negative log-likelihood of the target."""
        loss = prediction.nll_loss(
            target, _like(self.weight, prediction), axis=self.axis,
            ignore_index=self.ignore_index, reduction=self._op_reduction,
        )  # fmt: skip
        return self._of_op(loss, prediction)


class BinaryCrossEntropyLoss(Loss):
    """-(y log(p) + (1 - y) log(1 - p)) of probabilities p and targets y: (...), (...) -> ().

    With ``logits=True`` predictions are logits, and nothing is lost where p would round to 0 or 1;
    of probabilities the logs are not less than -100, as in PyTorch, and at exactly 0 and 1 have no
    slope.  ``weight`` multiplies the losses and ``pos_weight`` the first term; both broadcast.
    ``label_smoothing`` moves targets towards 1/2.

    >>> import pyrite
    >>> from pyrite import nn
    >>> nn.BinaryCrossEntropyLoss()(pyrite.tensor([0.5]), pyrite.tensor([1.0])).item()
    0.693147...
    """

    def __init__(
        self,
        weight: Weights = None,
        pos_weight: Weights = None,
        label_smoothing: float = 0.0,
        logits: bool = False,
        reduction: Given = "mean",
    ) -> None:
        super().__init__(reduction)
        _require_smoothing(self, label_smoothing)
        self.weight = _weights(weight)
        self.pos_weight = _weights(pos_weight)
        self.label_smoothing = label_smoothing
        self.logits = logits

    def forward(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the cross-entropy of the target and the prediction."""
        self._require_same_shape(prediction, target=target)
        y = target.astype(prediction.dtype)
        y = y * (1 - self.label_smoothing) + self.label_smoothing / 2
        weight, pos_weight = _like(self.weight, y), _like(self.pos_weight, y)
        if self.logits:
            losses = prediction.binary_cross_entropy_with_logits(
                y, weight, pos_weight=pos_weight, reduction="none"
            )
            return self._reduced(losses)
        positive = y * _bounded_log(prediction)
        positive = positive if pos_weight is None else positive * pos_weight
        losses = -(positive + (1 - y) * _bounded_log(1 - prediction))
        return self._reduced(losses if weight is None else losses * weight)


def _bounded_log(p: Tensor) -> Tensor:
    is_zero = p == 0
    return p.mask_where(is_zero, 1).log().maximum(-100).mask_where(is_zero, -100)


class BCEWithLogitsLoss(BinaryCrossEntropyLoss):
    """`BinaryCrossEntropyLoss` of logits, under PyTorch's name."""

    def __init__(
        self,
        weight: Weights = None,
        pos_weight: Weights = None,
        label_smoothing: float = 0.0,
        reduction: Given = "mean",
    ) -> None:
        super().__init__(weight, pos_weight, label_smoothing, True, reduction)


class FocalLoss(Loss):
    """Binary cross-entropy of logits, less of what is easy: (...), (...) -> ().

    -alpha (1 - p) ** gamma log(p) with p the probability of the true class, targets being 0 or 1;
    alpha weighs targets of 1, and 1 - alpha those of 0.  ``alpha=None`` weighs nothing.

    Source: Lin et al. 2017, arXiv:1708.02002, equation 5.
    """

    def __init__(
        self, alpha: float | None = 0.25, gamma: float = 2.0, reduction: Given = "mean"
    ) -> None:
        super().__init__(reduction)
        if alpha is not None and not 0 <= alpha <= 1:
            raise ArgumentError(f"FocalLoss requires 0 <= alpha <= 1, got {alpha}")
        if gamma < 0:
            raise ArgumentError(f"FocalLoss requires gamma >= 0, got {gamma}")
        self.alpha = alpha
        self.gamma = gamma

    def forward(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the focal loss of the logits."""
        self._require_same_shape(prediction, target=target)
        y = target.astype(prediction.dtype)
        margin = prediction * (2 * y - 1)
        # log(p) = -softplus(-margin) and log(1 - p) = -softplus(margin): no digits are lost.
        losses = (-margin).softplus() * (margin.softplus() * -self.gamma).exp()
        if self.alpha is not None:
            losses = losses * (y * self.alpha + (1 - y) * (1 - self.alpha))
        return self._reduced(losses)


class KLDivLoss(Loss):
    """target * (log(target) - prediction), of log-probabilities: (...), (...) -> ().

    Predictions are log-probabilities, and with ``log_target`` targets too.  The divergence of
    distributions is ``reduction="batch_mean"``; the mean over elements, as in PyTorch, is not.

    Source: Kullback & Leibler 1951.
    """

    def __init__(self, log_target: bool = False, reduction: Given = "mean") -> None:
        super().__init__(reduction)
        self.log_target = log_target

    def forward(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the divergence of the prediction from the target."""
        self._require_same_shape(prediction, target=target)
        if self.log_target:
            return self._reduced(target.exp() * (target - prediction))
        return self._reduced(target.xlogy(target) - target * prediction)


class MultiMarginLoss(Loss):
    """Sum of max(0, margin - x[y] + x[j]) ** p over classes j != y, over C: (N, C), (N,) -> ().

    ``weight`` (C,) weighs the target classes.

    Raises IndexRangeError for a target that is no class.
    """

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Weights = None,
        reduction: Given = "mean",
    ) -> None:
        super().__init__(reduction)
        if p not in (1, 2):
            raise ArgumentError(f"MultiMarginLoss requires p of 1 or 2, got {p}")
        self.p = p
        self.margin = margin
        self.weight = _weights(weight)

    def forward(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return how far other classes come near the target class."""
        if prediction.ndim != 2 or target.shape != prediction.shape[:1]:
            raise ShapeError(
                f"MultiMarginLoss requires x of shape (N, C) and targets (N,), got "
                f"{prediction.shape} and {target.shape}"
            )
        column = target.expand_dims(-1)
        short = (self.margin - prediction.take_along_axis(column, axis=1) + prediction).relu()
        terms = (short if self.p == 1 else short.square()).where(_classes(prediction) != column, 0)
        losses = terms.mean(-1)
        weight = _like(self.weight, prediction)
        return self._reduced(losses if weight is None else losses * weight.take(target, axis=0))


class MultiLabelMarginLoss(Loss):
    """Sum of max(0, 1 - x[y] + x[j]) over targets y and others j, over C: (N, C), (N, C) -> ().

    A row of targets is class indices up to the first negative one; what follows counts for nothing.
    """

    def forward(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return how far other classes come near the target classes."""
        self._require_same_shape(prediction, target=target)
        if prediction.ndim != 2:
            raise ShapeError(
                f"MultiLabelMarginLoss requires x of shape (N, C), got {prediction.shape}"
            )
        is_target = (target < 0).astype("int32").cumulative_sum(1) == 0
        of_targets = prediction.take_along_axis(target.where(is_target, 0), axis=1).expand_dims(2)
        is_same = (target.expand_dims(2) == _classes(prediction)) & is_target.expand_dims(2)
        counts = is_target.expand_dims(2) & ~is_same.any(1, keepdims=True)
        short = (1 - of_targets + prediction.expand_dims(1)).relu()
        return self._reduced(short.where(counts, 0).sum((1, 2)) / prediction.shape[1])


def _classes(prediction: Tensor) -> Tensor:
    """Return the numbers of the classes on the last axis."""
    return tensor(np.arange(prediction.shape[-1], dtype=np.int32), device=prediction.device)


class SoftMarginLoss(Loss):
    """log(1 + exp(-target * prediction)) for targets of 1 and -1: (...), (...) -> ()."""

    def forward(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return how far predictions are from the side of their target."""
        self._require_same_shape(prediction, target=target)
        return self._reduced((-(prediction * target)).softplus())
