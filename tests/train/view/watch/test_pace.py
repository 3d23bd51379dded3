"""How long a run still takes, by what it told so far; times are the run's own."""

from __future__ import annotations

import pytest

from pyrite.train.event import EpochEnded, EpochStarted, StepEnded
from pyrite.train.view.watch.pace import Pace


def test_nothing_is_known_before_a_step() -> None:
    pace = Pace()
    assert pace.run_left(1.0) is None
    assert pace.epoch_left(1.0) is None
    assert pace.shares() is None
    pace.begin_epoch(EpochStarted(1, 3, 0, 10), 1.0)
    assert pace.run_left(2.0) is None


def told(pace: Pace, epoch: int, at: float, *, until: int = 10, seconds: float = 2.0) -> float:
    """Tell an epoch of 10 steps, and return the time at its end."""
    pace.begin_epoch(EpochStarted(epoch, 3, 0, 10), at)
    for step in range(1, until + 1):
        at += seconds
        pace.end_step(StepEnded("train", epoch, step, 10, (), seconds, 0.5, 32), at)
    return at


def test_the_first_epoch_counts_steps_only() -> None:
    pace = Pace()
    now = told(pace, 1, 0.0, until=4)
    assert pace.seconds_per_step == 2.0
    assert pace.items_per_step == 32
    assert pace.epoch_left(now) == 12.0
    assert pace.run_left(now) == 12.0 + 2 * 20.0
    assert pace.run_left(now + 5) == 47.0
    assert pace.epoch_left(now + 100) == 0.0


def test_later_ones_know_how_long_validation_takes() -> None:
    pace = Pace()
    now = told(pace, 1, 0.0)
    for step in (1, 2):
        pace.end_step(StepEnded("valid", 1, step, 4, (), 1.0), now + step)
    assert pace.epoch_left(now + 2) == 2.0
    now = told(pace, 2, now + 6.0, until=5)
    assert pace.run_left(now) == (10.0 + 6.0) + (20.0 + 6.0)
    pace.end_step(StepEnded("valid", 2, 1, 4, (), 1.0), now + 1.0)
    assert pace.run_left(now + 1.0) == 5.0 + 26.0


def test_where_the_time_goes_adds_up_to_all_of_it() -> None:
    pace = Pace()
    now = told(pace, 1, 1.0)
    pace.end_step(StepEnded("valid", 1, 1, 2, (), 4.0), now + 4)
    pace.end_epoch(EpochEnded("valid", 1, (), 6.0), now + 6)
    pace.begin_epoch(EpochStarted(2, 3, 0, 10), now + 9)
    shares = pace.shares()
    assert shares is not None
    assert (shares.data, shares.step) == pytest.approx((5 / 30, 15 / 30))
    assert (shares.evaluation, shares.other) == pytest.approx((6 / 30, 4 / 30))
