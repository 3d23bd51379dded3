"""What events say so far, also those that are void, come twice, or make no sense."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyrite.train import (
    EpochStarted,
    Event,
    Logged,
    Paused,
    PauseEnded,
    Reading,
    Resumed,
    RunEnded,
    RunStarted,
    StepEnded,
    StopRequested,
)
from pyrite.train.event_file import Entry
from pyrite.train.view.watch.run import LINES, RunState


def state_of(told: list[tuple[float, Event]]) -> RunState:
    state = RunState()
    for time, event in told:
        state.take(Entry(time, event))
    return state


def test_a_whole_run(run_of: Any) -> None:
    state = state_of(run_of(4))
    assert state.status == "completed"
    assert state.is_over
    assert state.metrics() == ["Loss", "Accuracy", "Learning rate", "Gradient norm"]
    assert state.splits() == ["train", "valid"]
    assert len(state.curves["train", "Loss"]) == 32
    assert state.curves["valid", "Loss"].points[0].tolist() == [1, 2, 3, 4]
    best = state.best("valid", "Accuracy")
    assert best is not None
    assert best.epoch == 4
    assert state.seconds(1e12) == 40.0
    assert [line.text[:9] for line in state.log] == ["training ", "completed"]


def test_pauses_and_the_time_between_processes_are_left_out() -> None:
    begun = RunStarted("cpu", 0, 9, 1, None)
    told: list[tuple[float, Event]] = [(100, begun), (110, EpochStarted(1, 9, 0, 4))]
    state = state_of([*told, (120, Paused(0, 2))])
    assert state.status == "paused"
    assert state.seconds(500) == 20
    state = state_of([*told, (120, Paused(0, 2)), (170, PauseEnded(50))])
    assert state.status == "running"
    assert state.seconds(180) == 30
    again = [(120.0, Paused(0, 2)), (170.0, PauseEnded(50)), (180.0, StopRequested("x"))]
    state = state_of([*told, *again, (900, begun), (901, Resumed(Path("c"), 0, 2))])
    assert state.status == "running"
    assert state.seconds(905) == 35


def test_curves_and_results_that_a_resumed_run_voids_are_gone(run_of: Any, epoch_of: Any) -> None:
    told = run_of(4)[:-1]
    state = state_of([*told, (2e9, RunStarted("cpu", 0, 4, 1, None)),
                      (2e9, Resumed(Path("c"), 2, 4))])  # fmt: skip
    assert state.curves["train", "Loss"].points[0][-1] == 2.5
    assert state.curves["valid", "Loss"].points[0][-1] == 2.0
    best = state.best("valid", "Loss")
    assert best is not None
    assert best.epoch == 2
    for time, event in epoch_of(3, 4, 2e9):
        if not isinstance(event, StepEnded) or event.split == "valid" or event.step > 4:
            state.take(Entry(time, event))
    assert len(state.curves["train", "Loss"]) == 24


def test_lines_of_the_log_are_counted_and_the_latest_kept() -> None:
    state = state_of([(i, Logged("info", "stdout", str(i))) for i in range(LINES + 5)])
    assert state.logged == LINES + 5
    assert len(state.log) == LINES
    assert state.log[-1].text == str(LINES + 4)


def test_a_metric_of_the_learning_rate_is_the_same_curve_as_the_steps_own() -> None:
    rate = (Reading("Learning rate", 0.5),)
    state = state_of([(1, StepEnded("train", 1, 1, 2, rate, 1.0, learning_rate=0.5))])
    assert len(state.curves["train", "Learning rate"]) == 1


def test_events_that_make_no_sense_are_left_out() -> None:
    state = state_of(
        [
            (float("nan"), RunStarted("cpu", 0, 0, 1, None)),
            (1, EpochStarted(10**400, 1, 0, 0)),
            (2, StepEnded("train", 1, 1, 0, (Reading("Loss", 1.0),), 1.0)),
            (3, StepEnded("train", 10**400, 1, 1, (Reading("Loss", 1.0),), 1.0)),
            (4, Resumed(Path("c"), 1, 10**400)),
            (float("inf"), RunEnded("completed", 0.0, 0)),
        ]
    )
    assert state.status == "completed"
