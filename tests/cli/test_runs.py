"""``pyrite runs``: which runs, in which order, in which columns."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pyrite.cli.app import app
from pyrite.errors import TrainError

from ..train.report.conftest import MakeRun
from ..train.report.conftest import make_run as make_run

HOSTILE = "<b>\x1b[31m[bold]\n\u202e"


def run(*arguments: Any) -> str:
    result = CliRunner().invoke(app, ["runs", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def names(text: str) -> list[str]:
    return [Path(line.split()[0]).name for line in text.splitlines()[1:]]


@pytest.fixture
def place(make_run: MakeRun) -> Path:
    make_run("worst", scale=2.0, lr=0.1, optimizer="sgd")
    make_run("best", scale=0.5, lr=0.3, optimizer="adam", epochs=5)
    return make_run("middle", scale=1.0, lr=0.2, optimizer="adam").parent


def test_they_are_listed_with_how_they_ended_and_their_best(place: Path) -> None:
    text = run(place)
    assert names(text) == ["middle", "best", "worst"]  # the latest first
    head, _, best, _ = text.splitlines()
    assert head.split() == ["run", "state", "epochs", "started", "time", "Loss", "Accuracy"]
    assert re.search(r"best +completed +5/5 +20\d\d-\d\d-\d\d .* 0:0\d +0.0917 +81.67 %", best)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("Loss", ["best", "middle", "worst"]),
        ("Accuracy", ["best", "middle", "worst"]),
        ("train Loss", ["best", "middle", "worst"]),
        ("lr", ["worst", "middle", "best"]),
        ("run", ["best", "middle", "worst"]),
        ("optimizer", ["best", "middle", "worst"]),
    ],
)
def test_they_are_sorted(place: Path, key: str, expected: list[str]) -> None:
    assert names(run(place, "--sort", key)) == expected
    assert names(run(place, "--sort", key, "--reverse"))[0] == expected[-1]


def test_what_a_run_does_not_know_comes_last(place: Path, make_run: MakeRun) -> None:
    (make_run("none") / "events.jsonl").unlink()
    for arguments in ([], ["--reverse"]):
        assert names(run(place, "--sort", "Loss", *arguments))[-1] == "none"


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("Accuracy>60%", {"best", "middle"}),
        ("Accuracy > 0.6", {"best", "middle"}),
        ("Loss<=0.3", {"best", "middle"}),
        ("lr<0.25", {"worst", "middle"}),
        ("optimizer=adam", {"best", "middle"}),
        ("optimizer!=adam", {"worst"}),
        ("state=completed", {"best", "middle", "worst"}),
        ("epochs>=5", {"best"}),
        ("nothing=1", set()),
        ("nothing!=1", {"best", "middle", "worst"}),
    ],
)
def test_they_are_chosen(place: Path, condition: str, expected: set[str]) -> None:
    assert set(names(run(place, "--where", condition))) == expected


def test_a_name_that_no_run_knows_is_told_with_those_that_they_know(place: Path) -> None:
    known = "Loss, Accuracy, lr, optimizer, run, state, epochs, started, time, device"
    result = CliRunner().invoke(app, ["runs", str(place), "--where", "accuracy>1"])
    assert f"no run knows 'accuracy'; they know {known}" in result.stderr.splitlines()
    result = CliRunner().invoke(app, ["runs", str(place), "--where", "Accuracy>1"])
    assert "no run knows" not in result.stderr
    result = CliRunner().invoke(app, ["runs", str(place), "--sort", "loss"])
    assert result.exit_code == 2
    assert "Accuracy, lr," in result.stderr


def test_columns_are_named_and_settings_that_differ_are_shown(place: Path) -> None:
    text = run(place, "--metric", "train Loss", "--settings", "--where", "Loss<0.3")
    head, *rows = text.splitlines()
    assert head.split() == ["run", "state", "epochs", "started", "time", "train", "Loss", "lr"]
    assert [row.split()[-2:] for row in rows] == [["0.2500", "0.2"], ["0.0833", "0.3"]]


def test_json_says_all_of_it(place: Path) -> None:
    found = json.loads(run(place, "--json", "--sort", "Loss"))
    assert [Path(each["run"]).name for each in found] == ["best", "middle", "worst"]
    assert found[0]["settings"] == {"lr": 0.3, "optimizer": "adam"}
    assert found[0]["metrics"]["valid"]["Loss"] == {
        "best": pytest.approx(0.5 / 6 * 1.1), "epoch": 5, "last": pytest.approx(0.5 / 6 * 1.1),
        "unit": "",
    }  # fmt: skip
    assert (found[0]["state"], found[0]["epochs_done"], found[0]["notes"]) == ("completed", 5, [])


def test_what_is_hostile_is_written_out(make_run: MakeRun) -> None:
    path = make_run("x", name=HOSTILE, **{HOSTILE: HOSTILE})
    make_run("y", name=HOSTILE, **{HOSTILE: "2"})
    text = run(path.parent, "--settings")
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert r"<b>\x1b[31m[bold]\n\u202e" in text
    assert len(text.splitlines()) == 3
    run(path.parent, "--json")


def test_a_damaged_run_is_listed_with_a_note(place: Path, capfd: Any) -> None:
    (place / "best" / "run.json").write_text("{")
    (place / "worst" / "events.jsonl").write_bytes(b"\x00\n\xff\n")
    result = CliRunner().invoke(app, ["runs", str(place)])
    assert result.exit_code == 0
    assert sorted(names(result.stdout)) == ["best", "middle", "worst"]
    notes = result.stderr.splitlines()
    assert any("best: run directory requires a run.json of JSON" in note for note in notes)
    assert any("worst: 2 lines of events.jsonl could not be understood" in note for note in notes)


def test_where_there_are_none_it_says_so(tmp_path: Path, place: Path) -> None:
    (tmp_path / "empty").mkdir()
    for where, message in ((tmp_path / "empty", "which has none"), (tmp_path / "no", "got '")):
        with pytest.raises(TrainError, match=message):
            run(where)
    for arguments in (["--sort", "nothing"], ["--where", "nothing"]):
        assert CliRunner().invoke(app, ["runs", str(place), *arguments]).exit_code == 2


def test_the_runs_of_a_training_are_there(command: Any, run_directory: Path) -> None:
    done = command("runs", run_directory.parent)
    assert done.returncode == 0, done.stderr
    assert names(done.stdout) == ["digits"]
    assert "completed" in done.stdout
