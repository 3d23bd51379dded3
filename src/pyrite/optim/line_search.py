"""A step length along a line that meets the strong Wolfe conditions.

The function is known only by ``sample(length)``, which gives its value and slope there; each call
costs a forward and a backward pass, so their number is bounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

#: Least decrease, as a part of what the slope promises (Nocedal & Wright 2006, section 3.1).
DECREASE = 1e-4
#: Greatest slope that is left, as a part of the first; their value for quasi-Newton methods.
CURVATURE = 0.9
#: How near to an end of its bracket an interpolated length may be, as a part of the bracket.
MARGIN = 0.1
#: How much longer the next length is while no bracket is known: at least, and at most.
GROWTH = (1.1, 10.0)


class Sample(NamedTuple):
    """The function at one length; ``point`` is whatever the caller wants back from there."""

    length: float
    value: float
    slope: float
    point: Any

    @property
    def is_finite(self) -> bool:
        """Whether value and slope are numbers."""
        return math.isfinite(self.value) and math.isfinite(self.slope)


def strong_wolfe(
    sample: Callable[[float], Sample], start: Sample, length: float, max_samples: int
) -> Sample:
    """Return a sample with enough decrease and a flat slope, or the best found in ``max_samples``.

    ``start`` has length 0 and a slope below 0; ``length`` is tried first.  A length at which the
    function is infinite or NaN counts as too long.

    Source: Nocedal & Wright 2006, algorithms 3.5 and 3.6, with cubic interpolation (3.59).
    """
    low, tried = start, sample(length)
    for used in range(1, max_samples + 1):
        if _is_too_high(tried, start) or (used > 1 and tried.value >= low.value):
            return _zoom(sample, start, low, tried, max_samples - used)
        if _is_flat(tried, start) or used == max_samples:
            return tried
        if tried.slope >= 0:
            return _zoom(sample, start, tried, low, max_samples - used)
        least, most = (tried.length * growth for growth in GROWTH)
        low, tried = tried, sample(_clamped(_interpolated(low, tried), least, most))
    raise AssertionError("the loop returns at the last sample")


def _zoom(
    sample: Callable[[float], Sample], start: Sample, low: Sample, high: Sample, max_samples: int
) -> Sample:
    """Narrow the bracket of the best length known and another beyond a minimum."""
    for _ in range(max_samples):
        margin = MARGIN * abs(high.length - low.length)
        nearest, farthest = sorted((low.length, high.length))
        length = _clamped(_interpolated(low, high), nearest + margin, farthest - margin)
        if not nearest < length < farthest:
            break
        tried = sample(length)
        if _is_too_high(tried, start) or tried.value >= low.value:
            high = tried
            continue
        if _is_flat(tried, start):
            return tried
        if tried.slope * (high.length - low.length) >= 0:
            high = low
        low = tried
    return low


def _is_too_high(tried: Sample, start: Sample) -> bool:
    bound = start.value + DECREASE * tried.length * start.slope
    return not tried.is_finite or tried.value > bound


def _is_flat(tried: Sample, start: Sample) -> bool:
    return abs(tried.slope) <= -CURVATURE * start.slope


def _interpolated(x: Sample, y: Sample) -> float:
    """Return the minimum of the cubic through two samples, or the middle where there is none."""
    middle = (x.length + y.length) / 2
    if not (x.is_finite and y.is_finite) or x.length == y.length:
        return middle
    d1 = x.slope + y.slope - 3 * (x.value - y.value) / (x.length - y.length)
    square = d1 * d1 - x.slope * y.slope
    if square < 0:
        return middle
    d2 = math.copysign(math.sqrt(square), y.length - x.length)
    divisor = y.slope - x.slope + 2 * d2
    if divisor == 0:
        return middle
    return y.length - (y.length - x.length) * (y.slope + d2 - d1) / divisor


def _clamped(length: float, least: float, most: float) -> float:
    return min(max(length, least), most)
