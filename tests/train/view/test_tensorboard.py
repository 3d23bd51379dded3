"""Event files of TensorBoard, read as their format says."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboardX.proto.event_pb2 import Event as Record

from pyrite.train import (
    EpochStarted,
    ImageSample,
    Reading,
    StepEnded,
    TableSample,
    TextSample,
)
from pyrite.train.view.tensorboard import TensorBoardView

HOSTILE = "a/b <script>\x1b[31m $x$ 東京"


def records(folder: Path) -> list[Any]:
    """Each record is its length, a checksum, itself, and another checksum."""
    found = []
    for file in sorted(folder.glob("events.out.tfevents.*")):
        data, place = file.read_bytes(), 0
        while place < len(data):
            (length,) = struct.unpack_from("<Q", data, place)
            found.append(Record.FromString(data[place + 12 : place + 12 + length]))
            place += length + 16
    return found


def values(folder: Path) -> list[tuple[str, int, Any]]:
    return [(v.tag, r.step, v) for r in records(folder) for v in r.summary.value]


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    for tag, step, value in values(folder):
        if value.HasField("simple_value"):
            found.setdefault(tag, []).append((step, value.simple_value))
    return found


def test_what_the_history_says_stands_there(task: Any, tmp_path: Path) -> None:
    learner = task.learner(views=[TensorBoardView(tmp_path)], gradient_norm=True)
    history = task.fit(learner, epochs=2).history
    found = scalars(tmp_path)
    assert set(found) == {
        "Loss/train", "Loss/valid", "Accuracy/train", "Accuracy/valid", "Learning_rate/train",
        "Gradient_norm/train",
    }  # fmt: skip
    assert [step for step, _ in found["Loss/train"]] == [2, 4, 6, 8, 10, 12]
    assert [step for step, _ in found["Loss/valid"]] == [6, 12]
    for split in ("train", "valid"):
        ends = dict(found[f"Accuracy/{split}"])
        expected = [reading.value for _, reading in history.readings("Accuracy", split)]
        assert [ends[6], ends[12]] == pytest.approx(expected, rel=1e-6)


def test_a_metric_that_is_nan_is_written_without_a_line_for_each_of_its_readings(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    view = TensorBoardView(tmp_path)
    view.handle(EpochStarted(1, 1, 0, 5))
    for step in (1, 2):
        readings = (Reading("AUROC", math.nan),)
        view.handle(StepEnded("train", 1, step, 5, readings, 0.1))
    view.close()
    assert [math.isnan(value) for _, value in scalars(tmp_path)["AUROC/train"]] == [True, True]
    assert not caplog.records


def test_a_resumed_run_says_from_which_step_on_it_holds(task: Any, tmp_path: Path) -> None:
    run, folder = tmp_path / "run", tmp_path / "board"
    task.interrupted_at(6 + 2 + 3, run, views=[TensorBoardView(folder)])
    task.fit(task.learner(directory=run, views=[TensorBoardView(folder)]), resume=True)
    starts = [r.step for r in records(folder) if r.HasField("session_log")]
    assert starts == [10]
    assert [step for step, _ in scalars(folder)["Loss/valid"]] == [6, 12, 18]


def test_a_view_serves_one_run_after_another(task: Any, tmp_path: Path) -> None:
    view = TensorBoardView(tmp_path)
    for _ in range(2):
        task.fit(task.learner(views=[view]), epochs=1)
    assert [step for step, _ in scalars(tmp_path)["Loss/valid"]] == [6, 6]


def test_samples_are_images_and_texts(task: Any, tmp_path: Path) -> None:
    def show(batch: Any, output: Any) -> Any:
        yield ImageSample.of("eye", np.eye(3))
        yield TextSample(HOSTILE, "one\n# two <b>")
        yield TableSample("table", ["a", "b"], [[1, None], ["x", 0.5]])

    task.fit(task.learner(views=[TensorBoardView(tmp_path)], show=show), epochs=1)
    found = {tag: value for tag, _, value in values(tmp_path)}
    image = found["eye/valid"].image
    assert (image.width, image.height) == (3, 3)
    texts = [v.tensor.string_val[0].decode() for v in found.values() if v.tensor.string_val]
    assert "    one\n    # two <b>" in texts
    assert "    a\\tb\n    1\\t\n    x\\t0.5" in texts
    assert not any("\x1b" in tag for tag in found)
