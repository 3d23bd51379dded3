"""A recorded run is what its files say, and says what they do not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyrite.train.event import RunStarted
from pyrite.train.event_file import EventWriter
from pyrite.train.report.run import differing, find_runs, read_run

from .conftest import MakeRun


def test_it_tells_how_far_the_run_went_and_its_best(make_run: MakeRun) -> None:
    run = read_run(make_run("a", epochs=3, optimizer={"name": "Adam", "lr": 0.1}, deep=[1, 2]))
    assert (run.status, run.epochs_done, run.notes) == ("completed", 3, ())
    assert run.settings == {"optimizer.name": "Adam", "optimizer.lr": 0.1, "deep": "[1, 2]"}
    epoch, reading = run.best("Accuracy") or (0, None)
    assert (epoch, str(reading)) == (3, "Accuracy 65.00 %")
    assert str((run.best("Loss", "train") or (0, None))[1]) == "Loss 0.2500"
    assert run.best("nothing") is None
    assert run.metrics() == ["Loss", "Accuracy"]
    assert len(run.table.steps["train"]) == 30


def test_without_its_steps_the_rest_is_the_same(make_run: MakeRun) -> None:
    path = make_run("a")
    short, whole = read_run(path, steps=False), read_run(path)
    assert short.table.steps == {}
    assert short.history == whole.history
    assert (short.status, short.seconds) == (whole.status, whole.seconds)


def test_a_run_that_has_not_ended_runs_or_was_killed(make_run: MakeRun) -> None:
    path = make_run("a", ends=False)
    assert read_run(path).status == "running"
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    file = path / "events.jsonl"
    file.write_text(file.read_text().replace(f'"pid": {os.getpid()}', f'"pid": {ended.pid}'))
    assert read_run(path).status == "killed"
    file.write_text(file.read_text().replace('"host": "', '"host": "another'))
    assert read_run(path).status == "unknown"


def fifo(events: Path, _: Path) -> None:
    events.unlink()
    os.mkfifo(events)


def empty(events: Path, manifest: Path) -> None:
    events.write_bytes(b"")
    manifest.write_text("{}")


DEEP = '{"arguments": ' + '{"a": ' * 100_000
NESTED = '{"arguments": ' + '{"": ' * 400 + "1" + "}" * 401
DAMAGES: dict[str, tuple[Callable[[Path, Path], object], str]] = {
    "no manifest": (lambda e, m: m.unlink(), "requires a readable run.json"),
    "no events": (lambda e, m: e.unlink(), "events.jsonl cannot be read: No such file"),
    "empty events": (empty, "events.jsonl is empty"),
    "torn manifest": (lambda e, m: m.write_text('{"argum'), "requires a run.json of JSON"),
    "a deep manifest": (lambda e, m: m.write_text(DEEP), "requires a run.json of JSON"),
    "deep arguments": (lambda e, m: m.write_text(NESTED), ""),
    "a list for a manifest": (lambda e, m: m.write_text("[1]"), "requires an object in run.json"),
    "arguments of another kind": (lambda e, m: m.write_text('{"arguments": 7}'), ""),
    "bytes": (lambda e, m: e.write_bytes(os.urandom(5000)), "could not be understood"),
    "one line": (
        lambda e, m: e.write_bytes(b"\xff\n" + e.read_bytes()),
        "1 line of events.jsonl could not be understood",
    ),
    "a fifo": (fifo, "it is a FIFO"),
}


@pytest.mark.parametrize("how", list(DAMAGES))
def test_what_is_damaged_is_a_note(make_run: MakeRun, how: str) -> None:
    path = make_run("a", lr=0.1)
    damage, note = DAMAGES[how]
    damage(path / "events.jsonl", path / "run.json")
    run = read_run(path)
    assert note in " ".join(run.notes)
    assert bool(run.notes) == bool(note)
    facts: list[Any] = [run.status, run.history, run.settings, run.seconds, run.metrics()]
    assert all(fact is not None for fact in facts)


def test_runs_are_found_below_and_not_within_each_other(make_run: MakeRun, tmp_path: Path) -> None:
    for name in ("b", "a/x", "a/y", "c/d/e"):
        make_run(name)
    make_run("b/checkpoints/inner")
    make_run(".hidden/z")
    make_run("1/2/3/4/5/6/too-deep")
    (tmp_path / "runs" / "empty").mkdir()
    (tmp_path / "runs" / "loop").symlink_to(tmp_path)
    found = [path.relative_to(tmp_path / "runs").as_posix() for path in find_runs(tmp_path)]
    assert found == ["b", "a/x", "a/y", "c/d/e"] or found == ["a/x", "a/y", "b", "c/d/e"]
    assert list(find_runs(tmp_path / "runs" / "b")) == [tmp_path / "runs" / "b"]


def test_settings_that_differ_are_named(make_run: MakeRun) -> None:
    runs = [read_run(make_run("a", lr=0.1, seed=1)), read_run(make_run("b", lr=0.1, seed=2, k="x"))]
    assert differing(runs) == ["seed", "k"]
    assert differing(runs[:1]) == []


def test_a_run_that_was_taken_up_again_began_when_it_first_did(make_run: MakeRun) -> None:
    path = make_run("a")
    began = read_run(path).began
    with EventWriter(path / "events.jsonl") as writer:
        writer.append(RunStarted("cpu", 0, 9, 1, None))
    run = read_run(path)
    assert run.began == began < run.state.began
