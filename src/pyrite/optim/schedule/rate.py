"""What an optimiser takes for a learning rate: a number, or a function of the step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from typing import Any, Protocol, runtime_checkable

from pyrite.optim.settings import settings_of

#: The rate of the step that follows ``step`` others.
Schedule = Callable[[int], float]
#: A learning rate, or its schedule.
Rate = float | Schedule


def rate_at(rate: Rate, step: int) -> float:
    """Return the rate of the step that follows ``step`` others.

    >>> rate_at(0.5, 3), rate_at(lambda step: 1 / (step + 1), 3)
    (0.5, 0.25)
    """
    return float(rate(step)) if callable(rate) else rate


@runtime_checkable
class Observer(Protocol):
    """A schedule that follows a metric, and so has a state of its own."""

    def observe(self, metric: float) -> None:
        """Take one more value of the metric."""
        ...

    def state(self) -> dict[str, Any]:
        """Return what it remembers, as JSON values."""
        ...

    def load_state(self, state: dict[str, Any]) -> None:
        """Remember what another one did."""
        ...


def observers(rate: object) -> Iterator[Observer]:
    """Give the observers in a rate: itself, or those in the schedules that it is made of."""
    if isinstance(rate, Observer):
        yield rate
    elif isinstance(rate, tuple):
        for part in rate:
            yield from observers(part)
    elif is_dataclass(rate):
        for part in settings_of(rate).values():
            yield from observers(part)
