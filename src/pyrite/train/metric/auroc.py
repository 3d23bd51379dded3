"""AUROC: how well scores rank the positives above the negatives."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyrite.train.metric.ranking import RankingMetric


class AUROC(RankingMetric):
    """The area under the receiver operating characteristic.

    It is the probability that a positive item has a higher score than a negative one, ties counting
    half.  NaN without a positive and a negative.  Shapes and arguments: see `RankingMetric`.

    Source: Hanley & McNeil 1982, Radiology 143; ties by midranks.
    """

    def area(self, scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
        """Return the area of scores (N,)."""
        return area(scores, positive)

    def area_of_counts(self, hits: NDArray[np.float64], alarms: NDArray[np.float64]) -> float:
        """Return the area by the trapezoidal rule, from no threshold to one beyond all scores."""
        if not hits[0] or not alarms[0]:
            return float("nan")
        return float(np.trapezoid(np.append(0, hits[::-1]), np.append(0, alarms[::-1]))) / float(
            hits[0] * alarms[0]
        )


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
