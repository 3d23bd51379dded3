"""Requests to stop, and who may handle Ctrl-C."""

from __future__ import annotations

import signal
import threading
from types import FrameType

import pytest

from pyrite.train import Interrupter
from pyrite.train.interruption import stopping_on_signals


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
    with stopping_on_signals(interrupter, told.append):
        signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert told == ["Ctrl-C"]
    assert interrupter.should_stop


def test_ctrl_c_raises_at_once_where_somebody_asked_to_stop_before() -> None:
    interrupter, told = Interrupter(), []
    interrupter.stop("a view")
    with (
        pytest.raises(KeyboardInterrupt),
        stopping_on_signals(interrupter, told.append),
    ):
        signal.raise_signal(signal.SIGINT)
    assert told == []
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no terminal hangs up here")
@pytest.mark.usefixtures("_hears_hangups")
def test_a_terminal_that_is_closed_asks_to_stop_as_often_as_it_says_so() -> None:
    interrupter = Interrupter()
    with stopping_on_signals(interrupter, print):
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGHUP)
    assert interrupter.reason == "the terminal was closed"
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


def test_nohup_is_respected() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        interrupter = Interrupter()
        with stopping_on_signals(interrupter, print):
            signal.raise_signal(signal.SIGHUP)
        assert not interrupter.should_stop
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_pause_and_a_checkpoint_are_asked_for_and_taken_back() -> None:
    interrupter = Interrupter()
    interrupter.pause()
    interrupter.save()
    assert interrupter.is_paused
    assert interrupter.wants_save
    interrupter.resume()
    interrupter.saved()
    assert not interrupter.is_paused
    assert not interrupter.wants_save
    interrupter.pause()
    interrupter.save()
    interrupter.reset()
    assert not interrupter.is_paused
    assert not interrupter.wants_save


def test_another_thread_leaves_signals_alone() -> None:
    handlers = []

    def run() -> None:
        with stopping_on_signals(Interrupter(), print):
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
        with stopping_on_signals(interrupter, print):
            signal.raise_signal(signal.SIGINT)
        assert calls == [signal.SIGINT]
        assert not interrupter.should_stop
    finally:
        signal.signal(signal.SIGINT, before)
