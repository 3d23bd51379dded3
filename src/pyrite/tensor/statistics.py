"""Statistics made of reductions: means, variances, quantiles."""

from __future__ import annotations

from pyrite.tensor.reduction import Reduction


class Statistics(Reduction):
    """Statistics made of reductions."""

    __slots__ = ()
