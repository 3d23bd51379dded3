"""What a step of training or evaluation gives: the loss, and what metrics look at."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pyrite.tensor.tensor import Tensor
from pyrite.train.sample import Sample


@dataclass(frozen=True)
class Output:
    """One step's outcome, still on the device: nothing here has been waited for.

    loss: a scalar, the mean over the items.
    predictions, targets: what the model said, and what was right, for metrics that need them.
    items: how many items the step saw, None to count the rows of the targets.
    learning_rate, seconds: of a training step; the learner fills them in.
    """

    loss: Tensor
    predictions: Any = None
    targets: Any = None
    items: int | None = None
    learning_rate: float | None = None
    seconds: float = 0.0

    @property
    def weight(self) -> int:
        """How many items the loss is the mean of."""
        if self.items is not None:
            return self.items
        return self.targets.shape[0] if isinstance(self.targets, Tensor) else 1


Step = Callable[[Any, Any], Output]
"""From (model, batch) to its output: what is particular to a task."""


Show = Callable[[Any, Output], Iterable[Sample]]
"""From a batch and its output to what people should see of it; it may wait for the device."""


def supervised(loss: Callable[[Any, Any], Tensor]) -> Step:
    """Return the step for batches of (inputs, targets): ``loss(model(inputs), targets)``."""

    def step(model: Any, batch: Any) -> Output:
        inputs, targets = batch
        predictions = model(inputs)
        return Output(loss(predictions, targets), predictions, targets)

    return step
