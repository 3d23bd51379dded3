"""Checkpoints: one file each, the right ones kept, none damaged by a full disk or a kill."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyrite.errors import ArgumentError, RecordError, TrainError
from pyrite.record import Record
from pyrite.train import Accuracy, CheckpointPolicy, Goal, History, Reading, SplitResult
from pyrite.train.checkpoint import Checkpoint, CheckpointFolder, Position


def history(losses: list[float]) -> History:
    return History(
        tuple(
            SplitResult(epoch, "valid", (Reading("Loss", loss, "", "lower"),), 0.0)
            for epoch, loss in enumerate(losses, start=1)
        )
    )


def checkpoint(position: Position, losses: list[float] = []) -> Checkpoint:  # noqa: B006
    return Checkpoint(
        position,
        Record({"layer.weight": np.arange(6.0).reshape(2, 3)}, {"of": "model"}),
        Record({"layer.weight.velocity": np.ones((2, 3))}, {"steps": 7}),
        {"Learning rate": {"latest": np.float64(0.1)}, "a/b": {"0": np.zeros(2)}},
        {"seed": 1, "name": "", "next_draw": 9},
        history(losses),
        {"batch_size": 4},
        steps=12,
        seconds=1.5,
    )


def names(folder: CheckpointFolder) -> list[str]:
    return [file.name for file in folder.files()]


def unwanted(path: Path, reason: str) -> None:
    raise AssertionError(reason)


def test_a_checkpoint_is_one_file_that_gives_back_all_of_it(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, CheckpointPolicy())
    saved = checkpoint(Position(2, 5), [3.0, float("nan")])
    path = folder.save(saved)
    assert [file.name for file in tmp_path.iterdir()] == ["epoch-0003-step-000005.safetensors"]
    found = folder.newest(unwanted)
    assert found is not None
    assert found[0] == path
    assert found[1].to_record() == saved.to_record()
    assert found[1].metrics["a/b"]["0"].shape == (2,)


def test_positions_are_read_back_from_names() -> None:
    for position in (Position(), Position(3), Position(3, 1), Position(12345, 6789012)):
        assert Position.of_file_name(position.file_name) == position
    for name in ("epoch-1.txt", "model.safetensors", ".epoch-0001.safetensors.1234.tmp"):
        assert Position.of_file_name(name) is None


def test_the_newest_is_the_furthest_whatever_the_times_of_the_files(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, CheckpointPolicy(keep_last=9))
    for position in (Position(2), Position(1, 40), Position(1), Position(2, 3)):
        folder.save(checkpoint(position))
    assert names(folder) == [
        "epoch-0001.safetensors",
        "epoch-0002-step-000040.safetensors",
        "epoch-0002.safetensors",
        "epoch-0003-step-000003.safetensors",
    ]


def test_the_last_and_the_best_are_kept(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, CheckpointPolicy(keep_last=2, best=Goal()))
    losses = [5.0, 1.0, 2.0, 3.0, 4.0]
    for epoch in range(1, 6):
        folder.save(checkpoint(Position(epoch), losses[:epoch]))
    assert names(folder) == [f"epoch-000{n}.safetensors" for n in (2, 4, 5)]
    assert folder.best(history(losses)) == tmp_path / "epoch-0002.safetensors"


def test_without_a_goal_only_the_last_are_kept(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, CheckpointPolicy(keep_last=1, best=None))
    for epoch in range(1, 4):
        folder.save(checkpoint(Position(epoch), [1.0, 2.0, 3.0][:epoch]))
    assert names(folder) == ["epoch-0003.safetensors"]
    assert folder.best(history([1.0])) is None


def test_strange_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    folder = CheckpointFolder(tmp_path, CheckpointPolicy(keep_last=1, best=None))
    folder.save(checkpoint(Position(1)))
    folder.save(checkpoint(Position(2)))
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_damaged_ones_are_reported_newest_first(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, CheckpointPolicy(keep_last=9))
    good = folder.save(checkpoint(Position(1)))
    cut = folder.save(checkpoint(Position(2)))
    cut.write_bytes(cut.read_bytes()[:100])
    foreign = folder.save(checkpoint(Position(3)))
    Record({"x": np.ones(2)}).save(foreign)
    incomplete = folder.save(checkpoint(Position(4)))
    Record({}, {"checkpoint": 1, "epoch": 4}).save(incomplete)
    told: list[tuple[Path, str]] = []

    found = folder.newest(lambda path, reason: told.append((path, reason)))

    assert found is not None
    assert found[0] == good
    assert [path for path, _ in told] == [incomplete, foreign, cut]
    assert "requires complete metadata, got KeyError: 'step'" in told[0][1]
    assert "requires a record of format 1, got None" in told[1][1]


def test_when_all_are_damaged_that_is_an_error(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, CheckpointPolicy())
    folder.save(checkpoint(Position(1))).write_bytes(b"")
    with pytest.raises(TrainError, match=r"got 1 damaged ones in .* start anew"):
        folder.newest(lambda path, reason: None)


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".epoch-0001.safetensors.12345678.tmp").write_bytes(b"half")
    assert CheckpointFolder(tmp_path, CheckpointPolicy()).newest(unwanted) is None
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", [{"keep_last": 0}, {"every_steps": 0}])
def test_arguments_out_of_range_are_refused(arguments: Any) -> None:
    with pytest.raises(ArgumentError, match="keep_last >= 1 and every_steps >= 1 or None"):
        CheckpointPolicy(**arguments)


# ---- a full disk ----


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Let no file grow beyond `size`: writing then fails as it does on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_is_one_error_and_costs_no_old_checkpoint(
    task: Any, weights: Any, tmp_path: Path
) -> None:
    whole = task.fit(task.learner())
    task.fit(task.learner(directory=tmp_path), epochs=1)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*.safetensors")}

    with (
        largest_file(2000),
        pytest.raises(TrainError, match=r"got: .*(too large|space).*make room, then resume"),
    ):
        task.fit(task.learner(directory=tmp_path), resume=True)

    assert {file: file.read_bytes() for file in tmp_path.rglob("*.safetensors")} == before
    assert not list(tmp_path.rglob("*.tmp"))
    resumed = task.fit(task.learner(directory=tmp_path), resume=True)
    assert weights(resumed.model) == weights(whole.model)


def test_a_disk_that_fills_up_while_saving_is_one_error(
    task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    learner = task.learner(directory=tmp_path)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TrainError, match="No space left on device"):
        task.fit(learner)
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_directory_that_is_a_file_is_one_error(task: Any, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(TrainError, match="requires a place that can be written, got"):
        task.fit(task.learner(directory=tmp_path / "run"))


# ---- kill -9 ----

PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
from conftest import Net
import numpy as np, pyrite
from pyrite import nn
from pyrite.data import DataLoader, InMemoryDataset
from pyrite.optim import Adam
from pyrite.train import CheckpointPolicy, Learner, supervised
pyrite.seed(5)
generator = np.random.default_rng(0)
items = [(x, int(x[:3].argmax())) for x in generator.normal(size=(22, 4)).astype(np.float32)]
learner = Learner(
    Net(), Adam(0.05), supervised(nn.CrossEntropyLoss()), directory=sys.argv[1],
    checkpoints=CheckpointPolicy(every_steps=2),
)
loader = DataLoader(InMemoryDataset(items), 4, shuffle=True, seed=3)
learner.fit(loader, epochs=int(sys.argv[2]), resume=sys.argv[3] == "resume")
"""


def test_a_killed_run_goes_on_from_its_last_checkpoint(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(folder=str(Path(__file__).parent)))

    def command(directory: str, epochs: int, how: str) -> list[str]:
        return [sys.executable, str(program), str(tmp_path / directory), str(epochs), how]

    with subprocess.Popen(command("killed", 10**6, "new")) as process:
        folder = CheckpointFolder(tmp_path / "killed" / "checkpoints", CheckpointPolicy())
        while not any(Position.of_file_name(name) > Position(2) for name in names(folder)):  # type: ignore[operator]
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
    found = folder.newest(unwanted)
    assert found is not None
    epochs = found[1].position.epoch + 2

    for directory, how in (("killed", "resume"), ("whole", "new")):
        subprocess.run(command(directory, epochs, how), check=True)

    assert (tmp_path / "killed" / "model.safetensors").read_bytes() == (
        tmp_path / "whole" / "model.safetensors"
    ).read_bytes()


def test_metrics_of_a_checkpoint_are_of_the_epoch_under_way(task: Any, tmp_path: Path) -> None:
    task.interrupted_at(4, tmp_path, metrics=[Accuracy()])
    folder = CheckpointFolder(tmp_path / "checkpoints", CheckpointPolicy())
    found = folder.newest(unwanted)
    assert found is not None
    assert found[1].metrics["Loss"]["weight"] == 16
    assert found[1].metrics["Accuracy"]["1"] == 16


def test_a_checkpoint_of_another_format_is_refused() -> None:
    with pytest.raises(RecordError, match="of another version of pyrite"):
        Checkpoint.from_record(Record({}, {"checkpoint": 2}))
