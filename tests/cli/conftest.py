"""The program as a user runs it, and one finished run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from pyrite.cli import main

Completed = subprocess.CompletedProcess[str]
Program = Callable[..., Completed]


@pytest.fixture(scope="session")
def pyrite() -> Program:
    """Runs ``pyrite ARGUMENTS…`` and returns status and output."""

    def run(*arguments: str | Path, **environment: str) -> Completed:
        return subprocess.run(
            [sys.executable, "-m", "pyrite", *map(str, arguments)],
            capture_output=True,
            text=True,
            env={**os.environ, **environment},
            timeout=300,
        )

    return run


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Program:
    """Runs ``pyrite ARGUMENTS…`` within this process, for which it takes a second less."""

    def run(*arguments: str | Path) -> Completed:
        words = ["pyrite", *map(str, arguments)]
        output, errors, status = StringIO(), StringIO(), 0
        with monkeypatch.context() as patch, redirect_stdout(output), redirect_stderr(errors):
            patch.setattr(sys, "argv", words)
            try:
                main()
            except SystemExit as end:
                status = int(end.code or 0)
        return Completed(words, status, output.getvalue(), errors.getvalue())

    return run


@pytest.fixture(scope="session")
def run_directory(pyrite: Program, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A finished run of two epochs, which tests read and none changes: they run in any order."""
    path = tmp_path_factory.mktemp("runs") / "digits"
    done = pyrite("train", "digits", "--out", path, "--epochs", "2")
    assert done.returncode == 0, done.stderr
    before = files_of(path)
    yield path
    assert files_of(path) == before, "a test changed the run that others read; give it a copy"


def files_of(path: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
