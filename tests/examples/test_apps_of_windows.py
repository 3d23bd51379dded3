"""The applications in examples/apps that answer while they train: small runs, by events."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import numpy as np
import pytest

import pyrite

from .application import app


def digits_window() -> None:
    window = app("digits_window")
    pad = window.Pad(window.Training(pyrite.device("cpu")))
    before = pad.answer().copy()
    for _ in range(40):
        pad.training.advance()

    for event in window.drawn_events(window.ZERO):
        pad.handle(event)
    drawing = pad.drawing.copy()
    assert int(pad.answer().argmax()) == 0
    doubted = pad.shares[7]
    assert pad.picture().shape == (192, 312, 4)
    assert not np.array_equal(before, pad.shares)
    pad.handle({"event_type": "key_down", "key": "7"})  # it is a seven, the user says
    pad.handle({"event_type": "key_down", "key": "Backspace"})
    assert not pad.drawing.any()
    for _ in range(30):
        pad.training.advance()
    pad.drawing = drawing
    assert pad.answer()[7] > 2 * doubted  # and it learns that, from one drawing in each batch


def answers_while_training() -> None:
    window = app("digits_window")
    pad = window.Pad(window.Training(pyrite.device("cpu")))
    pad.training.begin()
    seen = set()
    while len(seen) < 3:
        pad.answer()
        seen.add(pad.training.steps)
    pad.training.end()
    steps = pad.training.steps

    assert steps >= max(seen)
    assert not any(thread.name == "training" for thread in threading.enumerate())
    assert pad.answer().sum() == pytest.approx(1.0, abs=1e-5)


def messages() -> None:
    messages = app("messages")
    interface = messages.Interface(messages.Learning(pyrite.device("cpu")))

    asyncio.run(interface.run(6))

    assert len(interface.losses) == len(interface.shares) == 6
    assert interface.losses[-1] < 0.6 * interface.losses[0]
    # An error is an answer, and nothing goes on when the interface has ended.
    assert "Linear requires x.shape[-1] == 2, got (512, 1)" in interface.errors[0]
    assert not {"train", "answer"} & {thread.name for thread in threading.enumerate()}
    assert len(interface.late) > 0


def answers_before_the_end() -> None:
    messages = app("messages")
    answered = []

    async def run() -> None:
        task = messages.Task("slow", lambda message: answered.append(message) or message)
        futures = [task.send(messages.Train(n)) for n in range(5)]
        futures[3].cancel()
        await task.end()
        await asyncio.sleep(0)
        done = [future.result() for future in futures if not future.cancelled()]
        assert done == [messages.Train(n) for n in (0, 1, 2, 4)]

    asyncio.run(run())
    assert messages.Train(3) not in answered


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "case",
    [
        digits_window,
        answers_while_training,
        messages,
        answers_before_the_end,
    ],
    ids=lambda case: case.__name__,
)
def test_an_application(case: Callable[[], None]) -> None:
    case()
