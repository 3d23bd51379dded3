"""What a file or a program says, made harmless for a terminal."""

from __future__ import annotations


def legible(text: str) -> str:
    r"""Return the text on one line, with each character that a terminal may obey written out.

    >>> print(legible("Loss\x1b[31m\n"))
    Loss\x1b[31m\n
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
