"""In a notebook: what cells end with is shown, a run is drawn in one place, and `await` works."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from pyrite.train import EpochEnded, EpochStarted, Reading, RunEnded, RunStarted, StepEnded

pytest.importorskip("IPython")

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from pyrite.train.view.notebook import NotebookView


@pytest.fixture
def shell(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    # IPython warns of a shell's environment that is not the interpreter's own.
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    made = InteractiveShell.instance(user_ns={})
    made.history_manager.enabled = False
    yield made
    made.history_manager.end_session()
    InteractiveShell.clear_instance()


def run(shell: InteractiveShell, cell: str) -> Any:
    with capture_output():
        done = asyncio.run(shell.run_cell_async(cell, transformed_cell=cell))
    done.raise_error()
    return done.result


def html(shell: InteractiveShell, value: object) -> str:
    data, _ = shell.display_formatter.format(value)
    return str(data["text/html"])


def test_tensors_modules_and_runs_are_shown_as_html(shell: InteractiveShell) -> None:
    tensor = run(shell, "import pyrite\nfrom pyrite import nn\npyrite.arange(4)")
    assert "mean 1.5" in html(shell, tensor)
    assert "in_features=2" in html(shell, run(shell, "nn.Linear(2, 3)"))
    result = run(shell, """
from pyrite.data import DataLoader, InMemoryDataset
from pyrite.train import Learner, supervised
import numpy as np
items = [(np.full(2, i, np.float32), i % 3) for i in range(6)]
learner = Learner(nn.Linear(2, 3), pyrite.optim.SGD(0.1), supervised(nn.CrossEntropyLoss()))
learner.fit(DataLoader(InMemoryDataset(items), 3), epochs=2)
""")  # fmt: skip
    assert "completed: 4 steps in" in html(shell, result)
    assert "<polyline" in html(shell, result)


def test_a_cell_may_await(shell: InteractiveShell) -> None:
    (array,) = run(shell, "import pyrite\nawait pyrite.read_async(pyrite.arange(3) * 2)")
    assert array.tolist() == [0, 2, 4]


def events() -> list[Any]:
    loss = Reading("Loss", 0.25, "", "lower")
    return [
        RunStarted("numpy", 0, 2, 10, None),
        EpochStarted(1, 2, 0, 8),
        StepEnded("train", 1, 4, 8, (Reading("Loss", 0.5),), 0.1),
        EpochEnded("train", 1, (loss,), 1.0),
        RunEnded("completed", 2.0, 8),
    ]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_run_is_drawn_in_one_place_and_not_too_often(shell: InteractiveShell) -> None:
    clock = Clock()
    view = NotebookView(seconds=1.0, clock=clock)
    with capture_output() as captured:
        for event in events()[:3]:
            view.handle(event)  # at one time: one frame
        clock.now = 1.5
        view.handle(events()[3])
        view.handle(events()[4])
        view.close()
    frames = captured.outputs
    assert [bool(frame.update) for frame in frames] == [False, True, True]
    assert len({frame.transient["display_id"] for frame in frames}) == 1
    pages = [frame.data["text/html"] for frame in frames]
    assert "training on numpy" in pages[0]
    assert '<progress value="4" max="8"></progress> epoch 1/2 train 4/8' in pages[1]
    assert "0.2500" in pages[1]
    assert "completed" in pages[2]
    assert "<progress" not in pages[2]


def test_a_view_shows_one_run_after_another(shell: InteractiveShell) -> None:
    view = NotebookView(seconds=0)
    with capture_output() as captured:
        for _ in range(2):
            for event in events():
                view.handle(event)
            view.close()
    places = [frame.transient["display_id"] for frame in captured.outputs]
    assert len(set(places)) == 2
    assert captured.outputs[-1].data["text/html"].count("training on") == 1


def test_names_bring_no_markup(shell: InteractiveShell) -> None:
    view = NotebookView()
    with capture_output():
        view.handle(EpochEnded("<b>", 1, (Reading("<i>", 1.0),), 1.0))
    assert "<b>" not in view.frame()
    assert "<i>" not in view.frame()
