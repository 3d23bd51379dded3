"""A table of events says what the events one by one say, whatever is in the file."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyrite.train import Resumed, StepEnded, read_events
from pyrite.train.event_file import EventReader, EventWriter
from pyrite.train.event_table import EventTable, read_event_table

from .test_event_file import ONE_OF_EACH, step

FIELDS = ("epoch", "step", "steps", "time", "seconds", "items", "learning_rate", "gradient_norm")
SPLITS = ("train", "valid", "te\x1bst")


def some_event(generator: random.Random) -> Any:
    if generator.random() < 0.25:
        return generator.choice(ONE_OF_EACH)
    if generator.random() < 0.03:
        return Resumed(Path("c"), generator.randint(0, 3), generator.randint(0, 9))
    loss = generator.choice([generator.random(), float("nan"), float("inf"), 1])
    return step(generator.randint(1, 4), generator.randint(1, 9), generator.choice(SPLITS), loss)


def damaged(line: bytes, generator: random.Random) -> bytes:
    """A line that nobody wrote so: cut, or with a value of another kind, or a field less."""
    how = generator.randrange(5)
    if how == 0:
        return line[: generator.randrange(len(line))] + b"\n"
    if how == 1:
        return line.rstrip() + b",{}\n"
    told = json.loads(line)
    name = generator.choice(list(told))
    if how == 2:
        del told[name]
    elif how == 3:
        told[name] = generator.choice([None, "x", [1], {"a": 1}, True, 0.5, -3, {}, 10**400])
    elif isinstance(told.get("row"), list):
        told["row"][generator.randrange(len(told["row"]))] = generator.choice(SOME)
        told["row"] += generator.choice([[], [], [], [1]])
    elif isinstance(told.get("readings"), dict):
        told["readings"]["more"] = generator.choice([1, 0.5, "NaN", True, None, "x"])
    separators = generator.choice([(", ", ": "), (",", ":")])  # of rows, and of all others
    return json.dumps(told, separators=separators).encode() + b"\n"


SOME = [1, 0.5, "NaN", "Infinity", True, None, "x", -1, 2**53 + 1, 10**400, [1]]


def rows(table: EventTable) -> dict[str, list[Any]]:
    return {
        split: [
            ([repr(s.fields[n][i].item()) for n in FIELDS],
             {n: repr(v[i].item()) for n, v in s.values.items() if not np.isnan(v[i])})
            for i in range(len(s))
        ]
        for split, s in table.steps.items() if len(s)
    }  # fmt: skip


def rows_one_by_one(path: Path) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for entry in read_events(path):
        if isinstance(event := entry.event, StepEnded):
            readings = {r.name: repr(r.value) for r in event.readings if r.value == r.value}
            told = {"time": entry.time, **vars(event)}
            row = (
                [repr(math.nan if told[n] is None else float(told[n])) for n in FIELDS],
                readings,
            )
            found.setdefault(event.split, []).append(row)
    return found


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5])
@pytest.mark.parametrize("seed", range(12))
def test_it_is_what_the_events_say(
    tmp_path: Path, seed: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = random.Random(seed)
    monkeypatch.setattr("pyrite.train.event_table._LINES", generator.choice([1, 7, 2000]))
    path = tmp_path / "events.jsonl"
    with EventWriter(path) as writer:
        for _ in range(200):
            writer.append(some_event(generator))
    lines = path.read_bytes().splitlines(keepends=True)
    lines = [damaged(x, generator) if generator.random() < share else x for x in lines]
    path.write_bytes(b"".join(lines) + b'{"event": "step_ended", "torn')

    table, reader = read_event_table(path), EventReader(path)
    others = [e for e in read_events(path) if not isinstance(e.event, StepEnded)]
    assert rows(table) == rows_one_by_one(path)
    assert repr(table.entries) == repr(others)
    assert len(list(reader.new())) >= len(others)
    assert (table.skipped, table.metrics) == (reader.skipped, reader.metrics)
    assert repr(read_event_table(path, steps=False).entries) == repr(others)


OLD = (
    '{"event": "step_ended", "time": 1763885700.123456, "split": "train", "epoch": 1, "step": %d, '
    '"steps": 9, "readings": {"Loss": %s}, "seconds": 0.5, "waited": 0.1, "items": 32, '
    '"learning_rate": 0.001, "gradient_norm": null}\n'
)


def test_a_file_whose_steps_are_not_rows_is_read(tmp_path: Path) -> None:
    """As runs wrote before 23 November 2026."""
    path = tmp_path / "e"
    path.write_text("".join(OLD % (n, v) for n, v in ((1, "0.5"), (2, '"NaN"'), (3, "0.25"))))
    steps = read_event_table(path).steps["train"]
    assert steps.values["Loss"].tolist()[::2] == [0.5, 0.25]
    assert steps.fields["learning_rate"].tolist() == [0.001] * 3
    assert rows(read_event_table(path)) == rows_one_by_one(path)
    assert read_event_table(path, steps=False).steps == {}


@pytest.mark.parametrize("value", [0.5, math.nan])
def test_rows_are_decoded_together(
    tmp_path: Path, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EventWriter(tmp_path / "e") as writer:
        for number in range(1, 5):
            writer.append(step(1, number, loss=value))
    told = len((tmp_path / "e").read_text().splitlines()) - 4
    monkeypatch.setattr(EventReader, "decode", decoded := Counted(EventReader.decode))
    assert len(read_event_table(tmp_path / "e").steps["train"]) == 4
    assert decoded.calls == told


class Counted:
    """A method that counts its calls."""

    def __init__(self, method: Any) -> None:
        self.method, self.calls = method, 0

    def __get__(self, reader: Any, kind: Any = None) -> Any:
        def call(line: bytes) -> Any:
            self.calls += 1
            return self.method(reader, line)

        return call


def test_steps_are_placed_by_epochs(tmp_path: Path) -> None:
    with EventWriter(tmp_path / "e") as writer:
        for epoch, number in ((1, 2), (1, 4), (2, 1)):
            writer.append(step(epoch, number))
    assert read_event_table(tmp_path / "e").steps["train"].epochs.tolist() == [0.5, 1, 1.25]


def test_an_empty_file_has_nothing(tmp_path: Path) -> None:
    (tmp_path / "e").write_bytes(b"")
    assert read_event_table(tmp_path / "e") == EventTable()
    with pytest.raises(OSError, match="No such file"):
        read_event_table(tmp_path / "f")
