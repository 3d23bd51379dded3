"""BLEU: how many of a translation's n-grams stand in a right one, as sacreBLEU counts them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import ArgumentError
from pyrite.train.metric.metric import ratio
from pyrite.train.metric.text import Decode, Normalizer, Text, TextMetric

Smoothing = Literal["exp", "add-k", "floor", "none"]
Tokenize = Literal["13a", "char", "none"] | Callable[[str], Sequence[str]]

#: The value of each smoothing where none is given: sacreBLEU's.
_SMOOTHING: dict[Smoothing, float] = {"exp": 0.0, "add-k": 1.0, "floor": 0.1, "none": 0.0}


class BLEU(TextMetric):
    """The bilingual evaluation understudy over all texts of a split: 100 % where they are right.

    The geometric mean of the n-grams' precisions for n = 1 to `max_ngram_order`, times the brevity
    penalty e^(1 - length of the closest right text / length) where the texts are too short.  All
    counts are summed over the split first: it is no mean over texts.

    tokenize: "13a" parts punctuation as WMT does, "char" every character, "none" at white space; or
    a function from a text to its words.  Tokens of tensors are words.
    smooth_method: what stands for a precision of 0: "exp" halves for each such n, "floor" counts
    `smooth_value` n-grams, "add-k" adds `smooth_value` to all counts of n > 1; "none" gives 0.
    effective_order: leave out the n for which the texts have no n-grams.

    Source: Papineni et al. 2002, ACL; Chen & Cherry 2014, WMT; Post 2018, WMT, arXiv:1804.08771.
    """

    unit = "%"
    better = "higher"

    def __init__(
        self,
        *,
        max_ngram_order: int = 4,
        tokenize: Tokenize = "13a",
        lowercase: bool = False,
        smooth_method: Smoothing = "exp",
        smooth_value: float | None = None,
        effective_order: bool = False,
        decode: Decode | None = None,
        ignore_index: int | None = None,
        normalizer: Normalizer | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(decode=decode, ignore_index=ignore_index, normalizer=normalizer, name=name)
        if max_ngram_order < 1:
            raise ArgumentError(f"BLEU requires max_ngram_order >= 1, got {max_ngram_order}")
        if smooth_method not in _SMOOTHING:
            raise ArgumentError(
                f"BLEU requires smooth_method of {', '.join(_SMOOTHING)}, got {smooth_method!r}"
            )
        if not callable(tokenize) and tokenize not in _TOKENIZERS:
            raise ArgumentError(
                f"BLEU requires tokenize of {', '.join(_TOKENIZERS)}, or a function, got "
                f"{tokenize!r}"
            )
        self.max_ngram_order = max_ngram_order
        self.tokenize = tokenize if callable(tokenize) else _TOKENIZERS[tokenize]
        self.lowercase = lowercase
        self.smooth_method = smooth_method
        self.smooth_value = _SMOOTHING[smooth_method] if smooth_value is None else smooth_value
        self.effective_order = effective_order

    def counts(self, prediction: Text, references: Sequence[Text]) -> Iterator[float]:
        """Return both lengths, and for each n the n-grams that are right, then all of them."""
        said, right = self._words(prediction), [self._words(text) for text in references]
        yield len(said)
        yield min((len(words) for words in right), key=lambda n: (abs(n - len(said)), n))
        grams = self._ngrams(said)
        allowed: Counter[Any] = Counter()
        for words in right:
            allowed |= self._ngrams(words)
        yield from self._by_order(grams & allowed)
        yield from self._by_order(grams)

    def score(self, counts: NDArray[np.float64]) -> float:
        """Return the brevity penalty times the geometric mean of the precisions."""
        said, right = counts[:2]
        correct, total = np.split(counts[2:], 2)
        if not correct.any():
            return 0.0
        correct, total = self._smoothed(correct, total)
        orders = np.count_nonzero(total) if self.effective_order else self.max_ngram_order
        precisions = ratio(correct, total)[:orders]
        if not precisions.all():
            return 0.0
        penalty = min(1.0, math.exp(1 - right / said))
        return float(penalty * np.exp(np.log(precisions).mean()))

    def _smoothed(self, correct: Any, total: Any) -> tuple[Any, Any]:
        if self.smooth_method == "add-k":
            added = np.where(np.arange(self.max_ngram_order) > 0, self.smooth_value, 0)
            return correct + added, total + added
        missed = (correct == 0) & (total > 0)
        stand_in = 0.5 ** np.cumsum(missed) if self.smooth_method == "exp" else self.smooth_value
        return np.where(missed, stand_in, correct), total

    def _words(self, text: Text) -> Sequence[Hashable]:
        if not isinstance(text, str):
            return text
        return self.tokenize(text.lower() if self.lowercase else text)

    def _ngrams(self, words: Sequence[Hashable]) -> Counter[Any]:
        orders = range(1, self.max_ngram_order + 1)
        return Counter(tuple(words[i : i + n]) for n in orders for i in range(len(words) - n + 1))

    def _by_order(self, grams: Counter[Any]) -> Iterable[float]:
        found = [0] * self.max_ngram_order
        for gram, times in grams.items():
            found[len(gram) - 1] += times
        return found


def words_13a(text: str) -> list[str]:
    """Return the words and the marks between them, as WMT's mteval-v13a parts them.

    >>> words_13a("It's 3.14, isn't it?")
    ["It's", '3.14', ',', "isn't", 'it', '?']
    """
    text = text.replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    for entity, mark in (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">")):
        text = text.replace(entity, mark)
    text = f" {text} "
    for pattern, spaced in _MARKS:
        text = pattern.sub(spaced, text)
    return text.split()


#: ASCII marks stand alone, but full stop and comma between digits, and a dash only after a digit.
_MARKS = [
    (re.compile(r"([!-&(-+/:-@\[-`{-~])"), r" \1 "),
    (re.compile(r"([^0-9])([.,])"), r"\1 \2 "),
    (re.compile(r"([.,])([^0-9])"), r" \1 \2"),
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),
]


def _characters(text: str) -> list[str]:
    return [character for character in text if not character.isspace()]


_TOKENIZERS: dict[str, Callable[[str], Sequence[str]]] = {
    "13a": words_13a,
    "char": _characters,
    "none": str.split,
}
