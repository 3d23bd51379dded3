"""Schedules in closed form that fall, or grow, at a steady pace or at milestones."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from pyrite.optim.settings import non_negative, positive, require


@dataclass(frozen=True)
class Constant:
    """The same rate at every step.

    >>> Constant(0.1)(1000)
    0.1
    """

    learning_rate: float

    def __post_init__(self) -> None:
        non_negative(self, "learning_rate")

    def __call__(self, step: int) -> float:
        """Return the rate of a step."""
        return self.learning_rate


@dataclass(frozen=True)
class Linear:
    """A straight line from one rate to another, reached after ``steps`` steps and then kept.

    >>> Linear(1.0, 0.0, steps=4)(1)
    0.75
    """

    start: float
    end: float
    steps: int

    def __post_init__(self) -> None:
        non_negative(self, "start", "end")
        positive(self, "steps")

    def __call__(self, step: int) -> float:
        """Return the rate of a step."""
        done = min(step, self.steps) / self.steps
        return self.start + (self.end - self.start) * done


@dataclass(frozen=True)
class Polynomial:
    """min + (learning_rate - min) (1 - step / steps) ** power, then min.

    >>> Polynomial(1.0, steps=4, power=2)(2)
    0.25
    """

    learning_rate: float
    steps: int
    power: float = 1.0
    min_learning_rate: float = 0.0

    def __post_init__(self) -> None:
        non_negative(self, "learning_rate", "min_learning_rate", "power")
        positive(self, "steps")

    def __call__(self, step: int) -> float:
        """Return the rate of a step."""
        left = 1 - min(step, self.steps) / self.steps
        return self.min_learning_rate + (self.learning_rate - self.min_learning_rate) * (
            left**self.power if left else 0.0
        )


@dataclass(frozen=True)
class Exponential:
    """learning_rate * gamma ** step.

    >>> Exponential(1.0, gamma=0.5)(3)
    0.125
    """

    learning_rate: float
    gamma: float

    def __post_init__(self) -> None:
        non_negative(self, "learning_rate")
        positive(self, "gamma")

    def __call__(self, step: int) -> float:
        """Return the rate of a step."""
        return float(self.learning_rate * self.gamma**step)


@dataclass(frozen=True)
class Step:
    """Times gamma after every ``step_size`` steps.

    >>> [Step(1.0, step_size=2, gamma=0.5)(step) for step in range(5)]
    [1.0, 1.0, 0.5, 0.5, 0.25]
    """

    learning_rate: float
    step_size: int
    gamma: float = 0.1

    def __post_init__(self) -> None:
        non_negative(self, "learning_rate")
        positive(self, "step_size", "gamma")

    def __call__(self, step: int) -> float:
        """Return the rate of a step."""
        return float(self.learning_rate * self.gamma ** (step // self.step_size))


@dataclass(frozen=True)
class MultiStep:
    """Times gamma at each milestone, given in steps.

    >>> [MultiStep(1.0, milestones=(1, 3), gamma=0.5)(step) for step in range(4)]
    [1.0, 0.5, 0.5, 0.25]
    """

    learning_rate: float
    milestones: Sequence[int]
    gamma: float = 0.1

    def __post_init__(self) -> None:
        non_negative(self, "learning_rate")
        positive(self, "gamma")
        object.__setattr__(self, "milestones", rising(self, self.milestones))

    def __call__(self, step: int) -> float:
        """Return the rate of a step."""
        return float(self.learning_rate * self.gamma ** bisect_right(self.milestones, step))


@dataclass(frozen=True)
class Noam:
    """Grows in a straight line for ``warmup_steps``, then falls as 1 / sqrt(step).

    learning_rate * model_size ** -0.5 * min(n ** -0.5, n * warmup_steps ** -1.5) at the n-th step,
    n = step + 1.  Source: Vaswani et al. 2017, arXiv:1706.03762, equation 3.

    >>> Noam(1.0, warmup_steps=4, model_size=4)(3)
    0.25
    """

    learning_rate: float
    warmup_steps: int
    model_size: int

    def __post_init__(self) -> None:
        non_negative(self, "learning_rate")
        positive(self, "warmup_steps", "model_size")

    def __call__(self, step: int) -> float:
        """Return the rate of a step."""
        n = step + 1
        shape = min(n**-0.5, n * self.warmup_steps**-1.5)
        return float(self.learning_rate * self.model_size**-0.5 * shape)


def rising(owner: object, milestones: Sequence[int]) -> tuple[int, ...]:
    """Return milestones as a tuple; raise ArgumentError unless each is later than the last."""
    found = tuple(milestones)
    is_rising = all(a < b for a, b in zip((0, *found), found, strict=False))
    require(owner, "0 < milestones[0] < milestones[1] < ...", f"milestones={found}", is_rising)
    return found
