"""Requests to stop, and who may handle Ctrl-C."""

from __future__ import annotations

import signal
import threading
from types import FrameType

from pyrite.train import Interrupter
from pyrite.train.interruption import stopping_on_ctrl_c


def test_the_first_reason_stays_until_it_is_taken_back() -> None:
    interrupter = Interrupter()
    assert not interrupter.should_stop
    interrupter.stop("first")
    interrupter.stop("second")
    assert interrupter.should_stop
    assert interrupter.reason == "first"
    interrupter.reset()
    assert interrupter.reason is None


def test_ctrl_c_is_told_once_and_then_is_itself_again() -> None:
    interrupter, told = Interrupter(), []
    with stopping_on_ctrl_c(interrupter, told.append):
        signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert told == ["Ctrl-C"]
    assert interrupter.should_stop


def test_another_thread_leaves_signals_alone() -> None:
    handlers = []

    def run() -> None:
        with stopping_on_ctrl_c(Interrupter(), print):
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert handlers == [signal.default_int_handler]


def test_a_program_that_handles_ctrl_c_itself_goes_on_doing_so() -> None:
    calls: list[int] = []

    def own(number: int, frame: FrameType | None) -> None:
        calls.append(number)

    before = signal.signal(signal.SIGINT, own)
    try:
        interrupter = Interrupter()
        with stopping_on_ctrl_c(interrupter, print):
            signal.raise_signal(signal.SIGINT)
        assert calls == [signal.SIGINT]
        assert not interrupter.should_stop
    finally:
        signal.signal(signal.SIGINT, before)
