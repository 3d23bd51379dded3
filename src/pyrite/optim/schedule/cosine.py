"""Schedules along half a cosine, once, again and again, or up and down."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from pyrite.optim.settings import non_negative, positive, require


def half_cosine(start: float, end: float, done: float) -> float:
    """Return the rate after a part, 0 <= done <= 1, of the way from start to end.

    >>> half_cosine(1.0, 0.0, 0.5)
    0.5
    """
    return end + (start - end) * (1 + math.cos(math.pi * done)) / 2


@dataclass(frozen=True)
class CosineAnnealing:
    """Half a cosine from ``learning_rate`` to ``min_learning_rate`` in ``steps`` steps, then kept.

    PyTorch's rises again after the last step; whoever wants that says `CosineWarmRestarts`.
    Source: Loshchilov & Hutter 2017, arXiv:1608.03983, equation 5, one period.

    >>> CosineAnnealing(1.0, steps=10)(5), CosineAnnealing(1.0, steps=10)(11)
    (0.5, 0.0)
    """

    learning_rate: float
    steps: int
    min_learning_rate: float = 0.0

    def __post_init__(self) -> None:
        non_negative(self, "learning_rate", "min_learning_rate")
        positive(self, "steps")

    def __call__(self, step: int) -> float:
        """Return the rate of a step."""
        done = min(step, self.steps) / self.steps
        return half_cosine(self.learning_rate, self.min_learning_rate, done)


@dataclass(frozen=True)
class CosineWarmRestarts:
    """Half a cosine in ``period`` steps, then from the start in ``period * period_factor``, and on.

    Source: Loshchilov & Hutter 2017, arXiv:1608.03983, equation 5; their T_0 and T_mult.

    >>> [round(CosineWarmRestarts(1.0, period=2)(step), 3) for step in range(4)]
    [1.0, 0.5, 1.0, 0.5]
    """

    learning_rate: float
    period: int
    period_factor: int = 1
    min_learning_rate: float = 0.0

    def __post_init__(self) -> None:
        non_negative(self, "learning_rate", "min_learning_rate")
        positive(self, "period")
        factor = self.period_factor
        require(self, "period_factor >= 1", f"period_factor={factor}", factor >= 1)

    def __call__(self, step: int) -> float:
        """Return the rate of a step."""
        since, period = step, self.period
        if self.period_factor == 1:
            since %= period
        while since >= period:
            since -= period
            period *= self.period_factor
        return half_cosine(self.learning_rate, self.min_learning_rate, since / period)


@dataclass(frozen=True)
class OneCycle:
    """Up to ``max_learning_rate`` in a fraction of the steps, then down to almost nothing.

    It starts at max / start_divisor and ends, after ``steps`` steps, at that / end_divisor, where
    it stays.  With ``three_phase`` it falls back to the start as fast as it rose, and then to the
    end.  Source: Smith & Topin 2018, arXiv:1708.07120; defaults and step counts as PyTorch's.

    >>> cycle = OneCycle(1.0, steps=11, rising=0.3)
    >>> [round(cycle(step), 2) for step in (0, 2, 10)]
    [0.04, 0.96, 0.0]
    """

    max_learning_rate: float
    steps: int
    rising: float = 0.3
    anneal: Literal["cosine", "linear"] = "cosine"
    start_divisor: float = 25.0
    end_divisor: float = 1e4
    three_phase: bool = False

    def __post_init__(self) -> None:
        non_negative(self, "max_learning_rate")
        positive(self, "start_divisor", "end_divisor")
        most = 0.5 if self.three_phase else 1.0
        ok = 0 < self.rising < most and self.rising * self.steps > 1
        got = f"rising={self.rising}, steps={self.steps}"
        require(self, f"1 / steps < rising < {most}", got, ok)
        ok = self.anneal in ("cosine", "linear")
        require(self, "anneal to be 'cosine' or 'linear'", repr(self.anneal), ok)

    def __call__(self, step: int) -> float:
        """Return the rate of a step."""
        begin = 0.0
        for end, start_rate, end_rate in self._phases():
            if step <= end:
                done = (step - begin) / (end - begin)
                if self.anneal == "cosine":
                    return half_cosine(start_rate, end_rate, done)
                return start_rate + (end_rate - start_rate) * done
            begin = end
        return end_rate

    def _phases(self) -> list[tuple[float, float, float]]:
        """Return (last step, first rate, last rate) of each phase."""
        peak, peak_at = self.max_learning_rate, self.rising * self.steps - 1
        start = peak / self.start_divisor
        end = start / self.end_divisor
        if not self.three_phase:
            return [(peak_at, start, peak), (self.steps - 1, peak, end)]
        return [(peak_at, start, peak), (2 * peak_at, peak, start), (self.steps - 1, start, end)]
