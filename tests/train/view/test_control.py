"""Commands through the pipe between a run and its dashboard."""

from __future__ import annotations

import signal
import socket

import pytest

from pyrite.train import Interrupter
from pyrite.train.view.control import Commands, Remote, obey


def test_each_command_does_what_it_says() -> None:
    interrupter = Interrupter()
    obey("pause", interrupter)
    obey("save", interrupter)
    obey("dance", interrupter)
    assert (interrupter.is_paused, interrupter.wants_save) == (True, True)
    obey("resume", interrupter)
    assert not interrupter.is_paused
    assert not interrupter.should_stop
    obey("stop", interrupter)
    assert interrupter.reason == "asked in the dashboard"


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals of threads")
def test_to_interrupt_and_to_abort_are_ctrl_c() -> None:
    interrupter = Interrupter()
    with pytest.raises(KeyboardInterrupt):
        obey("interrupt", interrupter)
    assert not interrupter.should_stop
    with pytest.raises(KeyboardInterrupt):
        obey("abort", interrupter)
    assert interrupter.should_stop


def test_commands_arrive_as_they_were_sent_however_they_are_torn() -> None:
    own, other = socket.socketpair()
    commands, remote = Commands(own), Remote(other.detach())
    remote.send("pause")
    remote.send("save")
    assert commands.new(1.0) == ["pause", "save"]
    remote._pipe.sendall(b"res")
    assert commands.new(1.0) == []
    remote._pipe.sendall(b"ume\n\xff\n")
    assert commands.new(1.0) == ["resume", "\ufffd"]
    assert commands.new(0.0) == []
    assert commands.is_open
    remote._pipe.close()
    assert commands.new(1.0) == []
    assert not commands.is_open
    commands.close()


@pytest.mark.parametrize("in_good_order", [True, False])
def test_a_dashboard_knows_how_its_run_ended(in_good_order: bool) -> None:
    own, other = socket.socketpair()
    remote = Remote(other.detach())
    if in_good_order:
        Commands(own).close()
    else:
        own.close()
    assert remote.wait() is in_good_order
    with pytest.raises(OSError, match="pipe"):
        remote.send("pause")
    remote._pipe.close()
