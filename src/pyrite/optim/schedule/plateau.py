"""The schedule that follows a metric instead of the step."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from pyrite.errors import RecordError
from pyrite.optim.settings import non_negative, require


@dataclass(slots=True)
class _Progress:
    """What a plateau schedule remembers."""

    learning_rate: float
    best: float
    bad: int = 0
    cooldown: int = 0


@dataclass(frozen=True, eq=False)
class ReduceOnPlateau:
    """Times ``factor`` whenever a metric has not improved for more than ``patience`` observations.

    Unlike other schedules it has a state: give each optimiser its own, and call ``observe(metric)``
    once an epoch, say.  An improvement is one by more than ``threshold``, a part of the best value
    ("relative") or an amount ("absolute").  After a reduction, ``cooldown`` observations do not
    count as bad.  A NaN is never an improvement.  Semantics and defaults as PyTorch's
    ReduceLROnPlateau.

    >>> schedule = ReduceOnPlateau(1.0, factor=0.5, patience=0)
    >>> for loss in (3.0, 3.0, 2.0):
    ...     schedule.observe(loss)
    >>> schedule(3)
    0.5
    """

    learning_rate: float
    factor: float = 0.1
    patience: int = 10
    mode: Literal["min", "max"] = "min"
    threshold: float = 1e-4
    threshold_mode: Literal["relative", "absolute"] = "relative"
    cooldown: int = 0
    min_learning_rate: float = 0.0
    #: A reduction by no more than this is not made.
    eps: float = 1e-8
    _progress: _Progress = field(init=False, repr=False)

    def __post_init__(self) -> None:
        non_negative(
            self, "learning_rate", "patience", "threshold", "cooldown", "min_learning_rate", "eps"
        )
        require(self, "0 < factor < 1", f"factor={self.factor}", 0 < self.factor < 1)
        ok = self.mode in ("min", "max")
        require(self, "mode to be 'min' or 'max'", repr(self.mode), ok)
        ok = self.threshold_mode in ("relative", "absolute")
        require(self, "threshold_mode 'relative' or 'absolute'", repr(self.threshold_mode), ok)
        worst = math.inf if self.mode == "min" else -math.inf
        object.__setattr__(self, "_progress", _Progress(self.learning_rate, worst))

    def __call__(self, step: int) -> float:
        """Return the rate of the next step, whichever it is."""
        return self._progress.learning_rate

    def observe(self, metric: float) -> None:
        """Take one more value of the metric; a tensor is read, which waits for it."""
        now, value = self._progress, float(metric)
        if self._is_better(value):
            now.best, now.bad = value, 0
        else:
            now.bad += 1
        if now.cooldown:
            now.cooldown -= 1
            now.bad = 0
        if now.bad > self.patience:
            reduced = max(now.learning_rate * self.factor, self.min_learning_rate)
            if now.learning_rate - reduced > self.eps:
                now.learning_rate = reduced
            now.cooldown, now.bad = self.cooldown, 0

    def state(self) -> dict[str, Any]:
        """Return what it remembers, as JSON values."""
        now = self._progress
        return {
            "learning_rate": now.learning_rate,
            "best": now.best,
            "bad": now.bad,
            "cooldown": now.cooldown,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Remember what another one did.  Raises RecordError for a state of something else."""
        if set(state) != set(self.state()):
            raise RecordError(
                f"ReduceOnPlateau requires a state of {', '.join(self.state())}, got "
                f"{', '.join(state) or 'none'}"
            )
        now = self._progress
        now.learning_rate, now.best = float(state["learning_rate"]), float(state["best"])
        now.bad, now.cooldown = int(state["bad"]), int(state["cooldown"])

    def _is_better(self, value: float) -> bool:
        best, sign = self._progress.best, 1 if self.mode == "min" else -1
        if self.threshold_mode == "relative":
            return sign * value < sign * best * (1 - sign * self.threshold)
        return sign * value < sign * best - self.threshold
