"""Areas under curves against scikit-learn and torchmetrics."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

import pyrite
from pyrite.errors import ArgumentError
from pyrite.tensor.creation import tensor
from pyrite.train import AUROC, AveragePrecision, Metric, Output
from pyrite.train.metric.ranking import RankingMetric

from .conftest import Over, output

AVERAGES = ("micro", "macro", "weighted")
CASES = range(12)
BOTH = ((AUROC, roc_auc_score), (AveragePrecision, average_precision_score))


def softmax(logits: Any) -> Any:
    shares = np.exp(logits.astype(np.float64))
    return shares / shares.sum(axis=1, keepdims=True)


def scores(generator: np.random.Generator, *shape: int) -> Any:
    """Of a normal distribution, or with many ties."""
    drawn = generator.normal(size=shape).astype(np.float32)
    return drawn if generator.random() < 0.5 else np.round(drawn)


@pytest.mark.parametrize("case", CASES)
def test_binary_areas_are_those_of_scikit_learn(case: int, over: Over) -> None:
    generator = np.random.default_rng(case)
    said = scores(generator, 40)
    wanted = np.append(generator.integers(0, 2, 38), [0, 1]).astype(np.int32)
    for make, judge in BOTH:
        assert over(make(), said, wanted) == pytest.approx(judge(wanted, said), rel=1e-12)


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("case", CASES)
def test_areas_of_labels_are_those_of_scikit_learn(case: int, average: Any, over: Over) -> None:
    generator = np.random.default_rng(case)
    said = scores(generator, 50, 4)
    wanted = (generator.random((50, 4)) < [0.1, 0.5, 0.7, 0.9]).astype(np.int32)
    wanted[:2] = [[1], [0]]
    for make, judge in BOTH:
        expected = judge(wanted, said, average=average)
        assert over(make(average), said, wanted) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_areas_of_classes_are_those_of_scikit_learn(
    case: int, logits: bool, average: Any, over: Over
) -> None:
    generator = np.random.default_rng(case)
    # Without ties, which the rounding of a softmax makes and breaks.
    said = generator.normal(size=(60, 5)).astype(np.float32)
    wanted = np.append(generator.integers(0, 5, 55), range(5))
    shares = softmax(said)
    given, wanted = (said if logits else shares), wanted.astype(np.int32)
    one_hot = np.eye(5)[wanted]
    for make, judge in BOTH:
        assert over(make(average, logits=logits), given, wanted) == pytest.approx(
            judge(one_hot, shares, average=average), rel=1e-9
        )


@pytest.mark.parametrize("average", ["macro", "weighted"])
@pytest.mark.parametrize("thresholds", [None, 5, 65])
def test_areas_of_classes_are_those_of_torchmetrics(
    thresholds: Any, average: Any, over: Over
) -> None:
    judges = pytest.importorskip("torchmetrics.functional.classification")
    torch = pytest.importorskip("torch")
    for case in CASES[:6]:
        generator = np.random.default_rng(case)
        shares = softmax(scores(generator, 70, 4)).astype(np.float32)
        wanted = np.append(generator.integers(0, 4, 66), range(4)).astype(np.int64)
        for make, judge in (
            (AUROC, judges.multiclass_auroc),
            (AveragePrecision, judges.multiclass_average_precision),
        ):
            expected = judge(
                torch.tensor(shares), torch.tensor(wanted), 4, average, thresholds=thresholds
            )
            metric = make(average, thresholds=thresholds, logits=False)
            assert over(metric, shares, wanted) == pytest.approx(float(expected), abs=1e-5)


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("ignore_index", [None, -1])
@pytest.mark.parametrize("thresholds", [None, 5, 33])
def test_areas_of_labels_are_those_of_torchmetrics(
    thresholds: Any, ignore_index: Any, average: Any, over: Over
) -> None:
    judges = pytest.importorskip("torchmetrics.functional.classification")
    torch = pytest.importorskip("torch")
    for case in CASES[:4]:
        generator = np.random.default_rng(case)
        # Eighths: some lie on thresholds.  At 1 torchmetrics forgets that its curve begins at 0.
        shares = (generator.integers(0, 8, (60, 3)) / 8).astype(np.float32)
        wanted = generator.integers(0, 2, (60, 3))
        if ignore_index is not None:
            wanted[generator.random((60, 3)) < 0.2] = ignore_index
        for make, judge in (
            (AUROC, judges.multilabel_auroc),
            (AveragePrecision, judges.multilabel_average_precision),
        ):
            expected = judge(
                torch.tensor(shares), torch.tensor(wanted), 3, average,
                thresholds=thresholds, ignore_index=ignore_index,
            )  # fmt: skip
            metric = make(average, thresholds=thresholds, logits=False, ignore_index=ignore_index)
            assert over(metric, shares, wanted) == pytest.approx(float(expected), abs=1e-5)


def test_binary_areas_of_thresholds_are_those_of_torchmetrics(over: Over) -> None:
    judges = pytest.importorskip("torchmetrics.functional.classification")
    torch = pytest.importorskip("torch")
    for case in CASES:
        generator = np.random.default_rng(case)
        logits = (3 * generator.normal(size=50)).astype(np.float32)
        wanted = np.append(generator.integers(0, 2, 48), [0, 1])
        for make, judge in (
            (AUROC, judges.binary_auroc),
            (AveragePrecision, judges.binary_average_precision),
        ):
            expected = judge(torch.tensor(logits).sigmoid(), torch.tensor(wanted), thresholds=20)
            assert over(make(thresholds=20), logits, wanted) == pytest.approx(
                float(expected), abs=1e-5
            )


@pytest.mark.parametrize("make", [AUROC, AveragePrecision])
@pytest.mark.parametrize("thresholds", [None, 100])
def test_a_class_that_is_absent_is_left_out_of_the_mean(
    make: type[RankingMetric], thresholds: Any, over: Over
) -> None:
    generator = np.random.default_rng(0)
    said, wanted = generator.random((30, 4)), generator.integers(0, 2, (30, 4)).astype(np.int32)
    wanted[:, 2] = 0
    present = [0, 1, 3]
    value = over(make(thresholds=thresholds), said, wanted)
    assert value == pytest.approx(
        over(make(thresholds=thresholds), said[:, present], wanted[:, present]), rel=1e-12
    )
    assert math.isnan(over(make(thresholds=thresholds), said, np.zeros((30, 4), np.int32)))


def test_a_curve_of_thresholds_begins_where_nothing_is_said(over: Over) -> None:
    said, wanted = np.float32([1, 1, 1, 0]), np.int32([1, 1, 0, 0])
    assert over(AUROC(thresholds=2, logits=False), said, wanted) == roc_auc_score(wanted, said)


def test_of_nothing_but_positives_the_precision_is_whole_and_no_rank_is_defined(
    over: Over,
) -> None:
    said, wanted = np.float32([0.1, 0.7]), np.int32([1, 1])
    for thresholds in (None, 10):
        assert over(AveragePrecision(thresholds=thresholds), said, wanted) == 1
        assert math.isnan(over(AUROC(thresholds=thresholds), said, wanted))


@pytest.mark.parametrize("make", [AUROC, AveragePrecision])
@pytest.mark.parametrize("thresholds", [None, 8])
def test_of_scores_that_are_all_alike(
    make: type[RankingMetric], thresholds: Any, over: Over
) -> None:
    said, wanted = np.full(8, 0.5, np.float32), np.int32([1, 0, 0, 0, 1, 0, 0, 0])
    expected = 0.5 if make is AUROC else 0.25
    assert over(make(thresholds=thresholds), said, wanted) == expected


@pytest.mark.parametrize("make", [AUROC, AveragePrecision])
@pytest.mark.parametrize("thresholds", [None, 8])
def test_a_score_that_is_nan_is_told_unless_it_does_not_count(
    make: type[RankingMetric], thresholds: Any, over: Over
) -> None:
    said, wanted = np.float32([0.5, math.nan, 0.25]), np.int32([1, -1, 0])
    assert math.isnan(over(make(thresholds=thresholds), said, wanted))
    assert over(make(thresholds=thresholds, ignore_index=-1), said, wanted) == 1


@pytest.mark.parametrize("make", [AUROC, AveragePrecision])
@pytest.mark.parametrize("thresholds", [None, 50])
@pytest.mark.parametrize("shape", ["binary", "labels", "classes"])
def test_the_cut_into_batches_does_not_matter(
    make: type[RankingMetric], thresholds: Any, shape: str, over: Over
) -> None:
    generator = np.random.default_rng(1)
    said = scores(generator, 30) if shape == "binary" else scores(generator, 30, 3)
    high, size = (3, 30) if shape == "classes" else (2, said.shape)
    wanted = generator.integers(0, high, size).astype(np.int32)
    values = {
        over(make(thresholds=thresholds), said, wanted, cuts)
        for cuts in ([], range(30), [1], [7, 20])
    }
    assert len(values) == 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("thresholds", [None, 40])
@pytest.mark.parametrize("make", [AUROC, AveragePrecision])
def test_small_floats_rank_as_their_values_do(
    make: type[RankingMetric], thresholds: Any, dtype: str
) -> None:
    generator = np.random.default_rng(2)
    small = tensor(generator.normal(size=(40, 3)).astype(np.float32)).astype(dtype)
    wanted = tensor(generator.integers(0, 3, 40).astype(np.int32))
    one, other = make(thresholds=thresholds), make(thresholds=thresholds)
    one.update(Output(tensor(0.0), small, wanted))
    other.update(Output(tensor(0.0), small.astype("float32"), wanted))
    assert one.compute() == other.compute()
    assert all(array.dtype.itemsize >= 4 for array in one.state().values())


def test_counts_by_threshold_are_all_that_is_kept() -> None:
    metric: Metric = AUROC(thresholds=10)
    sizes = []
    for _ in range(3):
        with pyrite.no_sync():
            metric.update(output(np.float32([[0.1, 0.9]] * 50), np.int32([[0, 1]] * 50)))
        sizes.append(sum(array.size for array in metric.state().values()))
    assert sizes == [2 * 2 * 10 + 1] * 3


@pytest.mark.parametrize("arguments", [{"average": "none"}, {"thresholds": 1}, {"thresholds": 0}])
def test_arguments_out_of_range_are_refused(arguments: Any) -> None:
    with pytest.raises(ArgumentError, match="AUROC requires"):
        AUROC(**arguments)


def test_it_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric = AveragePrecision()
        metric.update(output(np.float32([]), np.int32([])))
        assert math.isnan(metric.compute().value)
