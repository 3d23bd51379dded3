"""Tables and lines as text."""

from __future__ import annotations

from typing import Any

import pytest

from pyrite.train import EpochEnded, Reading, StepEnded
from pyrite.train.event import Sampled
from pyrite.train.event_file import Entry
from pyrite.train.sample import TableSample, TextSample
from pyrite.train.view.watch.run import RunState
from pyrite.train.view.watch.text import around_selected, bars, log_line, table


@pytest.fixture
def state(run_of: Any) -> RunState:
    made = RunState()
    for time, event in run_of(4):
        made.take(Entry(time, event))
    made.take(Entry(1.0, EpochEnded("test", 4, (Reading("Loss", 0.5, "", "lower"),), 1.0)))
    return made


def test_a_table_leaves_out_splits_that_do_not_fit_and_no_value_in_part(state: RunState) -> None:
    for width in range(30, 140):
        lines = [line.plain for line in table(state, "Loss", state, width)]
        assert max(map(len, lines)) <= width or len(lines[0].split()) == 4
        assert "compared: best" in lines[0] or width < 50
    wide, narrow = (table(state, "Loss", None, width)[0].plain.split() for width in (140, 60))
    assert wide == ["train", "best", "valid", "best", "test", "best"]
    assert narrow == ["train", "best", "valid", "best"]


def test_the_row_of_the_selected_metric_is_in_sight_however_few_rows_there_are() -> None:
    names = [f"Metric {number}" for number in range(12)]
    made = RunState()
    readings = tuple(Reading(name, 0.5) for name in names)
    made.take(Entry(1.0, EpochEnded("train", 1, readings, 1.0)))
    made.take(Entry(2.0, EpochEnded("valid", 1, readings, 1.0)))
    for rows in (2, 4, 13, 20):
        for name in names:
            lines = [line.plain for line in around_selected(table(made, name, None, 80), rows)]
            assert len(lines) == min(rows, 13)
            assert lines[0].split() == ["train", "best", "valid", "best"]
            assert [line for line in lines if line.startswith(f"▸ {name} ")]


def test_bars_say_where_the_run_is_and_how_long_it_takes(run_of: Any) -> None:
    made = RunState()
    for time, event in run_of(4)[:7]:
        made.take(Entry(time, event))
    run, split = (line.plain for line in bars(made, made.seconds(made.heard), 60))
    assert run.endswith("16%  epoch 1/4  0:27 left")
    assert split.endswith("62%  5/8  0:03 left")
    assert len(run) == len(split) == 60


def test_samples_are_lines_of_the_log(state: RunState) -> None:
    state.take(Entry(1.0, Sampled("valid", 1, 1, TextSample("said", "the\x1b[2J cat"))))
    state.take(Entry(2.0, Sampled("valid", 1, 1, TableSample("worst", ["a"], [[1], [2]]))))
    text, rows = (log_line(line).plain for line in list(state.log)[-2:])
    assert text.endswith("sample of valid: said: the\\x1b[2J cat")
    assert rows.endswith("sample of valid: worst: a table of 2 rows, see pyrite report")


def test_the_speed_is_that_of_training_also_during_validation(state: RunState) -> None:
    told = state.pace.training_seconds
    state.pace.end_step(StepEnded("valid", 5, 1, 9, (), 100.0), 1e6)
    assert state.pace.training_seconds == told


def test_a_table_that_is_shown_in_each_epoch_is_one_line_and_a_text_one_each(
    state: RunState,
) -> None:
    before = len(state.log)
    for epoch in (1, 2, 3):
        state.take(Entry(1.0, Sampled("valid", epoch, 1, TableSample("worst", ["a"], [[epoch]]))))
        state.take(Entry(1.0, Sampled("valid", epoch, 1, TextSample("said", f"cat {epoch}"))))
    said = [line.text for line in list(state.log)[before:]]
    assert [text for text in said if "worst" in text] == [said[0]]
    assert said[1:] == [f"sample of valid: said: cat {epoch}" for epoch in (1, 2, 3)]
