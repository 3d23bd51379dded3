"""ROUGE-L: the longest common subsequence of words of a summary and a right one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import ArgumentError
from pyrite.train.metric.alignment import common_length
from pyrite.train.metric.text import Decode, Normalizer, Text, TextMetric

_WORD = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    """Return the runs of letters and digits of a text, in lower case.

    On ASCII this is rouge-score's rule, which drops all other letters; here they are letters too.

    >>> words("Crème brûlée, 2 times")
    ['crème', 'brûlée', '2', 'times']
    """
    return _WORD.findall(text.lower())


class RougeL(TextMetric):
    """ROUGE-L, the mean over texts: common / said is precision, common / right is recall.

    score: "fmeasure" is their harmonic mean; or "precision", or "recall".
    accumulate: of several right texts, the "best" F-measure counts, or the mean ("avg").
    tokenizer: from a text to its words.  Tokens of tensors are words.

    Source: Lin 2004, ACL workshop Text Summarization Branches Out, section 3.1.
    """

    unit = "%"
    better = "higher"
    default_name = "ROUGE-L"

    def __init__(
        self,
        *,
        score: Literal["fmeasure", "precision", "recall"] = "fmeasure",
        accumulate: Literal["best", "avg"] = "best",
        tokenizer: Callable[[str], Sequence[str]] = words,
        decode: Decode | None = None,
        ignore_index: int | None = None,
        normalizer: Normalizer | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(decode=decode, ignore_index=ignore_index, normalizer=normalizer, name=name)
        if score not in _PARTS or accumulate not in ("best", "avg"):
            raise ArgumentError(
                f"RougeL requires score of {', '.join(_PARTS)} and accumulate 'best' or 'avg', got "
                f"{score!r} and {accumulate!r}"
            )
        self._part = _PARTS.index(score)
        self.accumulate = accumulate
        self.tokenizer = tokenizer

    def counts(self, prediction: Text, references: Sequence[Text]) -> Iterable[float]:
        """Return the score of a text, and one text."""
        said = self._words(prediction)
        found = [_scores(said, self._words(text)) for text in references]
        if self.accumulate == "best":
            return max(found, key=lambda scores: scores[0])[self._part], 1
        return float(np.mean([scores[self._part] for scores in found])), 1

    def score(self, counts: NDArray[np.float64]) -> float:
        """Return the mean."""
        total, texts = counts
        return float(total / texts)

    def _words(self, text: Text) -> Sequence[Any]:
        return self.tokenizer(text) if isinstance(text, str) else text


_PARTS = ("fmeasure", "precision", "recall")


def _scores(said: Sequence[Any], right: Sequence[Any]) -> tuple[float, float, float]:
    """F-measure, precision and recall; 0 where nothing is common."""
    common = common_length(said, right)
    if not common:
        return 0.0, 0.0, 0.0
    precision, recall = common / len(said), common / len(right)
    return 2 * precision * recall / (precision + recall), precision, recall
