"""Metrics of classifiers: Accuracy, TopK, Precision, Recall and F-beta, from counts.

Predictions are a model's scores.  With one axis more than the targets, that axis holds one score
per class and targets are class numbers.  With as many axes as the targets, each score answers a
question of its own (binary, or one column per label), says yes from a threshold on, and targets are
0 or 1.

Source: Manning, Raghavan & Schütze 2008, Introduction to Information Retrieval, sections 8.3, 13.6.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import ArgumentError, ShapeError
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.train.metric.metric import Measured, SumMetric, ratio
from pyrite.train.output import Output

Average = Literal["micro", "macro"]


class Accuracy(SumMetric):
    """The fraction of right answers.  Predictions (N, ..., C) and targets (N, ...), or both alike.

    threshold: the score from which a binary answer is yes; 0 for logits, 0.5 for probabilities.
    ignore_index: a target that does not count, as of padding.
    """

    unit = "%"
    better = "higher"

    def __init__(
        self,
        *,
        threshold: float = 0.0,
        ignore_index: int | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.threshold = threshold
        self.ignore_index = ignore_index

    def measure(self, output: Output) -> Measured:
        """Return the number of right answers, and of answers."""
        scores, targets = scores_and_targets(self.name, output)
        if scores.ndim > targets.ndim:
            right = scores.argmax(axis=-1) == targets
        else:
            right = (scores >= self.threshold) == (targets != 0)
        return _kept(right, targets, self.ignore_index)

    def of_sums(self, *sums: NDArray[np.float64]) -> float:
        """Return right / all."""
        right, total = sums
        return float(ratio(right, total))


class TopK(SumMetric):
    """The fraction of targets among the k highest scores: predictions (..., C), targets (...).

    Among equal scores the lower class comes first, as in ``Tensor.topk``.
    ignore_index: a target that does not count, as of padding.
    """

    unit = "%"
    better = "higher"

    def __init__(
        self, k: int = 5, *, ignore_index: int | None = None, name: str | None = None
    ) -> None:
        if k < 1:
            raise ArgumentError(f"TopK requires k >= 1, got {k}")
        super().__init__(f"Top-{k}" if name is None else name)
        self.k = k
        self.ignore_index = ignore_index

    def measure(self, output: Output) -> Measured:
        """Return the number of targets found, and of targets."""
        scores, targets = scores_and_targets(self.name, output, by_class=True)
        if self.k > scores.shape[-1]:
            raise ShapeError(f"TopK requires k <= {scores.shape[-1]} classes, got k={self.k}")
        _, classes = scores.topk(self.k, axis=-1)
        found = (classes == targets[..., None]).any(axis=-1)
        return _kept(found, targets, self.ignore_index)

    def of_sums(self, *sums: NDArray[np.float64]) -> float:
        """Return found / all."""
        found, total = sums
        return float(ratio(found, total))


class _Counts(SumMetric):
    """A metric of how often each class was predicted, was right to predict, and was the target.

    average: "micro" counts all answers alike; "macro" is the mean over classes, of those that were
    predicted or wanted at all.
    ignore_index: a target that does not count, as of padding.
    """

    unit = "%"
    better = "higher"

    def __init__(
        self,
        average: Average = "macro",
        *,
        threshold: float = 0.0,
        ignore_index: int | None = None,
        name: str | None = None,
    ) -> None:
        if average not in ("micro", "macro"):
            raise ArgumentError(
                f"{type(self).__name__} requires average 'micro' or 'macro', got {average!r}"
            )
        super().__init__(name)
        self.average = average
        self.threshold = threshold
        self.ignore_index = ignore_index

    def measure(self, output: Output) -> Measured:
        """Return per class: true positives, predictions, and targets."""
        scores, targets = scores_and_targets(self.name, output)
        alike = scores.ndim == targets.ndim
        if not alike:
            classes = tensor(np.arange(scores.shape[-1]), device=scores.device)
            predicted = scores.argmax(axis=-1).reshape(-1, 1) == classes
            wanted = targets.reshape(-1, 1) == classes
        else:
            columns = targets.shape[-1] if targets.ndim > 1 else 1
            predicted = scores.reshape(-1, columns) >= self.threshold
            wanted = targets.reshape(-1, columns) != 0
        if self.ignore_index is not None:
            kept = (targets != self.ignore_index).reshape(-1, wanted.shape[1] if alike else 1)
            predicted, wanted = predicted & kept, wanted & kept
        return (predicted & wanted).sum(axis=0), predicted.sum(axis=0), wanted.sum(axis=0)

    def of_sums(self, *sums: NDArray[np.float64]) -> float:
        """Return the score of the counts, averaged."""
        hits, predicted, wanted = sums
        if self.average == "micro":
            return float(self.score(hits.sum(), predicted.sum(), wanted.sum()))
        seen = (predicted + wanted) > 0
        scores = self.score(hits[seen], predicted[seen], wanted[seen])
        return float(scores.mean()) if scores.size else 0.0

    @abstractmethod
    def score(self, hits: Any, predicted: Any, wanted: Any) -> NDArray[np.float64]:
        """Return the score of each class; 0 where it is 0 / 0."""


class Precision(_Counts):
    """The fraction of what was predicted that was right."""

    def score(self, hits: Any, predicted: Any, wanted: Any) -> NDArray[np.float64]:
        """Return hits / predicted."""
        return ratio(hits, predicted)


class Recall(_Counts):
    """The fraction of what was wanted that was predicted."""

    def score(self, hits: Any, predicted: Any, wanted: Any) -> NDArray[np.float64]:
        """Return hits / wanted."""
        return ratio(hits, wanted)


class FBeta(_Counts):
    """The harmonic mean of precision and recall, recall weighing beta² times as much."""

    def __init__(
        self,
        beta: float = 1.0,
        average: Average = "macro",
        *,
        threshold: float = 0.0,
        ignore_index: int | None = None,
        name: str | None = None,
    ) -> None:
        if not beta > 0:
            raise ArgumentError(f"FBeta requires beta > 0, got {beta}")
        super().__init__(
            average,
            threshold=threshold,
            ignore_index=ignore_index,
            name=f"F{beta:g}" if name is None else name,
        )
        self.beta = beta

    def score(self, hits: Any, predicted: Any, wanted: Any) -> NDArray[np.float64]:
        """Return (1 + beta²) hits / (beta² wanted + predicted)."""
        square = self.beta**2
        return ratio((1 + square) * hits, square * wanted + predicted)


def _kept(hits: Tensor, targets: Tensor, ignore_index: int | None) -> Measured:
    """How many hits and targets there are, of those that count."""
    if ignore_index is None:
        return hits.sum(), targets.size
    counts = targets != ignore_index
    return (hits & counts).sum(), counts.sum()


def scores_and_targets(
    metric: str, output: Output, *, by_class: bool = False
) -> tuple[Tensor, Tensor]:
    """Return predictions and targets.  Raises ShapeError when their shapes do not fit."""
    scores, targets = output.predictions, output.targets
    if not isinstance(scores, Tensor) or not isinstance(targets, Tensor):
        raise ArgumentError(
            f"{metric} requires predictions and targets that are tensors, got "
            f"{type(scores).__name__} and {type(targets).__name__}; give both to Output"
        )
    alike = scores.shape == targets.shape and not by_class
    if alike or (scores.shape[:-1] == targets.shape and scores.ndim):
        return scores, targets
    raise ShapeError(
        f"{metric} requires predictions (..., C) for targets (...), got {scores.shape} for "
        f"{targets.shape}"
    )
