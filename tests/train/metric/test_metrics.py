"""Metrics against their textbook formulas in NumPy, over several steps and by hand."""

from __future__ import annotations

import math
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.errors import ArgumentError, ShapeError
from pyrite.tensor.creation import tensor
from pyrite.train import (
    AUROC,
    Accuracy,
    AveragePrecision,
    ConfusionMatrix,
    CPUUse,
    Dice,
    FBeta,
    IterationSpeed,
    LearningRate,
    Loss,
    Memory,
    Metric,
    Output,
    Perplexity,
    Precision,
    Recall,
    TopK,
)

LOGITS = np.random.default_rng(1).normal(size=(60, 4)).astype(np.float32)
LABELS = np.random.default_rng(2).integers(0, 4, 60).astype(np.int32)
CHUNKS = (slice(0, 7), slice(7, 8), slice(8, 60))


def output(scores: Any, targets: Any, **fields: Any) -> Output:
    return Output(tensor(0.0), tensor(np.asarray(scores)), tensor(np.asarray(targets)), **fields)


def over(metric: Metric, scores: Any, targets: Any) -> float:
    """The metric's value over the items, seen in chunks of different sizes."""
    for chunk in CHUNKS:
        if len(scores[chunk]):
            metric.update(output(scores[chunk], targets[chunk]))
    return metric.compute().value


def per_class(truth: Any, predicted: Any, classes: int) -> list[tuple[int, int, int]]:
    return [
        (
            int(((truth == c) & (predicted == c)).sum()),
            int((predicted == c).sum()),
            int((truth == c).sum()),
        )
        for c in range(classes)
    ]


def test_accuracy_is_the_fraction_of_right_answers() -> None:
    assert over(Accuracy(), LOGITS, LABELS) == (LOGITS.argmax(1) == LABELS).mean()


def test_accuracy_of_every_token() -> None:
    scores, targets = LOGITS.reshape(12, 5, 4), LABELS.reshape(12, 5)
    assert over(Accuracy(), scores, targets) == (LOGITS.argmax(1) == LABELS).mean()


def test_accuracy_of_yes_and_no_answers() -> None:
    metric = Accuracy(threshold=0.5)
    metric.update(output(np.float32([0.9, 0.5, 0.1, 0.2]), np.int32([1, 1, 1, 0])))
    assert metric.compute().value == 0.75


@pytest.mark.parametrize("k", [1, 2, 4])
def test_top_k_finds_the_target_among_the_highest(k: int) -> None:
    ranks = np.argsort(-LOGITS, axis=1)[:, :k]
    assert over(TopK(k), LOGITS, LABELS) == (ranks == LABELS[:, None]).any(1).mean()


def test_top_k_of_more_classes_than_there_are_is_refused() -> None:
    with pytest.raises(ShapeError, match="TopK requires k <= 4 classes, got k=5"):
        TopK(5).update(output(LOGITS, LABELS))


@pytest.mark.parametrize("average", ["micro", "macro"])
@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_precision_recall_and_f_beta_are_those_of_the_counts(average: Any, beta: float) -> None:
    counts = per_class(LABELS, LOGITS.argmax(1), 4)
    if average == "micro":
        counts = [tuple(map(sum, zip(*counts, strict=True)))]
    precisions = [hits / predicted for hits, predicted, _ in counts]
    recalls = [hits / wanted for hits, _, wanted in counts]
    scores = [
        (1 + beta**2) * p * r / (beta**2 * p + r) for p, r in zip(precisions, recalls, strict=True)
    ]
    assert over(Precision(average), LOGITS, LABELS) == pytest.approx(np.mean(precisions))
    assert over(Recall(average), LOGITS, LABELS) == pytest.approx(np.mean(recalls))
    assert over(FBeta(beta, average), LOGITS, LABELS) == pytest.approx(np.mean(scores))


def test_a_class_that_is_never_predicted_counts_as_zero_and_one_never_seen_not_at_all() -> None:
    scores = np.eye(4, dtype=np.float32)[[0, 0, 1, 1]]
    targets = np.int32([0, 2, 1, 1])
    assert over(Precision("macro"), scores, targets) == pytest.approx((0.5 + 1 + 0) / 3)
    assert over(Recall("macro"), scores, targets) == pytest.approx((1 + 1 + 0) / 3)
    assert over(FBeta(1, "macro"), scores, targets) == pytest.approx((2 / 3 + 1 + 0) / 3)


def test_several_labels_at_once() -> None:
    scores = np.float32([[1, -1], [1, 1], [-1, -1]])
    targets = np.int32([[1, 1], [0, 1], [0, 0]])
    assert over(Precision("macro"), scores, targets) == pytest.approx((0.5 + 1) / 2)
    assert over(Recall("micro"), scores, targets) == pytest.approx(2 / 3)


def test_binary_precision_is_of_the_positive_class() -> None:
    scores, targets = np.float32([2, 1, -1, -2]), np.int32([1, 0, 1, 0])
    assert over(Precision("macro"), scores, targets) == 0.5


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (partial(TopK, 2), "classes"),
        *product((Accuracy, Recall, Precision, FBeta, partial(Recall, "micro")),
                 ("classes", "labels")),
    ],
)  # fmt: skip
def test_what_is_masked_does_not_count(make: Any, shape: str) -> None:
    targets = LABELS if shape == "classes" else (LOGITS[:, ::-1] > 0.3).astype(np.int32)
    masked = np.random.default_rng(3).random(60) < 0.4
    holed = np.where(masked.reshape(-1, *[1] * (targets.ndim - 1)), -100, targets)
    expected = over(make(), LOGITS[~masked], targets[~masked])
    assert over(make(ignore_index=-100), LOGITS, holed.astype(np.int32)) == expected


def test_auroc_is_the_chance_that_a_positive_is_above_a_negative() -> None:
    scores = np.round(LOGITS[:, 0], 1)  # with ties
    targets = (LABELS > 1).astype(np.int32)
    positive, negative = scores[targets == 1][:, None], scores[targets == 0]
    chance = ((positive > negative) + 0.5 * (positive == negative)).mean()
    assert over(AUROC(), scores, targets) == pytest.approx(chance)


def test_auroc_of_two_classes_ranks_by_the_difference_of_logits() -> None:
    two, targets = LOGITS[:, :2], LABELS % 2
    assert over(AUROC(), two, targets) == pytest.approx(
        over(AUROC(), two[:, 1] - two[:, 0], targets)
    )


def test_auroc_of_many_classes_is_the_mean_of_each_against_the_rest() -> None:
    shares = np.exp(LOGITS.astype(np.float64))
    shares /= shares.sum(1, keepdims=True)
    areas = []
    for c in range(4):
        positive, negative = shares[LABELS == c, c][:, None], shares[LABELS != c, c]
        areas.append((positive > negative).mean())
    assert over(AUROC(), LOGITS, LABELS) == pytest.approx(np.mean(areas))


def test_auroc_without_a_negative_is_undefined() -> None:
    assert math.isnan(over(AUROC(), LOGITS[:, 0], np.ones(60, np.int32)))


def test_the_loss_is_weighted_by_items() -> None:
    metric = Loss()
    metric.update(Output(tensor(1.0), items=3))
    metric.update(Output(tensor(2.0), items=1))
    assert metric.compute().value == 1.25


def test_perplexity_is_e_to_the_loss_per_target() -> None:
    metric = Perplexity()
    metric.update(Output(tensor(math.log(2)), targets=tensor(np.zeros((2, 3), np.int32))))
    metric.update(Output(tensor(math.log(8)), targets=tensor(np.zeros((2, 3), np.int32))))
    assert metric.compute().value == pytest.approx(4.0)


def test_perplexity_of_a_huge_loss_is_infinite() -> None:
    metric = Perplexity()
    metric.update(Output(tensor(1e4), items=1))
    assert metric.compute().value == math.inf


def test_speed_is_steps_by_their_seconds() -> None:
    metric = IterationSpeed()
    for seconds in (0.1, 0.4):
        metric.update(Output(tensor(0.0), seconds=seconds))
    assert str(metric.compute()) == "Speed 4.0000 steps/s"


def test_the_learning_rate_is_the_latest() -> None:
    metric = LearningRate()
    for rate in (0.1, 0.01):
        metric.update(Output(tensor(0.0), learning_rate=rate))
    assert metric.compute().value == 0.01


def test_the_machine_is_measured_in_plausible_numbers() -> None:
    cpu, memory = CPUUse(), Memory()
    for metric in (cpu, memory):
        metric.update(Output(tensor(0.0)))
    assert cpu.compute().value >= 0
    assert 1 < memory.compute().value < 1e6


ALL = (AUROC, Accuracy, AveragePrecision, CPUUse, ConfusionMatrix, Dice, FBeta, IterationSpeed,
       LearningRate, Loss, Memory, Perplexity, Precision, Recall, lambda: AUROC(thresholds=9),
       lambda: Dice(aggregation_level="global"), lambda: TopK(2))  # fmt: skip


@pytest.mark.parametrize("make", ALL)
def test_it_goes_on_from_its_state(make: Any) -> None:
    one, other = make(), make()
    steps = [
        Output(tensor(float(i)), tensor(LOGITS[c]), tensor(LABELS[c]), None, 0.1 * i, 0.5)
        for i, c in enumerate(CHUNKS)
    ]
    for step in steps[:2]:
        one.update(step)
    other.load_state(one.state())
    for metric in (one, other):
        metric.update(steps[2])
    if make is not CPUUse and make is not Memory:
        assert one.compute() == other.compute()
    assert set(one.state()) == set(other.state())


@pytest.mark.parametrize("make", ALL)
def test_before_the_first_step_and_after_a_reset_it_is_undefined(make: Any) -> None:
    metric = make()
    assert math.isnan(metric.compute().value)
    metric.update(output(LOGITS, LABELS, learning_rate=1.0))
    assert not math.isnan(metric.compute().value)
    metric.reset()
    assert math.isnan(metric.compute().value)


@pytest.mark.parametrize("make", ALL)
def test_an_update_does_not_wait_for_the_device(make: Any) -> None:
    metric, step = make(), output(LOGITS, LABELS)
    with pyrite.no_sync():
        metric.update(step)


@pytest.mark.parametrize("make", ALL)
def test_a_fresh_copy_shares_nothing_that_was_seen(make: Any) -> None:
    metric = make()
    metric.update(output(LOGITS, LABELS, learning_rate=1.0))
    assert math.isnan(metric.fresh().compute().value)
    assert not math.isnan(metric.compute().value)


@pytest.mark.parametrize(
    ("scores", "targets"),
    [((5, 3), (4,)), ((5,), (4,)), ((5, 3), (5, 2))],
)
def test_shapes_that_do_not_fit_are_named(scores: Any, targets: Any) -> None:
    with pytest.raises(ShapeError) as caught:
        Accuracy().update(output(np.zeros(scores, np.float32), np.zeros(targets, np.int32)))
    assert f"got {scores} for {targets}" in str(caught.value)


def test_a_metric_without_predictions_says_what_to_give() -> None:
    with pytest.raises(ArgumentError, match=r"got NoneType and NoneType; give both to Output"):
        Accuracy().update(Output(tensor(0.0)))


@pytest.mark.parametrize(
    "make",
    [lambda: TopK(0), lambda: FBeta(0.0), lambda: Precision("weighted")],  # type: ignore[arg-type]
)
def test_arguments_out_of_range_are_refused(make: Any) -> None:
    with pytest.raises(ArgumentError, match="requires"):
        make()
