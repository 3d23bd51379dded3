"""No step waits for a view, and no view can end a training."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from pyrite.train import EpochEnded, Event, RunStarted, StepEnded, StopRequested
from pyrite.train.view.broadcast import CAPACITY, Broadcast

STEP = StepEnded("train", 1, 1, 9, (), 0.1)
EPOCH = EpochEnded("train", 1, (), 0.1)


class Blocked:
    """A view that shows nothing until it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.seen: list[Event] = []
        self.closed = 0

    def handle(self, event: Event) -> None:
        self.let_go.wait(60)
        self.seen.append(event)

    def close(self) -> None:
        self.closed += 1


class Failing:
    def __init__(self, in_close: bool = False) -> None:
        self.in_close = in_close
        self.handled = self.closed = 0

    def handle(self, event: Event) -> None:
        self.handled += 1
        if not self.in_close:
            raise ValueError("no such colour")

    def close(self) -> None:
        self.closed += 1
        if self.in_close:
            raise ValueError("no such terminal")


def test_a_blocked_view_holds_no_step_up_and_loses_steps_only() -> None:
    view = Blocked()
    with Broadcast([view]) as views:
        for _ in range(3 * CAPACITY):  # returns though the view has shown nothing
            views.emit(STEP)
        views.emit(EPOCH)
        assert not view.seen
        view.let_go.set()
    steps = [event for event in view.seen if event is STEP]
    assert CAPACITY <= len(steps) <= CAPACITY + 1
    assert view.seen[-1] is EPOCH
    assert view.closed == 1


def test_events_arrive_in_order_on_one_thread_of_the_view() -> None:
    threads: set[int] = set()
    seen: list[Event] = []

    class View:
        def handle(self, event: Event) -> None:
            threads.add(threading.get_ident())
            seen.append(event)

        def close(self) -> None:
            threads.add(threading.get_ident())

    events: list[Event] = [RunStarted("numpy", 0, 1, 1, None), STEP, EPOCH, StopRequested("x")]
    with Broadcast([View()]) as views:
        for event in events:
            views.emit(event)
    assert seen == events
    assert len(threads) == 1
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("in_close", [False, True])
def test_a_view_that_raises_is_reported_once_and_others_go_on(
    in_close: bool, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = Failing(in_close), Blocked()
    good.let_go.set()
    with caplog.at_level(logging.ERROR), Broadcast([bad, good]) as views:
        for _ in range(5):
            views.emit(EPOCH)
    assert len(good.seen) == 5
    (report,) = caplog.messages
    assert report.startswith("view Failing failed and was closed, the training goes on: ValueError")
    assert bad.closed >= 1
    assert bad.handled == (5 if in_close else 1)


def test_a_view_that_hangs_is_left_behind(caplog: pytest.LogCaptureFixture) -> None:
    view = Blocked()
    with caplog.at_level(logging.ERROR), Broadcast([view], patience=0.01) as views:
        views.emit(EPOCH)
    assert caplog.messages == ["view Blocked hangs and was left behind"]
    view.let_go.set()


def test_a_training_survives_its_view(task: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        result = task.fit(task.learner(views=[Failing()]))
    assert (result.outcome, result.steps) == ("completed", 18)
    assert len(caplog.messages) == 1
