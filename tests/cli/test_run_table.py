"""The table of runs has the columns that there is room for."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from pyrite.cli.run_table import Column, fitting

from ..train.report.conftest import MakeRun
from ..train.report.conftest import make_run as make_run


def test_those_of_the_highest_rank_are_left_out_first() -> None:
    columns = [Column(name, ["12345"], rank) for name, rank in (("a", 0), ("b", 2), ("c", 1))]
    for width, names in ((19, "abc"), (18, "ac"), (12, "ac"), (11, "a"), (1, "a")):
        assert "".join(column.heading for column in fitting(columns, width)) == names


def test_a_wide_letter_takes_two_places() -> None:
    assert Column("東京", ["a"], 0).width == 4


@pytest.mark.parametrize("width", [30, 80, 120])
def test_no_line_is_longer_than_the_terminal(make_run: MakeRun, width: int) -> None:
    place = make_run("one", lr=0.1).parent
    make_run("another-name", lr=0.25)
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "pyrite", "runs", place.name, "--settings"],
        stdout=theirs, stderr=subprocess.PIPE, cwd=place.parent, timeout=120, check=True,
        env={**os.environ, "COLUMNS": str(width), "TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    text = os.read(ours, 100_000).decode()
    os.close(ours)
    lines = [plain(line) for line in text.splitlines()]
    assert all(len(line) <= width for line in lines)
    assert len(lines) == 3
    names = ("runs/one", "runs/another-name", *(("lr", "0.25") if width >= 50 else ()))
    for name in names:
        assert any(name in line for line in lines), (name, lines)
    assert (b"no room for: " in done.stderr) == (width <= 80)


def plain(line: str) -> str:
    for code in ("\x1b[0m", "\x1b[1m", "\x1b[2m"):
        line = line.replace(code, "")
    assert "\x1b" not in line
    return line


def test_a_long_path_shows_its_end(make_run: MakeRun, tmp_path: Path) -> None:
    path = make_run("x" * 60 + "end")
    done = subprocess.run(
        [sys.executable, "-m", "pyrite", "runs", str(path.parent)],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert "…xxx" in done.stdout
    assert "xend " in done.stdout
