"""The private pipe between a run and its dashboard: commands come from the one to the other.

A command is a line.  Each side sees that the other is gone when the pipe ends; a run that ends in
good order says so first.
"""

from __future__ import annotations

import signal
import socket
import threading

from pyrite.train.interruption import Interrupter

#: What a run says before it closes the pipe.
BYE = b"bye\n"


def obey(command: str, interrupter: Interrupter) -> None:
    """Do what a command asks of a run; one that is not known is ignored."""
    match command:
        case "pause":
            interrupter.pause()
        case "resume":
            interrupter.resume()
        case "save":
            interrupter.save()
        case "stop":
            interrupter.stop("asked in the dashboard")
        case "interrupt":
            _press_ctrl_c()
        case "abort":
            interrupter.stop("asked in the dashboard")
            _press_ctrl_c()  # as the second one: it raises


def _press_ctrl_c() -> None:
    main = threading.main_thread().ident
    if main is not None:
        signal.pthread_kill(main, signal.SIGINT)


class Commands:
    """The run's end of the pipe: commands, and whether the dashboard is still there."""

    def __init__(self, pipe: socket.socket) -> None:
        self._pipe = pipe
        self._begun = b""
        self.is_open = True

    def new(self, seconds: float) -> list[str]:
        """Wait so long for commands, and return those that came."""
        self._pipe.settimeout(seconds)
        try:
            piece = self._pipe.recv(4096)
        except (TimeoutError, BlockingIOError):
            return []
        except OSError:
            piece = b""
        if not piece:
            self.is_open = False
        *whole, self._begun = (self._begun + piece).split(b"\n")
        return [line.decode("ascii", "replace") for line in whole]

    def close(self) -> None:
        """Say that the run ends in good order, and close."""
        try:
            self._pipe.sendall(BYE)
        except OSError:
            pass
        self._pipe.close()


class Remote:
    """The dashboard's end of the pipe."""

    def __init__(self, descriptor: int) -> None:
        self._pipe = socket.socket(fileno=descriptor)
        self.was_closed = False

    def send(self, command: str) -> None:
        """Send a command.  Raises OSError where the run is gone."""
        self._pipe.sendall(command.encode() + b"\n")

    def wait(self) -> bool:
        """Wait until the run closes the pipe; return whether it did so in good order."""
        heard = b""
        try:
            while piece := self._pipe.recv(64):
                heard = (heard + piece)[-len(BYE) :]
        except OSError:
            return False
        return heard == BYE
