"""Dice against torchmetrics, and by hand where it says nothing."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

from pyrite.errors import ArgumentError, ShapeError
from pyrite.tensor.creation import tensor
from pyrite.train import Dice, Output

from .conftest import Over, output

AVERAGES = ("micro", "macro", "weighted")
LEVELS = ("samplewise", "global")


def judged(said: Any, wanted: Any, count: int, **settings: Any) -> float:
    segmentation = pytest.importorskip("torchmetrics.segmentation")
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it tells of a default that will change
        judge = segmentation.DiceScore(num_classes=count, **settings)
        judge.update(torch.tensor(said), torch.tensor(wanted))
        return float(judge.compute())


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("aggregation_level", LEVELS)
@pytest.mark.parametrize("include_background", [True, False])
def test_dice_of_classes_is_that_of_torchmetrics(
    include_background: bool, aggregation_level: Any, average: Any, over: Over
) -> None:
    for case in range(5):
        generator = np.random.default_rng(case)
        scores = generator.normal(size=(6, 4, 5, 7)).astype(np.float32)
        wanted = generator.integers(0, 4, (6, 5, 7))
        scores[:2, 3], wanted[:2] = -9, wanted[:2] % 3  # class 3 is absent from two items
        settings = {
            "average": average,
            "aggregation_level": aggregation_level,
            "include_background": include_background,
        }
        expected = judged(scores.argmax(1), wanted, 4, input_format="index", **settings)
        assert over(Dice(**settings), scores, wanted) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("aggregation_level", LEVELS)
def test_dice_of_labels_is_that_of_torchmetrics(
    aggregation_level: Any, average: Any, over: Over
) -> None:
    generator = np.random.default_rng(0)
    scores = generator.normal(size=(5, 3, 4, 4)).astype(np.float32)
    wanted = generator.integers(0, 2, (5, 3, 4, 4))
    settings = {"average": average, "aggregation_level": aggregation_level}
    expected = judged((scores >= 0).astype(np.int64), wanted, 3, input_format="one-hot", **settings)
    assert over(Dice(multilabel=True, **settings), scores, wanted) == pytest.approx(
        expected, abs=1e-6
    )


def test_dice_of_one_question_is_of_all_elements_of_an_item(over: Over) -> None:
    scores = np.float32([[[0.9, 0.2], [0.6, 0.4]], [[0.1, 0.1], [0.1, 0.8]]])
    wanted = np.int32([[[1, 0], [1, 1]], [[0, 0], [1, 0]]])
    assert over(Dice(threshold=0.5), scores, wanted) == pytest.approx((0.8 + 0) / 2)
    value = over(Dice(threshold=0.5, aggregation_level="global"), scores, wanted)
    assert value == pytest.approx(4 / 7)
    one_channel = over(Dice(threshold=0.5), scores[:, None], wanted[:, None])
    assert one_channel == pytest.approx(0.4)


@pytest.mark.parametrize("aggregation_level", LEVELS)
def test_what_is_masked_does_not_count(aggregation_level: Any, over: Over) -> None:
    generator = np.random.default_rng(0)
    scores = generator.normal(size=(3, 4, 8)).astype(np.float32)
    wanted = generator.integers(0, 4, (3, 8)).astype(np.int32)
    wanted[:, 5:] = 255
    masked = Dice(aggregation_level=aggregation_level, ignore_index=255)
    cut = Dice(aggregation_level=aggregation_level)
    assert over(masked, scores, wanted) == over(cut, scores[:, :, :5], wanted[:, :5])


@pytest.mark.parametrize("aggregation_level", LEVELS)
def test_where_nothing_counts_it_is_undefined(aggregation_level: Any, over: Over) -> None:
    empty = np.full((2, 3, 3), -1, np.float32), np.zeros((2, 3, 3), np.int32)
    assert math.isnan(over(Dice(aggregation_level=aggregation_level), *empty))


@pytest.mark.parametrize("aggregation_level", LEVELS)
@pytest.mark.parametrize("average", AVERAGES)
def test_the_cut_into_batches_does_not_matter(
    average: Any, aggregation_level: Any, over: Over
) -> None:
    generator = np.random.default_rng(3)
    scores = generator.normal(size=(9, 3, 5)).astype(np.float32)
    wanted = generator.integers(0, 3, (9, 5)).astype(np.int32)
    values = [
        over(Dice(average, aggregation_level=aggregation_level), scores, wanted, cuts)
        for cuts in ([], range(9), [4])
    ]
    assert values == pytest.approx([values[0]] * 3, rel=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_small_floats_are_compared_as_they_are(dtype: str) -> None:
    scores = tensor(np.random.default_rng(1).normal(size=(4, 3, 9)).astype(np.float32)).astype(
        dtype
    )
    wanted = tensor(np.random.default_rng(2).integers(0, 3, (4, 9)).astype(np.int32))
    small, large = Dice(), Dice()
    small.update(Output(tensor(0.0), scores, wanted))
    large.update(Output(tensor(0.0), scores.astype("float32"), wanted))
    assert small.compute() == large.compute()


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(ShapeError, match=r"got \(2, 3, 4\) for \(2, 5\)"):
        Dice().update(output(np.zeros((2, 3, 4), np.float32), np.zeros((2, 5), np.int32)))
    with pytest.raises(ArgumentError, match="got NoneType and NoneType"):
        Dice().update(Output(tensor(0.0)))
    for arguments in ({"average": "none"}, {"aggregation_level": "items"}):
        with pytest.raises(ArgumentError, match="Dice requires"):
            Dice(**arguments)  # type: ignore[arg-type]
