"""AveragePrecision: the area under the precision-recall curve."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyrite.train.metric.metric import ratio
from pyrite.train.metric.ranking import RankingMetric


class AveragePrecision(RankingMetric):
    """The area under the precision-recall curve (AUC-PR), as average precision.

    The sum over thresholds of precision × the recall gained there, without interpolation, as in
    scikit-learn and torchmetrics.  NaN without a positive.  Shapes and arguments: see
    `RankingMetric`.

    Source: Manning, Raghavan & Schütze 2008, section 8.4; Davis & Goadrich 2006, ICML, for why not
    the trapezoidal rule.
    """

    default_name = "AUC-PR"

    def area(self, scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
        """Return the average precision of scores (N,)."""
        return average_precision(scores, positive)

    def area_of_counts(self, hits: NDArray[np.float64], alarms: NDArray[np.float64]) -> float:
        """Return the average precision of counts by threshold."""
        if not hits[0]:
            return float("nan")
        gained = -np.diff(hits, append=0)
        return float((gained * ratio(hits, hits + alarms)).sum() / hits[0])


def average_precision(scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
    """Return the average precision of scores (N,) for positives (N,), NaN without one.

    >>> average_precision(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True]))
    0.8333333333333333
    """
    if not positive.any():
        return float("nan")
    order = np.argsort(-scores)
    ordered, hits = scores[order], np.cumsum(positive[order])
    last = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))  # of equal scores
    hits = hits[last]
    return float((np.diff(hits, prepend=0) * (hits / (last + 1))).sum() / hits[-1])
