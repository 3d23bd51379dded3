"""The progress view draws what happened, restores the terminal, and fails openly."""

from __future__ import annotations

import io

import pytest
from rich.console import Console, RenderableType

from pyrite.train import EpochEnded, EpochStarted, Reading, RunEnded, RunStarted, StepEnded
from pyrite.train.view.progress import ProgressView

SHOW_CURSOR = "\x1b[?25h"
LOSS = Reading("Loss", 0.25, "", "lower")


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)


def written(console: Console) -> str:
    stream = console.file
    assert isinstance(stream, io.StringIO)
    return stream.getvalue()


def text_of(view: ProgressView) -> str:
    console = Console(file=io.StringIO(), width=100, color_system=None)
    console.print(view.frame())
    return written(console)


def test_a_frame_shows_bars_readings_and_the_best_epoch() -> None:
    view = ProgressView(terminal())
    view.handle(RunStarted("numpy", 0, 4, 10, None))
    view.handle(EpochStarted(1, 4, 0, 8))
    view.handle(EpochEnded("train", 1, (LOSS,), 1.0))
    view.handle(EpochStarted(2, 4, 0, 8))
    view.handle(StepEnded("train", 2, 6, 8, (Reading("Loss", 0.5, "", "lower"),), 0.1))
    lines = [line.split() for line in text_of(view).splitlines()]
    view.close()
    epochs, train, heading, loss = lines
    assert epochs[0] == "epochs"
    assert "1.75/4" in " ".join(epochs) or "1/4" in " ".join(epochs)
    assert train[0] == "train"
    assert "6/8" in train
    assert heading == ["train", "best"]
    assert loss == ["Loss", "0.5000", "0.2500", "@", "1"]


def test_each_split_has_a_bar_and_a_column_of_its_own() -> None:
    view = ProgressView(terminal())
    view.handle(EpochStarted(1, 1, 0, 2))
    view.handle(EpochEnded("train", 1, (LOSS,), 1.0))
    view.handle(StepEnded("valid", 1, 1, 3, (LOSS, Reading("Recall", 0.5, "%", "higher")), 0.1))
    text = text_of(view)
    view.close()
    assert "1/3" in text
    assert "2/2" not in text
    assert "Recall" in text
    assert "50.00 %" in text


def test_at_the_end_the_last_frame_stays_and_the_cursor_is_back() -> None:
    console = terminal()
    view = ProgressView(console)
    view.handle(EpochStarted(1, 1, 0, 2))
    view.handle(EpochEnded("train", 1, (LOSS,), 1.0))
    view.handle(RunEnded("completed", 2.0, 10))
    view.close()
    text = written(console)
    assert "completed: 10 steps in 2.0 s" in text
    assert text.rindex("0.2500") > text.rindex("completed")
    assert text.rindex(SHOW_CURSOR) > text.rindex("0.2500")


def test_it_can_be_used_for_a_next_run() -> None:
    view = ProgressView(terminal())
    view.handle(EpochEnded("train", 1, (LOSS,), 1.0))
    view.close()
    view.handle(EpochEnded("test", 0, (LOSS,), 1.0))
    text = text_of(view)
    view.close()
    assert "test" in text
    assert "train" not in text


def test_what_cannot_be_drawn_is_raised_to_the_caller_and_the_terminal_restored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(self: ProgressView) -> RenderableType:
        raise ValueError("no such colour")

    monkeypatch.setattr(ProgressView, "frame", broken)
    console = terminal()
    view = ProgressView(console)
    view.handle(EpochStarted(1, 1, 0, 2))  # draws a first frame
    with pytest.raises(ValueError, match="no such colour"):
        view.handle(EpochStarted(1, 1, 0, 2))
    view.close()
    assert SHOW_CURSOR in written(console)


def test_a_transient_view_leaves_no_frame_behind() -> None:
    console = terminal()
    view = ProgressView(console, transient=True)
    view.handle(EpochEnded("train", 1, (LOSS,), 1.0))
    view.close()
    erase_line = "\x1b[2K"
    text = written(console)
    assert text.rindex(erase_line) > text.rindex("0.2500")
