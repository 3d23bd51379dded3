"""What is written to a terminal meanwhile is caught, told in lines, and written there later."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from pyrite.train.view import capture
from pyrite.train.view.capture import LIMIT, LONGEST, REPLAYED, Capture

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


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere what was caught lies on disk")
def test_the_memory_of_what_was_read_is_given_back(terminal: tuple[int, int]) -> None:
    _, slave = terminal
    caught = Capture()
    caught.begin()
    line = b"x" * 999 + b"\n"
    for number in range(8):
        os.write(slave, line * (LIMIT // 1000))
        assert sum(1 for _ in caught.lines()) == LIMIT // 1000
        held = os.fstat(caught.streams[slave].now).st_blocks * 512
        assert held <= 2 * LIMIT + 8192, number
    os.write(slave, b"after\n")
    assert list(caught.lines()) == [("stdout", "after")]
    caught.release()


def test_of_output_that_comes_too_fast_the_last_is_read_and_the_rest_counted(
    terminal: tuple[int, int],
) -> None:
    _, slave = terminal
    caught = Capture()
    caught.begin()
    lines = b"".join(b"%06d\n" % i for i in range(3 * LIMIT // 7))
    os.write(slave, lines)
    (_, first), *told = list(caught.lines())
    assert first == f"({len(lines) - LIMIT:,} bytes left out: output is read up to 1 MiB a look)"
    assert len(told) * 7 > LIMIT - 14
    assert told[-1] == ("stdout", lines[-7:-1].decode())
    caught.release()


def test_somebody_who_writes_for_ever_does_not_hold_the_reader(
    terminal: tuple[int, int],
) -> None:
    _, slave = terminal
    caught = Capture()
    caught.begin()
    os.write(slave, b"one\n")
    told = caught.lines()
    for _ in range(5):
        assert next(told, None) in (("stdout", "one"), None)
        os.write(slave, b"more\n")
    caught.release()
