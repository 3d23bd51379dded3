"""RankingMetric: areas under curves over all thresholds of a score, exact or from counts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import ArgumentError
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.train.metric.classification import scores_and_targets
from pyrite.train.metric.metric import Measured, Metric
from pyrite.train.output import Output

Average = Literal["micro", "macro", "weighted"]
State = Mapping[str, NDArray[Any]]

Question = tuple[NDArray[np.float64], NDArray[np.bool_]]
"""Scores (N,), and which of them are of positives."""


class RankingMetric(Metric):
    """The area under a curve of scores, over all thresholds.

    Predictions and targets may be

    - binary: (N,) and 0 or 1 (N,);
    - of several labels: (N, L) and 0 or 1 (N, L), a question for each label;
    - of several classes: (N, C) and class numbers (N,), each class against the rest; where C = 2,
      class 1 alone.

    average: of labels or classes "macro" is the mean, of those for which the area is defined;
    "weighted" weighs them by their positives; "micro" asks all questions as one.
    thresholds: None keeps every score of the split, and is exact.  A number counts, on the device,
    how many scores reach each of so many thresholds from 0 to 1: the memory is constant.
    logits: whether scores are logits, of which classes are compared by softmax and thresholds are
    counted of sigmoid or softmax; False for probabilities.
    ignore_index: a target that does not count, as of padding.
    """

    better = "higher"

    def __init__(
        self,
        average: Average = "macro",
        *,
        thresholds: int | None = None,
        logits: bool = True,
        ignore_index: int | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        if average not in ("micro", "macro", "weighted"):
            raise ArgumentError(
                f"{type(self).__name__} requires average 'micro', 'macro' or 'weighted', got "
                f"{average!r}"
            )
        if thresholds is not None and thresholds < 2:
            raise ArgumentError(
                f"{type(self).__name__} requires thresholds >= 2 or None, got {thresholds}"
            )
        self.average = average
        self.thresholds = thresholds
        self.logits = logits
        self.ignore_index = ignore_index

    @abstractmethod
    def area(self, scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
        """Return the area of scores (N,), NaN where it is undefined."""

    @abstractmethod
    def area_of_counts(self, hits: NDArray[np.float64], alarms: NDArray[np.float64]) -> float:
        """Return the area of how many positives and negatives reach each threshold (T,)."""

    def measure(self, output: Output) -> Measured:
        """Return the scores and the targets, or how many there are by threshold."""
        scores, targets = scores_and_targets(self.name, output)
        return (scores, targets) if self.thresholds is None else self._counted(scores, targets)

    def add(self, state: State, measured: Sequence[NDArray[Any]]) -> Any:
        """Return the state after one more step."""
        return self.add_steps(state, [measured])

    def add_steps(self, state: State, steps: Sequence[Sequence[NDArray[Any]]]) -> Any:
        """Return all scores and targets one after the other, or the sum of the counts."""
        parts = list(zip(*steps, strict=True))
        if self.thresholds is None:
            scores, targets = parts
            return {
                "scores": _joined(state.get("scores"), map(_at_least_float32, scores)),
                "targets": _joined(state.get("targets"), targets),
            }
        counts, undefined = (sum(part, np.float64(0)) for part in parts)
        return {
            "counts": state.get("counts", 0) + counts,
            "undefined": np.asarray(state.get("undefined", 0) + undefined),
        }

    def value(self, state: State) -> float:
        """Return the area, NaN where a score is NaN."""
        if self.thresholds is None:
            questions = self._questions(state["scores"].astype(np.float64), state["targets"])
            if any(np.isnan(scores).any() for scores, _ in questions):
                return float("nan")
            if self.average == "micro":
                questions = [_as_one(questions)]
            areas = [self.area(scores, positive) for scores, positive in questions]
            return self._mean(areas, [float(positive.sum()) for _, positive in questions])
        if state["undefined"]:
            return float("nan")
        counts = state["counts"]  # (2, questions, T): negatives and positives, in each bin
        if self.average == "micro":
            counts = counts.sum(axis=1, keepdims=True)
        alarms, hits = np.flip(np.cumsum(np.flip(counts, axis=2), axis=2), axis=2)
        areas = [self.area_of_counts(*each) for each in zip(hits, alarms, strict=True)]
        return self._mean(areas, hits[:, 0])

    def _mean(self, areas: Sequence[float], positives: Any) -> float:
        found, weights = np.array(areas), np.asarray(positives, np.float64)
        defined = ~np.isnan(found)
        if self.average != "weighted":
            weights = np.ones(len(found))
        if not weights[defined].sum():
            return float("nan")
        return float(np.average(found[defined], weights=weights[defined]))

    def _questions(self, scores: NDArray[np.float64], targets: NDArray[Any]) -> list[Question]:
        if scores.ndim == targets.ndim:
            columns = targets.shape[-1] if targets.ndim > 1 else 1
            scores, targets = scores.reshape(-1, columns), targets.reshape(-1, columns)
            counts = self._counts(targets)
            return [
                (scores[counts[:, i], i], targets[counts[:, i], i] != 0) for i in range(columns)
            ]
        scores, targets = scores.reshape(-1, scores.shape[-1]), targets.reshape(-1)
        kept = self._counts(targets)
        scores, targets = scores[kept], targets[kept]
        shares = _softmax(scores) if self.logits else scores
        return [(shares[:, c], targets == c) for c in _classes(scores.shape[1])]

    def _counts(self, targets: NDArray[Any]) -> NDArray[np.bool_]:
        if self.ignore_index is None:
            return np.ones(targets.shape, bool)
        return np.asarray(targets != self.ignore_index)

    def _counted(self, scores: Tensor, targets: Tensor) -> Measured:
        """How many negatives and positives of each question lie at each threshold or above it."""
        shares, positive = self._shares(scores, targets)
        bins = self.thresholds or 0
        undefined = shares != shares
        height = ((shares * (bins - 1)).floor().clip(0, bins - 1)).where(~undefined, 0)
        columns = tensor(np.arange(shares.shape[1], dtype=np.int32), device=scores.device)
        place = (positive * shares.shape[1] + columns) * bins + height.astype("int32")
        kept = self._kept(scores, targets)
        if kept is not None:  # bincount leaves out what is in no bin
            place, undefined = place.where(kept, -1), undefined & kept
        counts = place.reshape(-1).bincount(size=2 * shares.shape[1] * bins)
        return counts.reshape(2, shares.shape[1], bins), undefined.sum()

    def _shares(self, scores: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities (N, questions) in float32, and 1 where the answer is yes."""
        scores = scores.astype("float32")
        if scores.ndim == targets.ndim:
            columns = targets.shape[-1] if targets.ndim > 1 else 1
            shares = scores.sigmoid() if self.logits else scores
            wanted = targets.reshape(-1, columns) != 0
            return shares.reshape(-1, columns), wanted.astype("int32")
        classes = _classes(scores.shape[-1])
        shares = scores.softmax(axis=-1) if self.logits else scores
        shares = shares.reshape(-1, scores.shape[-1])[:, classes.start :]
        numbers = tensor(np.array(classes, np.int32), device=scores.device)
        return shares, (targets.reshape(-1, 1) == numbers).astype("int32")

    def _kept(self, scores: Tensor, targets: Tensor) -> Tensor | None:
        if self.ignore_index is None:
            return None
        labels = targets.shape[-1] if scores.ndim == targets.ndim and targets.ndim > 1 else 1
        return (targets != self.ignore_index).reshape(-1, labels)


def _classes(count: int) -> range:
    """Return the classes to score: of two the second alone, which says all."""
    return range(1, 2) if count == 2 else range(count)


def _as_one(questions: Sequence[Question]) -> Question:
    scores, positive = zip(*questions, strict=True)
    return np.concatenate(scores), np.concatenate(positive)


def _joined(before: NDArray[Any] | None, arrays: Iterable[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate([*([] if before is None else [before]), *arrays])


def _at_least_float32(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(np.float32) if array.itemsize < 4 else array


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    if not logits.size:
        return logits
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))
