"""What is written to a terminal meanwhile is caught, told in lines, and written there later."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from pyrite.train.view import capture
from pyrite.train.view.capture import LONGEST, REPLAYED, Capture

pty = pytest.importorskip("pty")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """Both ends of a terminal; the second one is what is captured."""
    master, slave = os.openpty()
    monkeypatch.setattr(capture, "STREAMS", {slave: "stdout"})
    yield master, slave
    os.close(master)
    os.close(slave)


def read_until(master: int, end: bytes) -> bytes:
    """What was written to a terminal: it may come in pieces."""
    found = b""
    while not found.endswith(end):
        found += os.read(master, 1 << 16).replace(b"\r\n", b"\n")
    return found


def test_lines_are_told_when_they_are_whole_and_written_at_the_end(
    terminal: tuple[int, int],
) -> None:
    master, slave = terminal
    caught = Capture()
    caught.begin()
    os.write(slave, b"one\ntw")
    assert list(caught.lines()) == [("stdout", "one")]
    os.write(slave, b"o\n1 %\r50 %\r100 %\r\n\xff\x1b[31mred")
    assert list(caught.lines()) == [("stdout", "two"), ("stdout", "100 %")]
    caught.release()
    assert list(caught.lines(also_begun=True)) == [("stdout", "\ufffd\x1b[31mred")]
    caught.close()
    os.write(slave, b"free\n")
    written = read_until(master, b"free\n")
    assert written == b"one\ntwo\n100 %\n\xff\x1b[31mred\nfree\n"


def test_of_many_lines_the_last_are_written_and_the_others_counted(
    terminal: tuple[int, int],
) -> None:
    master, slave = terminal
    caught = Capture()
    caught.begin()
    os.write(slave, b"".join(b"%d\n" % i for i in range(REPLAYED + 7)))
    assert len(list(caught.lines())) == REPLAYED + 7
    caught.release()
    caught.close()
    lines = read_until(master, b"%d\n" % (REPLAYED + 6)).decode().splitlines()
    assert lines[0] == "(7 earlier lines stand in the events)"
    assert lines[1:] == [str(i) for i in range(7, REPLAYED + 7)]


def test_a_line_without_end_is_told_in_pieces(terminal: tuple[int, int]) -> None:
    _, slave = terminal
    caught = Capture()
    caught.begin()
    os.write(slave, b"x" * (3 * LONGEST))
    told = list(caught.lines(also_begun=True))
    assert "".join(text for _, text in told) == "x" * (3 * LONGEST)
    assert max(len(text) for _, text in told) == LONGEST
    caught.release()


def test_what_leads_to_a_file_is_left_alone(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(f"{tmp_path}/log", "wb", buffering=0) as file:
        monkeypatch.setattr(capture, "STREAMS", {file.fileno(): "stdout"})
        caught = Capture()
        caught.begin()
        assert caught.streams == {}
