"""Series: one curve, which grows at its end and is thinned to what a screen can show."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

GREATEST = 1e300


class Series:
    """Points in the order of x: (2, N), in memory that doubles when it is full."""

    def __init__(self) -> None:
        self._points = np.empty((2, 64))
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, x: float, y: float) -> None:
        """Add a point at the end; one that lies before it is left out."""
        if self._count and x < self._points[0, self._count - 1]:
            return
        if self._count == self._points.shape[1]:
            self._points = np.concatenate([self._points, np.empty_like(self._points)], axis=1)
        self._points[:, self._count] = x, y
        self._count += 1

    def cut(self, x: float) -> None:
        """Drop the points after x: of steps that are done again."""
        self._count = int(np.searchsorted(self.points[0], x, side="right"))

    @property
    def points(self) -> Numbers:
        """All points: x in the first row, y in the second."""
        return self._points[:, : self._count]

    def between(self, begin: float, end: float) -> Numbers:
        """Return the points with begin <= x <= end."""
        x = self.points[0]
        first, last = np.searchsorted(x, begin), np.searchsorted(x, end, side="right")
        return self.points[:, first:last]


def drawable(points: Numbers) -> Numbers:
    """Return the points that have a place in a plot: no NaN, and none whose distances overflow."""
    return points[:, np.abs(points[1]) < GREATEST]


def smoothed(points: Numbers, window: int) -> Numbers:
    """Return the points with each y the mean of the last `window`, or of as many as there are."""
    count = points.shape[1]
    if window <= 1 or count == 0:
        return points
    sums = np.concatenate([[0.0], np.cumsum(points[1])])
    ends = np.arange(1, count + 1)
    starts = np.maximum(ends - window, 0)
    return np.stack([points[0], (sums[ends] - sums[starts]) / (ends - starts)])


def thinned(points: Numbers, columns: int) -> Numbers:
    """Return at most four points per column of pixels: the first, least, greatest and last.

    A line through them covers the pixels that the line through all points covers.
    """
    count = points.shape[1]
    if count <= 4 * columns:
        return points
    x, y = points
    column = np.floor((x - x[0]) / (x[-1] - x[0] or 1.0) * columns).astype(np.int64)
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    ends = np.append(starts[1:], count)
    order = np.lexsort((y, column))  # within a column by y: its ends are the least and greatest
    kept = np.unique(np.concatenate([starts, ends - 1, order[starts], order[ends - 1]]))
    return points[:, kept]
