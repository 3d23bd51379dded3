"""Curves: all points where they are few, those that can be seen where they are many."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from pyrite.train.report.curve import BUCKETS, LARGEST, charts, thin
from pyrite.train.report.run import read_run

from .conftest import MakeRun


@pytest.mark.parametrize("count", [0, 1, 399, 400, 401, 12_345, 1_000_000])
def test_a_thinned_line_covers_what_the_line_covers(count: int) -> None:
    y = np.random.default_rng(count).normal(size=count).cumsum()
    x = np.arange(count, dtype=np.float64)
    thin_x, thin_y = thin(x, y, 100)
    assert len(thin_x) == len(thin_y) <= 400 or count <= 400
    assert (np.diff(thin_x) > 0).all()
    assert (y[thin_x.astype(int)] == thin_y).all()
    if not count:
        return
    assert (thin_x[0], thin_x[-1]) == (0, count - 1)
    assert (thin_y.min(), thin_y.max()) == (y.min(), y.max())
    edges = np.linspace(0, count, 101).astype(int)
    for start, end in itertools.pairwise(edges):
        kept = thin_y[(thin_x >= start) & (thin_x < end)]
        if end > start:
            assert (kept.min(), kept.max()) == (y[start:end].min(), y[start:end].max())


def test_a_spike_of_one_step_in_a_million_stays() -> None:
    y = np.zeros(1_000_000)
    y[123_456], y[765_432] = 7, -7
    assert sorted(set(thin(y, y, BUCKETS)[1])) == [-7, 0, 7]


def test_charts_hold_steps_of_training_and_epochs_of_the_rest(make_run: MakeRun) -> None:
    runs = [read_run(make_run("a", epochs=2)), read_run(make_run("b", epochs=3))]
    found = charts(runs)
    assert [c.metric for c in found] == ["Loss", "Accuracy", "Learning rate", "Gradient norm"]
    loss = found[0]
    assert [(c.run, c.split, len(c.x)) for c in loss.curves] == [
        (0, "train", 20), (0, "valid", 2), (1, "train", 30), (1, "valid", 3),
    ]  # fmt: skip
    assert loss.curves[0].x[:3].tolist() == [0.1, 0.2, 0.3]
    assert loss.curves[3].x.tolist() == [1, 2, 3]
    assert (loss.unit, loss.better, found[1].unit) == ("", "lower", "%")
    assert found[2].curves[1].y[[0, -1]] == pytest.approx([0.1, 0.1 / 3], rel=1e-8)


def test_without_steps_training_is_drawn_by_epochs(make_run: MakeRun) -> None:
    (loss, *_) = charts([read_run(make_run("a", epochs=2), steps=False)])
    assert [(c.split, c.x.tolist()) for c in loss.curves] == [("train", [1, 2]), ("valid", [1, 2])]


def test_what_is_no_finite_number_is_counted_and_left_out(tmp_path: Path) -> None:
    values = ["NaN", "Infinity", 1.0, "-Infinity", 1e308, -1e308]
    lines = [
        {"event": "epoch_ended", "time": 1.0, "split": "valid", "epoch": epoch, "seconds": 1.0,
         "readings": {"Loss": value}}
        for epoch, value in enumerate(values, start=1)
    ]  # fmt: skip
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (chart,) = charts([read_run(tmp_path)])
    assert chart.left_out == 3
    assert chart.curves[0].x.tolist() == [3, 5, 6]
    assert chart.curves[0].y.tolist() == [1, LARGEST, -LARGEST]


def test_a_run_that_read_nothing_has_no_charts(tmp_path: Path) -> None:
    assert charts([read_run(tmp_path)]) == []
