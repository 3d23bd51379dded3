"""Nothing that a file says can command a terminal."""

from __future__ import annotations

import sys

from pyrite.train.view.legible import legible


def test_every_character_becomes_printable_and_most_stay_as_they_are() -> None:
    for code in range(sys.maxunicode + 1):
        if chr(code).isprintable():
            assert legible(chr(code)) == chr(code)
        else:
            assert legible(chr(code)).isprintable()


def test_what_terminals_obey_is_written_out() -> None:
    text = "a\x1b[2J\x9b31m\r\n\x07\x00\u202eb\ud800é 中"
    assert legible(text) == r"a\x1b[2J\x9b31m\r\n\x07\x00\u202eb\ud800é 中"
