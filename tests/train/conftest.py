"""A task so small that a whole training takes milliseconds: three classes of four numbers."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import nn
from pyrite.data import DataLoader, InMemoryDataset
from pyrite.optim import Adam
from pyrite.optim.schedule import CosineAnnealing
from pyrite.train import Accuracy, Event, Learner, supervised
from pyrite.train.result import Result

ITEMS = 22
BATCH = 4
STEPS = 6


class Net(nn.Module):
    """Draws random numbers when it trains, and keeps running statistics."""

    def __init__(self) -> None:
        self.hidden = nn.Linear(4, 8)
        self.norm = nn.BatchNorm1d(8)
        self.dropout = nn.Dropout(0.1)
        self.out = nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        return self.out(self.dropout(self.norm(self.hidden(x)).relu()))


@dataclass
class Recorder:
    """A view that keeps the events."""

    events: list[Event] = field(default_factory=list)
    closed: int = 0

    def handle(self, event: Event) -> None:
        self.events.append(event)

    def close(self) -> None:
        self.closed += 1

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@dataclass
class Task:
    """Learners of the same task from the same seed, and the loaders that they take."""

    train: DataLoader[Any]
    valid: DataLoader[Any]
    loss: nn.Module = field(default_factory=nn.CrossEntropyLoss)

    def learner(self, **arguments: Any) -> Learner[Net]:
        pyrite.seed(5)
        arguments.setdefault("metrics", [Accuracy()])
        arguments.setdefault("read_every", 2)
        step = arguments.pop("step", supervised(self.loss))
        optimizer = arguments.pop("optimizer", None) or Adam(CosineAnnealing(0.05, 3 * STEPS))
        return Learner(Net(), optimizer, step, **arguments)

    def fit(self, learner: Learner[Net], **arguments: Any) -> Result[Net]:
        return learner.fit(self.train, self.valid, **{"epochs": 3, **arguments})

    def stopping_step(self, learner: Callable[[], Learner[Net]], at: int) -> Any:
        """A step that asks to stop in its call number `at`, counting validation too."""
        plain, calls = supervised(self.loss), iter(range(1, 1000))

        def step(model: Any, batch: Any) -> Any:
            if next(calls) == at:
                learner().interrupter.stop("enough")
            return plain(model, batch)

        return step

    def interrupted_at(self, call: int, directory: Path, **arguments: Any) -> Result[Net]:
        made: list[Learner[Net]] = []
        step = self.stopping_step(lambda: made[0], call)
        made.append(self.learner(directory=directory, step=step, **arguments))
        return self.fit(made[0])


@pytest.fixture
def task() -> Task:
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(ITEMS, 4)).astype(np.float32)
    items = [(x, int(x[:3].argmax())) for x in inputs]
    train = DataLoader(InMemoryDataset(items), BATCH, shuffle=True, seed=3)
    return Task(train, DataLoader(InMemoryDataset(items[:8]), BATCH))


@pytest.fixture
def _hears_hangups() -> Iterator[None]:
    """Let this process and those it starts hear SIGHUP, which below nohup they would not."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def weights() -> Callable[[Any], dict[str, bytes]]:
    """The bits of all that a model holds, by path."""

    def of(model: Any) -> dict[str, bytes]:
        return {path: array.tobytes() for path, array in model.record().arrays.items()}

    return of
