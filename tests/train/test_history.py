"""Goals and early stopping are functions of the history; readings are written for people."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyrite.errors import ArgumentError, TrainError
from pyrite.train import (
    EarlyStopping,
    Goal,
    History,
    Reading,
    RunDirectory,
    SplitResult,
    summary,
    summary_text,
)

NAN = float("nan")


def made(values: list[float], better: str = "lower", split: str = "valid") -> History:
    return History(
        tuple(
            SplitResult(epoch, split, (Reading("M", value, "", better),), 0.5)  # type: ignore[arg-type]
            for epoch, value in enumerate(values, start=1)
        )
    )


@pytest.mark.parametrize(
    ("values", "better", "best"),
    [
        ([3, 1, 2], "lower", 2),
        ([3, 1, 2], "higher", 1),
        ([1, 1, 1], "lower", 1),
        ([NAN, 5, NAN, 4], "lower", 4),
        ([NAN, NAN], "lower", 1),
    ],
)
def test_the_best_epoch_is_the_first_that_no_other_beats(
    values: list[float], better: str, best: int
) -> None:
    found = Goal("M").best(made(values, better))
    assert found is not None
    assert found[0] == best


def test_a_goal_may_turn_the_direction_around() -> None:
    assert Goal("M", better="higher").best(made([3, 1, 2]))[0] == 1  # type: ignore[index]


def test_without_validation_a_goal_looks_at_training() -> None:
    assert Goal("M").best(made([2, 1], split="train"))[0] == 2  # type: ignore[index]
    assert Goal("M").best(History()) is None


@pytest.mark.parametrize(
    ("patience", "warm_up", "stops_after"), [(1, 0, 3), (2, 0, 4), (1, 4, 5), (2, 4, 6)]
)
def test_patience_begins_after_the_warm_up(patience: int, warm_up: int, stops_after: int) -> None:
    values = [2.0, 1.0, 3.0, 3.0, 3.0, 3.0, 3.0]
    early = EarlyStopping(Goal("M"), patience, warm_up)
    stops = [early.reason(made(values[:n])) is not None for n in range(1, 8)]
    assert stops.index(True) + 1 == stops_after


def test_patience_of_none_is_refused() -> None:
    with pytest.raises(ArgumentError, match="patience >= 1 and warm_up >= 0"):
        EarlyStopping(patience=0)


def test_the_summary_shows_the_best_and_the_last() -> None:
    history = made([3, 1, 2]).with_results(
        [SplitResult(3, "test", (Reading("Speed", 50.0, "steps/s"),), 0.1)]
    )
    rows = summary(history)
    assert [(row.best and row.best.value, row.epoch, row.last.value) for row in rows] == [
        (1, 2, 2),
        (None, None, 50.0),
    ]
    assert summary_text(history) == (
        "split  metric    best  epoch           last\n"
        "valid  M       1.0000      2         2.0000\n"
        "test   Speed                  50.00 steps/s"
    )


@pytest.mark.parametrize("text", ["{", "[1]", "\xff"])
def test_a_damaged_manifest_is_one_clear_error(tmp_path: Path, text: str) -> None:
    directory = RunDirectory(tmp_path)
    directory.manifest.write_bytes(text.encode("latin-1"))
    with pytest.raises(TrainError, match=r"run directory requires .*run\.json"):
        directory.read_manifest()


def test_clearing_a_directory_leaves_what_is_not_of_the_run(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.write_manifest({})
    directory.checkpoints.mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    assert directory.holds_run()
    directory.clear()
    assert not directory.holds_run()
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_a_history_is_shown_in_a_line():
    results = [
        SplitResult(epoch, split, (Reading("Loss", 1 / epoch, "", "lower"),), 0.5)
        for epoch in (1, 2)
        for split in ("train", "valid")
    ]

    assert repr(History(tuple(results))).startswith("History(2 epochs; train Loss 0.5")
    assert repr(History()) == "History(0 epochs; no readings)"
