"""Cumulative ops: running sums, products and extrema along one axis."""

from __future__ import annotations

from pyrite.tensor.statistics import Statistics


class Cumulative(Statistics):
    """Cumulative ops."""

    __slots__ = ()
