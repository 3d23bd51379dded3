"""Dice: how much of a segmentation overlaps with the right one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import ArgumentError, ShapeError
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.train.metric.metric import Measured, Metric
from pyrite.train.metric.ranking import Average
from pyrite.train.output import Output


class Dice(Metric):
    """Dice's coefficient, 2 |predicted ∩ wanted| / (|predicted| + |wanted|), of image elements.

    Predictions are scores per class (N, C, ...), of which the highest counts, and targets class
    numbers (N, ...).  Or both are alike, 0 or 1 is wanted, and a score says yes from `threshold`
    on: all elements of an item are one class, or with multilabel=True axis 1 holds the classes.

    average: of classes "macro" is the mean, "weighted" weighs them by how often they were wanted,
    "micro" adds their elements.  A class neither predicted nor wanted is left out.
    aggregation_level: "samplewise" is the mean over items, "global" adds the elements of all.
    include_background: whether class 0 counts.
    ignore_index: a target that does not count.

    Source: Dice 1945, Ecology 26(3).
    """

    unit = "%"
    better = "higher"

    def __init__(
        self,
        average: Average = "macro",
        *,
        aggregation_level: Literal["samplewise", "global"] = "samplewise",
        include_background: bool = True,
        multilabel: bool = False,
        threshold: float = 0.0,
        ignore_index: int | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        if average not in ("micro", "macro", "weighted"):
            raise ArgumentError(
                f"Dice requires average 'micro', 'macro' or 'weighted', got {average!r}"
            )
        if aggregation_level not in ("samplewise", "global"):
            raise ArgumentError(
                "Dice requires aggregation_level 'samplewise' or 'global', got "
                f"{aggregation_level!r}"
            )
        self.average = average
        self.aggregation_level = aggregation_level
        self.include_background = include_background
        self.multilabel = multilabel
        self.threshold = threshold
        self.ignore_index = ignore_index

    def measure(self, output: Output) -> Measured:
        """Return per item and class: elements in both, predicted, wanted."""
        predicted, wanted, kept = self._elements(*_scores_and_targets(self.name, output))
        if kept is not None:
            predicted, wanted = predicted & kept, wanted & kept
        return tuple(each.sum(axis=1) for each in (predicted & wanted, predicted, wanted))

    def add(self, state: Mapping[str, NDArray[Any]], measured: Sequence[NDArray[Any]]) -> Any:
        """Return the sums of elements over all items, or of the items' scores."""
        counts = np.stack(measured).astype(np.float64)  # (3, N, C)
        if not self.include_background:
            counts = counts[:, :, 1:]
        if self.aggregation_level == "global":
            return {"counts": state.get("counts", 0) + counts.sum(axis=1)}
        scores = self._scores(*counts)
        defined = ~np.isnan(scores)
        return {
            "total": state.get("total", 0) + scores[defined].sum(),
            "items": state.get("items", 0) + np.count_nonzero(defined),
        }

    def value(self, state: Mapping[str, NDArray[Any]]) -> float:
        """Return the mean over items, or the score of all elements; NaN where nothing counts."""
        if self.aggregation_level == "global":
            return float(self._scores(*state["counts"][:, None])[0])
        return float(state["total"] / state["items"]) if state["items"] else float("nan")

    def _scores(self, both: Any, predicted: Any, wanted: Any) -> NDArray[np.float64]:
        """The score of each item (N,), from counts (N, C)."""
        if self.average == "micro":
            both, predicted, wanted = (
                each.sum(axis=1, keepdims=True) for each in (both, predicted, wanted)
            )
        seen = predicted + wanted > 0
        weights = wanted if self.average == "weighted" else seen.astype(np.float64)
        dice = np.divide(2 * both, predicted + wanted, out=np.zeros(seen.shape), where=seen)
        total = weights.sum(axis=1)
        score = np.divide(
            (dice * weights).sum(axis=1), total, out=np.zeros(len(seen)), where=total > 0
        )
        return np.where(seen.any(axis=1), score, np.nan)

    def _elements(self, scores: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Whether each element (N, elements, C) was predicted, wanted, and whether it counts."""
        items = scores.shape[0]
        kept = None if self.ignore_index is None else targets != self.ignore_index
        if scores.ndim > targets.ndim:
            classes = tensor(np.arange(scores.shape[1]), device=scores.device)
            predicted = scores.argmax(axis=1).reshape(items, -1, 1) == classes
            wanted = targets.reshape(items, -1, 1) == classes
            return predicted, wanted, None if kept is None else kept.reshape(items, -1, 1)
        labels = scores.shape[1] if self.multilabel else 1
        return (
            _by_label(scores >= self.threshold, labels),
            _by_label(targets != 0, labels),
            None if kept is None else _by_label(kept, labels),
        )


def _by_label(x: Tensor, labels: int) -> Tensor:
    """(N, labels, ...) or (N, ...) -> (N, elements, labels)."""
    return x.reshape(x.shape[0], labels, -1).permute_dims((0, 2, 1))


def _scores_and_targets(metric: str, output: Output) -> tuple[Tensor, Tensor]:
    scores, targets = output.predictions, output.targets
    if not isinstance(scores, Tensor) or not isinstance(targets, Tensor):
        raise ArgumentError(
            f"{metric} requires predictions and targets that are tensors, got "
            f"{type(scores).__name__} and {type(targets).__name__}; give both to Output"
        )
    by_class = scores.ndim > 1 and (scores.shape[0], *scores.shape[2:]) == targets.shape
    if scores.ndim > 1 and (scores.shape == targets.shape or by_class):
        return scores, targets
    raise ShapeError(
        f"{metric} requires predictions (N, C, ...) for targets (N, ...), or both alike, got "
        f"{scores.shape} for {targets.shape}"
    )
