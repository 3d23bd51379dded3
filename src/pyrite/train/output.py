"""What a step of training or evaluation gives: the loss, and what metrics look at."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

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


class Step(Protocol):
    """What is particular to a task: a function from a model and a batch to an `Output`.

    The learner calls it for each batch.  In training it differentiates the output's loss by the
    model's parameters, and steps the optimiser; in evaluation it calls it without gradients and
    with training mode off.  ``batch`` is what the loader gives: of pairs, a tuple of two tensors.

    A step computes with tensors and reads none (``item``, ``numpy``), for each would wait for the
    device; and it changes nothing: the model is a value.  The loss is a scalar, the mean over the
    items.  Predictions and targets are given for the metrics that look at them.

    >>> def restore(model, batch):
    ...     noisy, clean = batch
    ...     restored = model(noisy)
    ...     return Output(((restored - clean) ** 2).mean(), restored, clean)

    That of any loss of (predictions, targets) is `supervised`.
    """

    def __call__(self, model: Any, batch: Any, /) -> Output:
        """Return what the model makes of the batch."""
        ...


class Show(Protocol):
    """What people should see of a batch: a function from it and its output to samples.

    The learner calls it for the first batch of each split and epoch, and tells at most 16 samples
    of it.  Other than a step it may read tensors.

    >>> def show(batch, output):
    ...     yield ImageSample.of("first", batch[0][0], f"named {output.predictions[0].argmax()}")
    """

    def __call__(self, batch: Any, output: Output, /) -> Iterable[Sample]:
        """Return images, texts and tables."""
        ...


def supervised(loss: Callable[[Any, Any], Tensor]) -> Step:
    """Return the step for batches of (inputs, targets): ``loss(model(inputs), targets)``."""

    def step(model: Any, batch: Any) -> Output:
        inputs, targets = batch
        predictions = model(inputs)
        return Output(loss(predictions, targets), predictions, targets)

    return step
