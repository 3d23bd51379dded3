"""The plain view's lines, to the letter."""

from __future__ import annotations

import io
from pathlib import Path

from pyrite.train import (
    CheckpointDamaged,
    Checkpointed,
    EpochEnded,
    EpochStarted,
    Event,
    Interrupted,
    PlainView,
    Reading,
    Resumed,
    RunEnded,
    RunStarted,
    Sampled,
    StepEnded,
    StoppedEarly,
    StopRequested,
    TextSample,
)

READINGS = (Reading("Loss", 0.5, "", "lower"), Reading("Accuracy", 0.875, "%", "higher"))
PLACE = Path("runs/x")


def lines(events: list[Event], *, times: list[float] | None = None) -> list[str]:
    stream, clock = io.StringIO(), iter(times or [])
    view = PlainView(stream, clock=lambda: next(clock, 0.0))
    for event in events:
        view.handle(event)
    view.close()
    return stream.getvalue().splitlines()


def test_a_run_is_a_line_per_epoch_between_a_first_and_a_last() -> None:
    epoch = [
        EpochStarted(1, 12, 0, 4),
        StepEnded("train", 1, 1, 4, READINGS, 0.1),
        Checkpointed(PLACE, 0, 1),
        EpochEnded("train", 1, READINGS, 1.5),
        StepEnded("valid", 1, 1, 1, (), 0.1),
        Sampled("valid", 1, 1, TextSample("said", "nothing")),
        EpochEnded("valid", 1, READINGS, 0.25),
        Checkpointed(PLACE, 1, 0),
    ]
    assert lines(
        [RunStarted("numpy", 3, 12, 6186, PLACE), *epoch, RunEnded("completed", 2.0, 100)]
    ) == [
        "training on numpy: 6,186 parameters, 12 epochs, seed 3, in runs/x",
        "epoch  1/12  train: Loss 0.5000, Accuracy 87.50 %  "
        "valid: Loss 0.5000, Accuracy 87.50 %  1.8 s",
        "completed: 100 steps in 2.0 s, 50.0 steps/s",
    ]


def test_a_step_is_told_only_when_the_last_line_is_some_seconds_old() -> None:
    step = StepEnded("train", 1, 3, 9, READINGS, 0.1)
    told = lines([EpochStarted(1, 1, 0, 9), step, step, step], times=[0.0, 4.9, 5.1, 5.1, 9.0])
    assert told == ["epoch 1/1  train 3/9  Loss 0.5000, Accuracy 87.50 %"]


def test_an_evaluation_outside_of_a_run_is_a_line() -> None:
    assert lines([EpochEnded("test", 0, READINGS, 0.5)]) == [
        "test: Loss 0.5000, Accuracy 87.50 %  0.5 s"
    ]


def test_what_a_person_must_know_is_told_in_words() -> None:
    assert lines(
        [
            CheckpointDamaged(PLACE, "it is cut"),
            Resumed(PLACE, 1, 3),
            StopRequested("Ctrl-C"),
            Interrupted("Ctrl-C", 2, 1, PLACE),
            Interrupted("Ctrl-C", 1, 0, None),
            StoppedEarly(4, "no better"),
            RunEnded("interrupted", 0.5, 0),
        ]
    ) == [
        "checkpoint runs/x is damaged, trying the one before it: it is cut",
        "continuing after 1 epoch and 3 steps, from runs/x",
        "stopping after this step (Ctrl-C); once more aborts at once",
        "interrupted in epoch 2 after 1 step (Ctrl-C); saved runs/x",
        "interrupted in epoch 1 after 0 steps (Ctrl-C); nothing was saved",
        "stopped early after 4 epochs: no better",
        "interrupted: 0 steps in 0.5 s",
    ]


def test_ops_that_numpy_ran_for_a_device_are_told_before_and_after() -> None:
    assert lines(
        [
            RunStarted("candle", 3, 1, 10, None, lacking=33),
            RunEnded("completed", 2.0, 1, {"argsort": 2, "random_bits": 1200}),
        ]
    ) == [
        "training on candle: 10 parameters, 1 epochs, seed 3; it lacks 33 ops, which NumPy runs",
        "completed: 1 step in 2.0 s, 0.5 steps/s; run by NumPy: argsort 2 times, "
        "random_bits 1,200 times",
    ]
