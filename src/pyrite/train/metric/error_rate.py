"""Error rates of texts: edits per character and per word."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from pyrite.train.metric.alignment import edit_distance
from pyrite.train.metric.text import Text, TextMetric


class _ErrorRate(TextMetric):
    """Edits / units of what was right, both summed over all texts; it may exceed 100 %.

    If there are several right texts, the one with the fewest edits per unit counts.  It is NaN
    where nothing was right to say and nothing was said, infinite where something was.
    """

    unit = "%"
    better = "lower"

    def counts(self, prediction: Text, references: Sequence[Text]) -> Iterable[float]:
        """Return the edits, and how many units were right."""
        said = self.units(prediction)
        found = [(edit_distance(said, right), len(right)) for right in map(self.units, references)]
        return min(found, key=lambda pair: pair[0] / max(pair[1], 1))

    def score(self, counts: NDArray[np.float64]) -> float:
        """Return edits / units."""
        edits, units = counts
        if units:
            return float(edits / units)
        return float("inf") if edits else float("nan")

    @abstractmethod
    def units(self, text: Text) -> Sequence[Hashable]:
        """Return the parts of a text that are compared; of tokens, themselves."""


class CharErrorRate(_ErrorRate):
    """The character error rate (CER): insertions, deletions and substitutions per right character.

    Characters are code points, as in jiwer and torchmetrics: a combining accent is one of its own,
    unless ``normalizer=`` composes it: ``lambda text: unicodedata.normalize("NFC", text)``.  White
    space at the ends of a text does not count.
    """

    default_name = "CER"

    def units(self, text: Text) -> Sequence[Hashable]:
        """Return the characters."""
        return text.strip() if isinstance(text, str) else text


class WordErrorRate(_ErrorRate):
    """The word error rate (WER): insertions, deletions and substitutions per right word.

    Words are what white space parts.
    """

    default_name = "WER"

    def units(self, text: Text) -> Sequence[Hashable]:
        """Return the words."""
        return text.split() if isinstance(text, str) else text
