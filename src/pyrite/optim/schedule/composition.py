"""Schedules made of schedules: at the same time, one after another, or after a warm-up."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pyrite.optim.schedule.decay import rising
from pyrite.optim.schedule.rate import Rate, rate_at
from pyrite.optim.settings import non_negative, positive, require


@dataclass(frozen=True)
class Composed:
    """The mean, sum or product of several schedules at the same step; numbers count as schedules.

    >>> from pyrite.optim.schedule import Exponential
    >>> Composed([Exponential(1.0, gamma=0.5), 0.1], "prod")(2)
    0.025
    """

    schedules: Sequence[Rate]
    reduction: Literal["avg", "sum", "prod"] = "prod"

    def __post_init__(self) -> None:
        object.__setattr__(self, "schedules", tuple(self.schedules))
        require(self, "at least one schedule", "none", bool(self.schedules))
        ok = self.reduction in ("avg", "sum", "prod")
        require(self, "reduction to be 'avg', 'sum' or 'prod'", repr(self.reduction), ok)

    def __call__(self, step: int) -> float:
        """Return the rate of a step."""
        rates = [rate_at(schedule, step) for schedule in self.schedules]
        if self.reduction == "prod":
            return math.prod(rates)
        return math.fsum(rates) / (len(rates) if self.reduction == "avg" else 1)


@dataclass(frozen=True)
class Sequential:
    """One schedule after another; the next begins at its own step 0 at each milestone, in steps.

    >>> from pyrite.optim.schedule import Constant, Exponential
    >>> then = Sequential([Constant(0.1), Exponential(1.0, gamma=0.5)], milestones=[2])
    >>> [then(step) for step in range(4)]
    [0.1, 0.1, 1.0, 0.5]
    """

    schedules: Sequence[Rate]
    milestones: Sequence[int]

    def __post_init__(self) -> None:
        object.__setattr__(self, "schedules", tuple(self.schedules))
        object.__setattr__(self, "milestones", rising(self, self.milestones))
        counts = len(self.schedules), len(self.milestones)
        require(
            self,
            "one schedule more than milestones",
            f"{counts[0]} schedules and {counts[1]} milestones",
            counts[0] == counts[1] + 1,
        )

    def __call__(self, step: int) -> float:
        """Return the rate of a step."""
        current = bisect_right(self.milestones, step)
        begin = self.milestones[current - 1] if current else 0
        return rate_at(self.schedules[current], step - begin)


@dataclass(frozen=True)
class WarmUp:
    """A straight line up to the first rate of a schedule, in ``steps`` steps, then the schedule.

    It starts at ``start_factor`` times that rate.  Source: Goyal et al. 2017, arXiv:1706.02677,
    section 2.2.

    >>> [WarmUp(1.0, steps=4)(step) for step in range(6)]
    [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]
    """

    schedule: Rate
    steps: int
    start_factor: float = 0.0

    def __post_init__(self) -> None:
        positive(self, "steps")
        non_negative(self, "start_factor")

    def __call__(self, step: int) -> float:
        """Return the rate of a step."""
        if step >= self.steps:
            return rate_at(self.schedule, step - self.steps)
        factor = self.start_factor + (1 - self.start_factor) * step / self.steps
        return rate_at(self.schedule, 0) * factor
