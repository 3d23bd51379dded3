"""Recorded runs that a test makes up: small, hostile, damaged."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyrite.train.event import (
    Checkpointed,
    EpochEnded,
    EpochStarted,
    Event,
    Logged,
    RunEnded,
    RunStarted,
    Sampled,
    StepEnded,
)
from pyrite.train.event_file import EventWriter
from pyrite.train.reading import Better, Reading
from pyrite.train.sample import ImageSample, TableSample, TextSample

MakeRun = Callable[..., Path]


def readings(loss: float, accuracy: float, name: str = "Loss") -> tuple[Reading, ...]:
    directions: tuple[Better, Better] = ("lower", "higher")
    return Reading(name, loss, "", directions[0]), Reading("Accuracy", accuracy, "%", directions[1])


def events(path: Path, epochs: int, scale: float, name: str, *, ends: bool) -> list[Event]:
    told: list[Event] = [
        RunStarted("cpu", 7, epochs, 1234, path, pid=os.getpid(), host=platform.node())
    ]
    for epoch in range(1, epochs + 1):
        told.append(EpochStarted(epoch, epochs, 0, 20))
        for step in range(2, 21, 2):
            x = epoch - 1 + step / 20
            told.append(
                StepEnded("train", epoch, step, 20, readings(scale / (x + 1), 0.5, name), 0.01,
                          0.001, 8, 0.1 / epoch, 2.0)
            )  # fmt: skip
        loss = scale / (epoch + 1)
        told.append(EpochEnded("train", epoch, readings(loss, 1 - loss, name), 0.2))
        pixels = np.linspace(0, 1, 64).reshape(8, 8)
        told.append(Sampled("valid", epoch, 1, ImageSample.of(f"digit {name}", pixels, name)))
        told.append(
            Sampled("valid", epoch, 1, TextSample(f"said {name}", f"{name}\nepoch {epoch}"))
        )
        table = TableSample(f"worst {name}", [name, "p"], [[name, 0.25], [None, 3]])
        told.append(Sampled("valid", epoch, 1, table))
        told.append(EpochEnded("valid", epoch, readings(loss * 1.1, 0.9 - loss, name), 0.1))
        told.append(Checkpointed(path / "c", epoch, 0))
    told.append(Logged("warning", name, f"beware of {name}"))
    return [*told, RunEnded("completed", 3.0, 20 * epochs)] if ends else told


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    def make(
        run: str, *, epochs: int = 3, scale: float = 1.0, name: str = "Loss", ends: bool = True,
        **settings: Any,
    ) -> Path:  # fmt: skip
        path = tmp_path / "runs" / run
        with EventWriter(path / "events.jsonl") as writer:
            for event in events(path, epochs, scale, name, ends=ends):
                writer.append(event)
        manifest = {"pyrite": "0.0", "device": "cpu", "arguments": settings}
        (path / "run.json").write_text(json.dumps(manifest))
        return path

    return make
