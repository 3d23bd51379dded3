"""Metrics of texts against jiwer, sacreBLEU and torchmetrics, on texts that are hard to part."""

from __future__ import annotations

import math
import random
import unicodedata
from typing import Any

import jiwer
import numpy as np
import pytest
import sacrebleu

import pyrite
from pyrite.errors import ArgumentError, ShapeError
from pyrite.tensor.creation import tensor
from pyrite.train import BLEU, CharErrorRate, RougeL, TextMetric, WordErrorRate

from .conftest import Over, output

#: Marks, numbers, entities, an accent that combines, one that does not, and other scripts.
WORDS = (
    "the cat sat on a mat 3.14 1,000 mat, naïve e\u0301te 😀 isn't (a) b-c 1-2 U.S. &quot; & "
    "<skipped> 東京 “so” end. x/y a_b İ ß \u200d"
).split()


def texts(generator: random.Random, count: int, least: int = 0) -> list[str]:
    return [
        " ".join(generator.choices(WORDS, k=generator.randint(least, 14))) for _ in range(count)
    ]


def near(generator: random.Random, text: str) -> str:
    """A text that shares most of its words with another."""
    words = [word for word in text.split(" ") if generator.random() > 0.15]
    return " ".join(generator.choice(WORDS) if generator.random() < 0.1 else word for word in words)


CASES = range(40)


def corpus(case: int, *, least: int = 1) -> tuple[list[str], list[str]]:
    generator = random.Random(case)
    right = texts(generator, generator.randint(1, 8), least)
    return [near(generator, text) for text in right], right


@pytest.mark.parametrize("case", CASES)
def test_error_rates_are_those_of_jiwer(case: int, over: Over) -> None:
    said, right = corpus(case)
    assert over(CharErrorRate(), said, right) == pytest.approx(jiwer.cer(right, said), abs=1e-12)
    assert over(WordErrorRate(), said, right) == pytest.approx(jiwer.wer(right, said), abs=1e-12)


@pytest.mark.parametrize("case", CASES[:10])
def test_error_rates_are_those_of_torchmetrics(case: int, over: Over) -> None:
    text = pytest.importorskip("torchmetrics.functional.text")
    said, right = corpus(case)
    for metric, judge in (
        (CharErrorRate(), text.char_error_rate),
        (WordErrorRate(), text.word_error_rate),
    ):
        assert over(metric, said, right) == pytest.approx(float(judge(said, right)), rel=1e-6)


def test_an_error_rate_of_nothing_is_undefined_and_of_something_for_nothing_infinite() -> None:
    for metric in (CharErrorRate(), WordErrorRate()):
        metric.update(output(["", " "], ["", ""]))
        assert math.isnan(metric.compute().value)
        metric.update(output(["a b"], [""]))
        assert metric.compute().value == math.inf
        metric.update(output(["a"], ["a"]))
        assert metric.compute().value in (2.0, 3.0)  # of all texts, not the mean of their rates


def test_a_combining_accent_is_a_character_unless_it_is_composed() -> None:
    def composed(text: str) -> str:
        return unicodedata.normalize("NFC", text)

    plain, normal = CharErrorRate(), CharErrorRate(normalizer=composed)
    for metric in (plain, normal):
        metric.update(output(["e\u0301t\u00e9"], ["\u00e9te\u0301"]))
    assert plain.compute().value == jiwer.cer("\u00e9te\u0301", "e\u0301t\u00e9") > 0
    assert normal.compute().value == 0


def test_of_several_right_texts_the_nearest_counts() -> None:
    metric = WordErrorRate()
    metric.update(output(["a b c d"], [["x", "a b c", "a b x d"]]))
    assert metric.compute().value == 0.25


# ---- BLEU ----


@pytest.mark.parametrize("smooth_method", ["exp", "add-k", "floor", "none"])
@pytest.mark.parametrize("case", CASES[:20])
def test_bleu_is_that_of_sacrebleu(case: int, smooth_method: Any, over: Over) -> None:
    generator = random.Random(case)
    said, right = corpus(case, least=0)
    others = [near(generator, text) for text in right]
    for settings in (
        {},
        {"effective_order": True, "lowercase": True},
        {"tokenize": "none", "max_ngram_order": 2},
        {"tokenize": "char", "smooth_value": 0.5},
    ):
        if "smooth_value" in settings and smooth_method not in ("add-k", "floor"):
            continue
        judge = sacrebleu.metrics.BLEU(smooth_method=smooth_method, **settings)
        expected = judge.corpus_score(said, [right, others]).score / 100
        metric = BLEU(smooth_method=smooth_method, **settings)
        pairs = [list(pair) for pair in zip(right, others, strict=True)]
        assert over(metric, said, pairs) == pytest.approx(expected, abs=1e-9), settings


@pytest.mark.parametrize("smooth", [False, True])
def test_bleu_is_that_of_torchmetrics(smooth: bool, over: Over) -> None:
    text = pytest.importorskip("torchmetrics.functional.text")
    compared = 0
    for case in CASES[:10]:
        said, right = corpus(case, least=6)
        expected = float(text.bleu_score(said, [[r] for r in right], smooth=smooth))
        if not expected:  # torchmetrics smooths no count of 0
            continue
        compared += 1
        metric = BLEU(tokenize="none", smooth_method="add-k" if smooth else "none")
        assert over(metric, said, right) == pytest.approx(expected, abs=1e-6)
    assert compared >= 5


def test_bleu_of_a_text_that_is_right_is_whole_and_of_none_is_0(over: Over) -> None:
    assert over(BLEU(), ["it is a cat , sir"], ["it is a cat, sir"]) == 1
    for smooth_method in ("exp", "add-k", "floor", "none"):
        for said, right in (("", ""), ("", "a"), ("a", ""), ("a", "b")):
            assert over(BLEU(smooth_method=smooth_method), [said], [right]) == 0


# ---- ROUGE-L ----


def ascii_only(text: str) -> str:
    return "".join(character if ord(character) < 128 else " " for character in text)


@pytest.mark.parametrize("case", CASES[:20])
def test_rouge_l_is_that_of_torchmetrics(case: int, over: Over) -> None:
    rouge_score = pytest.importorskip("torchmetrics.functional.text.rouge").rouge_score
    generator = random.Random(case)
    said, right = (list(map(ascii_only, each)) for each in corpus(case, least=0))
    pairs = [[text, ascii_only(near(generator, text))] for text in right]
    for accumulate in ("best", "avg"):
        expected = rouge_score(said, pairs, accumulate=accumulate, rouge_keys="rougeL")
        for part in ("fmeasure", "precision", "recall"):
            metric = RougeL(score=part, accumulate=accumulate)  # type: ignore[arg-type]
            assert over(metric, said, pairs) == pytest.approx(
                float(expected[f"rougeL_{part}"]), abs=1e-6
            )


def test_rouge_l_knows_words_of_other_scripts() -> None:
    metric = RougeL()
    metric.update(output(["Москва слезам верит"], ["Москва слезам не верит"]))
    assert metric.compute().value == pytest.approx(2 * 3 / 7)


# ---- what all share ----

ALL = (BLEU, CharErrorRate, RougeL, WordErrorRate)


@pytest.mark.parametrize("make", ALL)
def test_the_cut_into_batches_does_not_matter(make: type[TextMetric], over: Over) -> None:
    said, right = corpus(3)
    values = [over(make(), said, right, cuts) for cuts in ([], range(len(said)), [1], [0, 2, 2])]
    assert values == pytest.approx([values[0]] * 4, rel=1e-12)


@pytest.mark.parametrize("make", ALL)
def test_tokens_stay_on_the_device_until_they_are_read(make: type[TextMetric]) -> None:
    words = ["", "a", "b", "c", "d", "e"]

    def decode(row: Any) -> str:
        return " ".join(words[i] for i in row)

    said, right = (
        np.int32([[1, 2, 3, 4, 0], [5, 5, 0, 0, 0]]),
        np.int32([[1, 3, 4, 0], [5, 1, 0, 0]]),
    )
    of_tokens, of_scores, of_texts = (
        make(decode=decode, ignore_index=0), make(decode=decode, ignore_index=0), make(),
    )  # fmt: skip
    with pyrite.no_sync():
        of_tokens.update(output(said, right))
        of_scores.update(output(np.eye(6, dtype=np.float32)[said], right))
    of_texts.update(
        output([decode(row[row > 0]) for row in said], [decode(row[row > 0]) for row in right])
    )
    assert of_tokens.compute() == of_scores.compute() == of_texts.compute()
    assert 0 < of_texts.compute().value < 1


def test_without_decode_each_token_counts() -> None:
    metric = WordErrorRate(ignore_index=-100)
    metric.update(output(np.int32([[7, 8, 9, -100]]), np.int32([[7, 9, -100]])))
    assert metric.compute().value == 0.5


@pytest.mark.parametrize("make", ALL)
def test_a_batch_without_texts_changes_nothing(make: type[TextMetric]) -> None:
    metric = make()
    metric.update(output([], []))
    assert math.isnan(metric.compute().value)
    metric.update(output(["a"], ["a"]))
    value = metric.compute().value
    metric.update(output([], []))
    assert metric.compute().value == value


@pytest.mark.parametrize(
    ("said", "right", "error", "message"),
    [
        ("text", "text", ArgumentError, "requires predictions that are strings"),
        (None, None, ArgumentError, "got NoneType; give both to Output"),
        (["a"], ["a", "b"], ShapeError, "as many predictions as targets, got 1 and 2"),
        (["a"], [[]], ArgumentError, "at least one right string per item"),
        ([1], ["a"], ArgumentError, "requires a string"),
        (tensor([[1.0]]), tensor([[1]]), ShapeError, "integer tokens (N, T), got predictions"),
        (tensor([[1]]), tensor([1]), ShapeError, "got targets of shape (1,)"),
        (tensor([[1]]), tensor([[1], [2]]), ShapeError, "got 1 and 2"),
    ],
)
def test_what_is_no_text_is_named(said: Any, right: Any, error: Any, message: str) -> None:
    with pytest.raises(error) as caught:
        WordErrorRate().update(output(said, right))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: BLEU(max_ngram_order=0),
        lambda: BLEU(smooth_method="linear"),  # type: ignore[arg-type]
        lambda: BLEU(tokenize="zh"),  # type: ignore[arg-type]
        lambda: RougeL(score="f1"),  # type: ignore[arg-type]
        lambda: RougeL(accumulate="worst"),  # type: ignore[arg-type]
    ],
)
def test_arguments_out_of_range_are_refused(make: Any) -> None:
    with pytest.raises(ArgumentError, match="requires"):
        make()
