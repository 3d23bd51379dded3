"""What holds of every metric: it waits for nothing, and a checkpoint keeps what it has seen."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import train
from pyrite.record import Record
from pyrite.tensor.creation import tensor
from pyrite.train import History, Metric, Output
from pyrite.train.checkpoint import Checkpoint, CheckpointFolder, CheckpointPolicy, Position

from .conftest import output

GENERATOR = np.random.default_rng(0)


def classes(items: int) -> Output:
    scores = GENERATOR.normal(size=(items, 4)).astype(np.float32)
    return output(scores, GENERATOR.integers(0, 4, items).astype(np.int32))


def images(items: int) -> Output:
    said, right = GENERATOR.random((2, items, 2, 24, 25)).astype(np.float32)
    return output(said, right)


def tokens(items: int) -> Output:
    said, right = GENERATOR.integers(1, 6, (2, items, 9)).astype(np.int32)
    return output(said, right)


def texts(items: int) -> Output:
    said, right = (
        [" ".join(GENERATOR.choice(["a", "b", "c."], 7)) for _ in range(items)] for _ in range(2)
    )
    return output(said, right)


CASES: dict[str, tuple[Callable[[], Metric], Callable[[int], Output]]] = {
    "AUROC": (train.AUROC, classes),
    "AUROC, thresholds": (lambda: train.AUROC(thresholds=9), classes),
    "Accuracy": (train.Accuracy, classes),
    "AveragePrecision": (train.AveragePrecision, classes),
    "AveragePrecision, thresholds": (lambda: train.AveragePrecision(thresholds=9), classes),
    "BLEU": (train.BLEU, texts),
    "BLEU, tokens": (train.BLEU, tokens),
    "CPUUse": (train.CPUUse, classes),
    "CharErrorRate": (train.CharErrorRate, texts),
    "CharErrorRate, tokens": (train.CharErrorRate, tokens),
    "ConfusionMatrix": (train.ConfusionMatrix, classes),
    "Dice": (train.Dice, classes),
    "Dice, global": (lambda: train.Dice(aggregation_level="global"), classes),
    "FBeta": (train.FBeta, classes),
    "IterationSpeed": (train.IterationSpeed, classes),
    "LearningRate": (train.LearningRate, classes),
    "Loss": (train.Loss, classes),
    "Memory": (train.Memory, classes),
    "MultiScaleSSIM": (lambda: train.MultiScaleSSIM(betas=(0.5, 0.5)), images),
    "PSNR": (train.PSNR, images),
    "PSNR, per image": (lambda: train.PSNR(per_image=True), images),
    "Perplexity": (train.Perplexity, classes),
    "Precision": (train.Precision, classes),
    "Recall": (train.Recall, classes),
    "RougeL": (train.RougeL, texts),
    "RougeL, tokens": (train.RougeL, tokens),
    "SSIM": (train.SSIM, images),
    "TopK": (lambda: train.TopK(2), classes),
    "WordErrorRate": (train.WordErrorRate, texts),
    "WordErrorRate, tokens": (train.WordErrorRate, tokens),
}
#: Of the machine at the moment: no two readings are alike.
OF_NOW = {"CPUUse", "Memory"}


def steps(make: Callable[[int], Output], count: int = 3) -> list[Output]:
    return [
        replace(make(5 + i), loss=tensor(float(i)), learning_rate=0.1 * (i + 1), seconds=0.5 + i)
        for i in range(count)
    ]


def through_a_checkpoint(metric: Metric, folder: Path) -> Any:
    saved = Checkpoint(
        Position(0, 1), Record({}, {}), Record({}, {}), {metric.name: metric.state()},
        {"seed": 1, "name": "", "next_draw": 0}, History(), {}, steps=1, seconds=0.0,
    )  # fmt: skip
    checkpoints = CheckpointFolder(folder, CheckpointPolicy())
    checkpoints.save(saved)
    found = checkpoints.newest(lambda path, reason: pytest.fail(reason))
    assert found is not None
    return found[1].metrics[metric.name]


def test_each_metric_is_a_case() -> None:
    concrete = {
        name
        for name in train.__all__
        if inspect.isclass(kind := getattr(train, name))
        and issubclass(kind, Metric)
        and not inspect.isabstract(kind)
    }
    assert {case.partition(",")[0] for case in CASES} == concrete


@pytest.mark.parametrize("case", list(CASES))
def test_a_checkpoint_within_an_epoch_keeps_what_was_seen(case: str, tmp_path: Path) -> None:
    make, makes = CASES[case]
    one, other, seen = make(), make(), steps(makes)
    for step in seen[:2]:
        one.update(step)
    other.load_state(through_a_checkpoint(one, tmp_path))
    if case not in OF_NOW:
        assert other.compute() == one.compute()
    for metric in (one, other):
        metric.update(seen[2])
    assert not math.isnan(one.compute().value)
    if case not in OF_NOW:
        assert other.compute() == one.compute()
    assert all(isinstance(part, np.ndarray | np.generic) for part in one.state().values())


@pytest.mark.parametrize("case", list(CASES))
def test_an_update_waits_for_nothing_and_when_it_is_read_does_not_matter(case: str) -> None:
    make, makes = CASES[case]
    often, once, seen = make(), make(), steps(makes, 4)
    for step in seen:
        with pyrite.no_sync():
            often.update(step)
            once.update(step)
        often.compute()
    if case not in OF_NOW:
        assert often.compute() == once.compute()


@pytest.mark.parametrize("case", list(CASES))
def test_a_copy_and_a_metric_that_was_reset_have_seen_nothing(case: str) -> None:
    make, makes = CASES[case]
    metric = make()
    assert math.isnan(metric.compute().value)
    assert metric.samples() == ()
    metric.update(steps(makes)[0])
    assert not math.isnan(metric.compute().value)
    assert math.isnan(metric.fresh().compute().value)
    metric.reset()
    assert math.isnan(metric.compute().value)
