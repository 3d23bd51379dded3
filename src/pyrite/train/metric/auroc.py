"""AUROC: how well scores rank the positives above the negatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.train.metric.classification import scores_and_targets
from pyrite.train.metric.metric import Measured, Metric
from pyrite.train.output import Output


class AUROC(Metric):
    """The area under the receiver operating characteristic.

    It is the probability that a positive item has a higher score than a negative one, ties counting
    half.  Predictions (N,) and targets 0 or 1 (N,); or one logit per class (N, C) and class numbers
    (N,): the area of class 1 where C = 2, else the mean of each class against the rest, over the
    classes that have both.  It keeps every score.  NaN without a positive and a negative.

    Source: Hanley & McNeil 1982, Radiology 143; ties by midranks.
    """

    better = "higher"

    def measure(self, output: Output) -> Measured:
        """Return the scores and the targets."""
        return scores_and_targets(self.name, output)

    def add(self, state: Mapping[str, NDArray[Any]], measured: Sequence[NDArray[Any]]) -> Any:
        """Return all scores and targets, one after the other."""
        scores, targets = measured
        scores = scores.astype(np.float64)
        if not state:
            return {"scores": scores, "targets": np.array(targets)}
        return {
            "scores": np.concatenate([state["scores"], scores]),
            "targets": np.concatenate([state["targets"], targets]),
        }

    def value(self, state: Mapping[str, NDArray[Any]]) -> float:
        """Return the area."""
        scores, targets = state["scores"], state["targets"]
        if scores.ndim == targets.ndim:
            return area(scores.reshape(-1), targets.reshape(-1) != 0)
        scores = _probabilities(scores.reshape(-1, scores.shape[-1]))
        targets = targets.reshape(-1)
        classes = (1,) if scores.shape[1] == 2 else range(scores.shape[1])
        areas = [area(scores[:, c], targets == c) for c in classes]
        defined = [a for a in areas if not np.isnan(a)]
        return float(np.mean(defined)) if defined else float("nan")


def area(scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
    """Return the area under the curve of scores (N,) for positives (N,), NaN if it is undefined.

    >>> area(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True]))
    0.75
    """
    positives = int(positive.sum())
    negatives = positive.size - positives
    if not positives or not negatives:
        return float("nan")
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    midranks = np.cumsum(counts) - (counts - 1) / 2
    ranks = midranks[inverse.reshape(-1)][positive].sum()
    return float((ranks - positives * (positives + 1) / 2) / (positives * negatives))


def _probabilities(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores that can be compared between items: softmax over the classes."""
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))
