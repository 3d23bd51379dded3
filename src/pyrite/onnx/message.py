"""Text of files and errors in messages: one line, and nothing that steers a terminal."""

from __future__ import annotations

#: Characters of an error that are told.
_MOST = 300


def shown(name: str) -> str:
    r"""Return a name of a file with its control characters written out.

    >>> print(shown("x\x1b[31m"))
    x\x1b[31m
    """
    return name if name.isprintable() else repr(name)[1:-1]


def said(error: Exception) -> str:
    """Return the class of an error and the beginning of what it says."""
    return f"{type(error).__name__}: {one_line(str(error))[:_MOST]}"


def one_line(text: str) -> str:
    """Return text with one space where it has white space."""
    return shown(" ".join(text.split()))
