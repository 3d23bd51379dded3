"""Confusion matrices against scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import classification_report, confusion_matrix

import pyrite
from pyrite.errors import ArgumentError, IndexRangeError
from pyrite.train import ConfusionMatrix, ImageSample, TableSample
from pyrite.train.metric.confusion_picture import confusion_picture

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


def test_the_table_of_classes_is_the_report_of_scikit_learn(over: Over) -> None:
    generator = np.random.default_rng(1)
    said = generator.normal(size=(80, 5)).astype(np.float32)
    wanted = generator.integers(0, 4, 80).astype(np.int32)
    metric = ConfusionMatrix(["a", "b", "c", "d", "<e>"])
    over(metric, said, wanted)
    _, table = metric.samples()
    report = classification_report(
        wanted, said.argmax(1), labels=range(5), output_dict=True, zero_division=0,
        target_names=["a", "b", "c", "d", "<e>"],
    )  # fmt: skip
    assert isinstance(table, TableSample)
    for name, *numbers in table.rows:
        expected = report[f"{name} avg" if name in ("macro", "weighted") else name]
        assert numbers == pytest.approx(list(expected.values()), abs=1e-4)


def test_of_many_classes_the_table_has_the_means_and_the_worst(over: Over) -> None:
    metric = ConfusionMatrix()
    wanted = np.arange(80, dtype=np.int32)
    said = np.eye(80, dtype=np.float32)
    said[70] = said[0]
    over(metric, said, wanted)
    _, table = metric.samples()
    assert isinstance(table, TableSample)
    assert [row[0] for row in table.rows[:4]] == ["macro", "weighted", "70", "0"]
    assert table.name == "Classes (32 more rows)"


def test_before_the_first_step_there_is_nothing_to_see() -> None:
    assert ConfusionMatrix().samples() == ()


@pytest.mark.parametrize("classes", [1, 2, 10, 40, 500])
def test_the_picture_is_shaded_by_the_shares_of_rows(classes: int) -> None:
    counts = np.diag(np.arange(classes) * 7000 + 1)
    pixels = confusion_picture(counts, [f"class \n\x1b {i}" for i in range(classes)])
    assert pixels.shape[0] == 3
    assert max(pixels.shape) <= 512
    blue = (pixels == np.array([21, 83, 158])[:, None, None]).all(axis=0).sum()
    cell = max(1, min(44, 400 // classes))
    assert 0.5 * classes * cell**2 < blue <= classes * cell**2
    sample = ImageSample.of("x", pixels)
    assert sample.width == pixels.shape[2]
