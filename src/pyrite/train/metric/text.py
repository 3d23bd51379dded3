"""TextMetric: what metrics of texts share: where the texts come from, and counts that add up.

Predictions and targets are strings, one per item, or integer tensors (N, T) of tokens, one row per
item.  Strings are counted at once; tokens stay on the device until the metric is read.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import ArgumentError, ShapeError
from pyrite.tensor.tensor import Tensor
from pyrite.train.metric.metric import Measured, Metric
from pyrite.train.output import Output

Text = str | Sequence[int]
"""A text, or the tokens of one."""

Normalizer = Callable[[str], str]

Decode = Callable[[NDArray[Any]], str]
"""From the tokens of a text (T,) to the text."""


class TextMetric(Metric):
    """A metric of texts, whose counts are added up over all of them.

    Predictions: a sequence of strings; targets: as many strings, or sequences of strings where
    several are right.  Or both are tensors of tokens, (N, T) and (N, T'); or predictions (N, T, C)
    hold a score per token, of which the highest counts.

    decode: makes a text of a row of tokens; without it each token is a word, or a character.
    ignore_index: a token that is left out of both, as padding is.
    normalizer: is applied to each text first, as ``str.lower`` or a Unicode normal form.
    """

    def __init__(
        self,
        *,
        decode: Decode | None = None,
        ignore_index: int | None = None,
        normalizer: Normalizer | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.decode = decode
        self.ignore_index = ignore_index
        self.normalizer = normalizer

    def measure(self, output: Output) -> Measured:
        """Return the counts of strings; of tokens, themselves."""
        predictions, targets = output.predictions, output.targets
        if isinstance(predictions, Tensor) and isinstance(targets, Tensor):
            return _tokens(self.name, predictions, targets)
        return (self._sum(_pairs(self.name, predictions, targets)),)

    def add(self, state: Mapping[str, NDArray[Any]], measured: Sequence[NDArray[Any]]) -> Any:
        """Return the sums of the counts."""
        counts = measured[0]
        if len(measured) == 2:
            predictions, targets = measured
            rows = zip(map(self._text, predictions), map(self._text, targets), strict=True)
            counts = self._sum((predicted, [wanted]) for predicted, wanted in rows)
        return {"counts": state.get("counts", 0) + counts} if counts.size else state

    def value(self, state: Mapping[str, NDArray[Any]]) -> float:
        """Return the score of all counts."""
        return self.score(state["counts"])

    @abstractmethod
    def counts(self, prediction: Text, references: Sequence[Text]) -> Iterable[float]:
        """Return what to add up, of a prediction and the one or more texts that would be right."""

    @abstractmethod
    def score(self, counts: NDArray[np.float64]) -> float:
        """Return the value, from the sums of the counts over all texts."""

    def _sum(self, pairs: Iterable[tuple[Text, Sequence[Text]]]) -> NDArray[np.float64]:
        found = [
            np.fromiter(self.counts(self._clean(text), [self._clean(r) for r in right]), np.float64)
            for text, right in pairs
        ]
        return np.sum(found, axis=0) if found else np.zeros(0)

    def _clean(self, text: Text) -> Text:
        return self.normalizer(text) if self.normalizer and isinstance(text, str) else text

    def _text(self, row: NDArray[Any]) -> Text:
        kept = row if self.ignore_index is None else row[row != self.ignore_index]
        return self.decode(kept) if self.decode else kept.tolist()


def _tokens(metric: str, predictions: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    if predictions.ndim == 3 and predictions.dtype.is_float:
        predictions = predictions.argmax(axis=-1)
    for what, tokens in (("predictions", predictions), ("targets", targets)):
        if tokens.ndim != 2 or not tokens.dtype.is_integer:
            raise ShapeError(
                f"{metric} requires integer tokens (N, T), got {what} of shape {tokens.shape} and "
                f"dtype {tokens.dtype.name}; give strings, or one row of tokens per text"
            )
    if predictions.shape[0] != targets.shape[0]:
        raise ShapeError(
            f"{metric} requires as many predictions as targets, got {predictions.shape[0]} and "
            f"{targets.shape[0]}"
        )
    return predictions, targets


def _pairs(metric: str, predictions: Any, targets: Any) -> Iterator[tuple[str, list[str]]]:
    for what, texts in (("predictions", predictions), ("targets", targets)):
        if isinstance(texts, str) or not isinstance(texts, Sequence):
            raise ArgumentError(
                f"{metric} requires {what} that are strings, or tensors of tokens, got "
                f"{type(texts).__name__}; give both to Output"
            )
    if len(predictions) != len(targets):
        raise ShapeError(
            f"{metric} requires as many predictions as targets, got {len(predictions)} and "
            f"{len(targets)}"
        )
    references = [[right] if isinstance(right, str) else list(right) for right in targets]
    for text, right in zip(predictions, references, strict=True):
        if not right or not all(isinstance(each, str) for each in (text, *right)):
            raise ArgumentError(
                f"{metric} requires a string and at least one right string per item, got {text!r} "
                f"and {right!r}"
            )
    return zip(predictions, references, strict=True)
