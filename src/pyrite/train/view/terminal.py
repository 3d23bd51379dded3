"""The terminal: whether a dashboard can be shown in it, and how it is put back."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib.util import find_spec

if sys.platform != "win32":
    import termios

#: What the extra ``tui`` brings, as it is imported.
PACKAGE = "textual"


def problem(stdin: int = 0, stdout: int = 1) -> str | None:
    """Return why no dashboard can be shown in the terminal of two descriptors, None if it can."""
    if find_spec(PACKAGE) is None:
        return (
            f"{PACKAGE} cannot be imported; get it: {sys.executable} -m pip install 'pyrite[tui]'"
        )
    if sys.platform == "win32":
        return "no process can be handed the terminal here"
    if not (_is_terminal(stdin) and _is_terminal(stdout)):
        return "this is no terminal"
    if is_dumb():
        return f"this terminal cannot draw (TERM={os.environ.get('TERM', '')})"
    if os.tcgetpgrp(stdout) != os.getpgrp():
        return "this runs in the background of its terminal"
    return None


def is_dumb() -> bool:
    """Whether the terminal only takes lines, one after the other."""
    return os.environ.get("TERM", "dumb") in ("dumb", "unknown", "")


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


#: What a dashboard that was killed leaves switched on: the other screen, keys and mouse of its own.
_BACK = (
    b"\x1b[<u\x1b[?1000l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?1015l\x1b[?2004l\x1b[?2048l"
    b"\x1b[?7h\x1b[?1049l\x1b[?25h\x1b[0m"
)


class TerminalState:
    """How a terminal is set, to be put back after a program that may have been killed."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._attributes = termios.tcgetattr(descriptor) if sys.platform != "win32" else []

    def ignore_ctrl_z(self) -> None:
        """Let Ctrl-Z be a key as others: a shell would take the terminal before it is put back."""
        if sys.platform != "win32":
            attributes = termios.tcgetattr(self.descriptor)
            none = os.fpathconf(self.descriptor, "PC_VDISABLE").to_bytes(1, "big")
            attributes[6][termios.VSUSP] = none
            termios.tcsetattr(self.descriptor, termios.TCSANOW, attributes)

    def restore(self, *, was_killed: bool) -> None:
        """Set the terminal as it was; nothing where it is gone."""
        with suppress(OSError, *_ERRORS):
            if was_killed:
                os.write(self.descriptor, _BACK)
            if sys.platform != "win32":
                termios.tcsetattr(self.descriptor, termios.TCSANOW, self._attributes)


_ERRORS: tuple[type[Exception], ...] = () if sys.platform == "win32" else (termios.error,)
