"""Accumulation: the gradients of several small batches, stepped as those of one large batch."""

from __future__ import annotations

from pyrite.autodiff.gradients import Gradients
from pyrite.backend.capture import capturing
from pyrite.errors import ArgumentError, CompileError


class GradientAccumulator:
    """Adds gradients up, and gives their mean (or sum) once every ``steps`` of them.

    The mean equals the gradient of the large batch where a loss is a mean over equal small batches;
    for losses that are sums, ask for the sum.  States are renewed by each small batch in turn.

        accumulator = GradientAccumulator(4)
        for batch in loader:
            loss, grads = value_and_grad(loss_of)(model, batch)
            if (whole := accumulator.add(grads)) is not None:
                model = optimizer.step(model, whole)

    Raises ArgumentError for steps < 1.
    """

    __slots__ = ("_total", "count", "mean", "steps")

    #: Gradients added since the last ones were given.
    count: int

    def __init__(self, steps: int, *, mean: bool = True) -> None:
        if steps < 1:
            raise ArgumentError(f"GradientAccumulator requires steps >= 1, got {steps}")
        self.steps = steps
        self.mean = mean
        self.count = 0
        self._total: Gradients | None = None

    def add(self, gradients: Gradients) -> Gradients | None:
        """Return what has been accumulated when this makes it complete, else None.

        Raises GradientError when the model was stepped in between, and CompileError in a function
        that is compiled, whose replays would not count.
        """
        if capturing() is not None:
            raise CompileError(
                "compile requires a function that changes nothing but its optimizers, got "
                "GradientAccumulator.add; compile what gives the gradients, and add them outside"
            )
        self._total = gradients if self._total is None else self._total + gradients
        self.count += 1
        return self.flush() if self.count == self.steps else None

    def flush(self) -> Gradients | None:
        """Return what there is of an incomplete accumulation, as at the end of an epoch, or None.

        The mean is over those that were added.
        """
        total, count = self._total, self.count
        self._total, self.count = None, 0
        if total is None or not self.mean:
            return total
        return total / count
