"""TrainingStep: one step of an optimiser, over one batch or several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyrite.autodiff import Gradients, value_and_grad
from pyrite.autodiff.tape import Strategy
from pyrite.compiled import compile as compiled
from pyrite.optim import Optimizer, global_norm
from pyrite.tensor.tensor import Tensor
from pyrite.train.evaluation import counted
from pyrite.train.output import Output, Step

#: From a model, batches, and whether the norm is wanted, to the next model, outputs and the norm.
Whole = Callable[[Any, Sequence[Any], bool], tuple[Any, list[Output], Tensor | None]]


class TrainingStep:
    """Steps a model by the mean gradient of some batches, each weighted by its number of items.

    So several small batches step as one large one.  checkpointing: as of `value_and_grad`.
    compile: whether all of it, the optimiser's step included, is a function that `pyrite.compile`
    made.
    """

    #: The 2-norm of all gradients in the latest step that was asked for it, not yet read.
    gradient_norm: Tensor | None = None

    def __init__(
        self, step: Step, optimizer: Optimizer, checkpointing: Strategy, *, compile: bool = False
    ) -> None:
        self.step = step
        self.optimizer = optimizer
        self._differentiate = value_and_grad(self._loss, has_aux=True, checkpointing=checkpointing)
        self._whole: Whole = compiled(self._stepped) if compile else self._stepped

    def __call__(
        self, model: Any, batches: Sequence[Any], *, with_norm: bool = False
    ) -> tuple[Any, list[Output]]:
        """Return the next model, and the output of each batch; nothing is read."""
        model, outputs, norm = self._whole(model, batches, with_norm)
        if norm is not None:
            self.gradient_norm = norm
        return model, outputs

    def _stepped(
        self, model: Any, batches: Sequence[Any], with_norm: bool
    ) -> tuple[Any, list[Output], Tensor | None]:
        """Return the next model, outputs, and the norm; it changes nothing but the optimiser."""
        rate = self.optimizer.learning_rates()["*"]
        outputs, found = [], []
        for batch in batches:
            (loss, (predictions, targets, items)), gradients = self._differentiate(model, batch)
            output = counted(Output(loss, predictions, targets, items, rate), batch)
            outputs.append(output)
            found.append((gradients, output.weight))
        gradients = _mean(found)
        norm = global_norm(list(gradients)) if with_norm else None
        return self.optimizer.step(model, gradients), outputs, norm

    def _loss(self, model: Any, batch: Any) -> tuple[Tensor, tuple[Any, Any, int | None]]:
        output = self.step(model, batch)
        return output.loss, (output.predictions, output.targets, output.items)


def _mean(found: Sequence[tuple[Gradients, int]]) -> Gradients:
    if len(found) == 1:
        return found[0][0]
    items = sum(weight for _, weight in found)
    total, *others = (gradients * (weight / items) for gradients, weight in found)
    for gradients in others:
        total = total + gradients
    return total
