"""``pyrite report``: a page and pictures as files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pyrite.cli.app import app
from pyrite.errors import TrainError

from ..train.report.conftest import MakeRun
from ..train.report.conftest import make_run as make_run


def report(*arguments: Any) -> Any:
    result = CliRunner().invoke(app, ["report", *map(str, arguments)])
    if result.exception is not None:
        raise result.exception
    return result


def test_a_page_and_pictures_are_written(make_run: MakeRun, tmp_path: Path) -> None:
    make_run("a")
    make_run("b", name="../ Löss/$")
    out, pictures = tmp_path / "deep" / "page.html", tmp_path / "png"
    told = report(tmp_path / "runs", "--out", out, "--png", pictures)
    assert told.stdout == f"2 runs: {out}\n"
    assert out.read_text().startswith("<!DOCTYPE html>")
    assert sorted(file.name for file in pictures.iterdir()) == [
        "01-loss.png", "02-accuracy.png", "03-l-ss.png", "04-learning-rate.png",
        "05-gradient-norm.png",
    ]  # fmt: skip


def test_notes_of_damaged_runs_are_told(make_run: MakeRun, tmp_path: Path) -> None:
    (make_run("a") / "run.json").write_text("{")
    told = report(tmp_path / "runs", "--out", tmp_path / "page.html")
    assert "requires a run.json of JSON" in told.stderr


def test_what_is_no_run_or_cannot_be_written_is_one_line(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run("a")
    (tmp_path / "file").write_text("")
    for arguments, message in (
        ([tmp_path / "nothing"], "report requires runs, got"),
        ([run, "--out", tmp_path / "file" / "page.html"], "requires a file that can be written"),
    ):
        with pytest.raises(TrainError, match=message):
            report(*arguments)


def test_without_matplotlib_it_says_what_to_install(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As the import system itself says that a package is not there: others import meanwhile.
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "pyrite.train.report.drawing", raising=False)
    with pytest.raises(TrainError, match=r"pip install 'pyrite\[report\]'"):
        report(make_run("a"))


def test_the_report_of_a_training(command: Any, run_directory: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    done = command("report", run_directory, "--out", out)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"1 run: {out}\n"
    text = out.read_text()
    assert all(said in text for said in ("Report: digits", "batch_size", "Accuracy", "completed"))
