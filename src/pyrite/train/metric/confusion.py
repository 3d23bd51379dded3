"""ConfusionMatrix: how often each class was taken for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import ArgumentError, IndexRangeError
from pyrite.train.metric.classification import scores_and_targets
from pyrite.train.metric.confusion_picture import confusion_picture
from pyrite.train.metric.metric import Measured, Metric, ratio
from pyrite.train.output import Output
from pyrite.train.sample import ROWS, Cell, ImageSample, Sample, TableSample

Normalize = Literal["true", "pred", "all"]


class ConfusionMatrix(Metric):
    """Counts of (right class, predicted class); the reading is the share of the diagonal.

    At the end of a split it shows a picture of them, and precision, recall and F1 of each class.

    Predictions (N, ..., C) and class numbers (N, ...); or one score and 0 or 1 per item, of which
    the classes are 0 and 1.

    classes: the names, for pictures and tables.
    normalize: what `matrix` divides counts by: those of the right class ("true"), of the predicted
    one ("pred"), or all; None leaves counts.
    threshold: the score from which a binary answer is yes.
    ignore_index: a target that does not count, as of padding.
    """

    unit = "%"
    better = "higher"
    default_name = "Confusion matrix"

    def __init__(
        self,
        classes: Sequence[str] | None = None,
        *,
        normalize: Normalize | None = None,
        threshold: float = 0.0,
        ignore_index: int | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        if normalize not in (None, "true", "pred", "all"):
            raise ArgumentError(
                f"ConfusionMatrix requires normalize 'true', 'pred', 'all' or None, got "
                f"{normalize!r}"
            )
        self.classes = None if classes is None else tuple(classes)
        self.normalize = normalize
        self.threshold = threshold
        self.ignore_index = ignore_index

    def measure(self, output: Output) -> Measured:
        """Return the counts (C, C), and how many items they should count."""
        scores, targets = scores_and_targets(self.name, output)
        kept = None if self.ignore_index is None else targets != self.ignore_index
        if scores.ndim > targets.ndim:
            size, predicted = scores.shape[-1], scores.argmax(axis=-1)
        else:
            size, predicted, targets = 2, scores >= self.threshold, targets != 0
        self._require_names(size)
        cells = targets.astype("int32") * size + predicted.astype("int32")
        if kept is not None:
            cells = cells.where(kept, -1)  # bincount leaves out what is no cell
        counts = cells.reshape(-1).bincount(size=size * size).reshape(size, size)
        return counts, targets.size if kept is None else kept.sum()

    def add(self, state: Mapping[str, NDArray[Any]], measured: Sequence[NDArray[Any]]) -> Any:
        """Return the sum of the counts.  Raises IndexRangeError for a target that is no class."""
        counts, items = measured[0].astype(np.int64), int(measured[1])
        if counts.sum() != items:
            raise IndexRangeError(
                f"{self.name} requires targets from 0 to {len(counts) - 1}, got "
                f"{items - counts.sum()} others; name one to leave out by ignore_index="
            )
        return {"counts": state.get("counts", 0) + counts}

    def value(self, state: Mapping[str, NDArray[Any]]) -> float:
        """Return the share of right answers."""
        counts = state["counts"]
        return float(counts.trace() / counts.sum()) if counts.sum() else float("nan")

    def samples(self) -> tuple[Sample, ...]:
        """Return a picture of the matrix, and a table of each class."""
        state = self.state()
        if not state:
            return ()
        counts = state["counts"]
        names = self.classes or tuple(map(str, range(len(counts))))
        pixels = confusion_picture(counts, names)
        caption = "rows: the right class, shaded by its shares; columns: what was predicted"
        return ImageSample.of(self.name, pixels, caption), class_table(counts, names)

    def _require_names(self, size: int) -> None:
        if self.classes is not None and len(self.classes) != size:
            raise ArgumentError(
                f"{self.name} requires a name for each of {size} classes, got {len(self.classes)}"
            )

    def matrix(self) -> NDArray[Any]:
        """Return the counts or shares (right class, predicted class) so far; this waits."""
        counts = self.state()["counts"]
        return counts if self.normalize is None else normalized(counts, self.normalize)


def normalized(counts: NDArray[Any], by: Normalize) -> NDArray[np.float64]:
    """Return the shares of the counts (C, C), 0 where there are none to divide by.

    >>> normalized(np.array([[3, 1], [0, 0]]), "true")
    array([[0.75, 0.25],
           [0.  , 0.  ]])
    """
    axis = {"true": 1, "pred": 0, "all": None}[by]
    return ratio(counts, counts.sum(axis=axis, keepdims=True))


def class_table(counts: NDArray[Any], names: Sequence[str]) -> TableSample:
    """Return precision, recall, F1 and the number of targets of each class, and their means.

    0 where one is 0 / 0.  The means are over the classes that were predicted or wanted ("macro"),
    and by the number of targets ("weighted").
    """
    hits, said, wanted = counts.diagonal(), counts.sum(axis=0), counts.sum(axis=1)
    columns = ratio(hits, said), ratio(hits, wanted), ratio(2 * hits, said + wanted)
    seen = said + wanted > 0
    rows: list[list[Cell]] = [
        [name, *(float(round(column[i], 4)) for column in columns), int(wanted[i])]
        for i, name in enumerate(names)
    ]
    for name, weights in (("macro", seen.astype(np.int64)), ("weighted", wanted)):
        means = (float(round(float(ratio(c @ weights, weights.sum())), 4)) for c in columns)
        rows.append([name, *means, int(wanted.sum())])
    if len(rows) > ROWS:  # the means, and the classes that are done worst
        worst = sorted(rows[:-2], key=lambda row: float(row[3] or 0))
        rows = [*rows[-2:], *worst]
    return TableSample("Classes", ["class", "precision", "recall", "F1", "targets"], rows)
