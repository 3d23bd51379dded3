"""Confusion matrices against scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix

import pyrite
from pyrite.errors import ArgumentError, IndexRangeError
from pyrite.train import ConfusionMatrix

from .conftest import Over, output


@pytest.mark.parametrize("normalize", [None, "true", "pred", "all"])
@pytest.mark.parametrize("case", range(8))
def test_it_is_that_of_scikit_learn(case: int, normalize: Any, over: Over) -> None:
    generator = np.random.default_rng(case)
    said = generator.normal(size=(40, 5)).astype(np.float32)
    wanted = generator.integers(0, 4, 40).astype(np.int32)  # class 4 is absent
    metric = ConfusionMatrix(normalize=normalize)
    share = over(metric, said, wanted)
    expected = confusion_matrix(wanted, said.argmax(1), labels=range(5), normalize=normalize)
    np.testing.assert_allclose(metric.matrix(), expected, rtol=1e-12)
    assert share == (said.argmax(1) == wanted).mean()


def test_what_is_masked_does_not_count(over: Over) -> None:
    generator = np.random.default_rng(0)
    said = generator.normal(size=(10, 6, 3)).astype(np.float32)
    wanted = generator.integers(0, 3, (10, 6)).astype(np.int64)
    wanted[generator.random((10, 6)) < 0.3] = -100
    kept = wanted != -100
    metric = ConfusionMatrix(ignore_index=-100)
    over(metric, said, wanted)
    expected = confusion_matrix(wanted[kept], said.argmax(-1)[kept], labels=range(3))
    np.testing.assert_array_equal(metric.matrix(), expected)


@pytest.mark.parametrize("ignore_index", [None, -1])
def test_of_yes_and_no_answers(ignore_index: Any) -> None:
    metric = ConfusionMatrix(threshold=0.5, ignore_index=ignore_index)
    wanted = np.int32([1, 1, 0, 0, -1 if ignore_index else 1])
    metric.update(output(np.float32([0.9, 0.1, 0.5, 0.2, 0.8]), wanted))
    expected = [[1, 1], [1, 1]] if ignore_index else [[1, 1], [1, 2]]
    assert metric.matrix().tolist() == expected


@pytest.mark.parametrize("wrong", [-1, 3, 100])
def test_a_target_that_is_no_class_is_told_when_it_is_read(wrong: int) -> None:
    metric = ConfusionMatrix()
    with pyrite.no_sync():
        metric.update(output(np.eye(3, dtype=np.float32), np.int32([0, wrong, 2])))
    with pytest.raises(IndexRangeError, match="requires targets from 0 to 2, got 1 others"):
        metric.compute()


def test_names_are_one_for_each_class() -> None:
    with pytest.raises(ArgumentError, match="a name for each of 3 classes, got 2"):
        ConfusionMatrix(["a", "b"]).update(output(np.eye(3, dtype=np.float32), np.int32([0, 1, 2])))
    with pytest.raises(ArgumentError, match="got 'rows'"):
        ConfusionMatrix(normalize="rows")  # type: ignore[arg-type]
