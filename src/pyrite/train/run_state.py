"""The state of a run: where it is and what it has seen, how that is saved and taken up again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

from pyrite.autodiff.tape import Strategy
from pyrite.data.loader import DataLoader
from pyrite.errors import TrainError
from pyrite.nn.module import Module
from pyrite.optim import Optimizer
from pyrite.tensor.stream import random_state, set_random_state
from pyrite.tensor.tree import tree_leaves
from pyrite.train.checkpoint import Checkpoint, CheckpointFolder, CheckpointPolicy, Position
from pyrite.train.directory import RunDirectory
from pyrite.train.environment import environment
from pyrite.train.evaluation import Evaluation
from pyrite.train.event import CheckpointDamaged, Checkpointed, Event, Resumed
from pyrite.train.event_file import EventWriter
from pyrite.train.history import EarlyStopping, Goal, History
from pyrite.train.interruption import Interrupter
from pyrite.train.metric.metric import Metric
from pyrite.train.output import Show, Step
from pyrite.train.training_step import TrainingStep
from pyrite.train.view.broadcast import Broadcast

M = TypeVar("M", bound=Module)

#: Where a checkpoint's batches say where a stream was: a place, and no setting.
_STREAM: Final = "stream"


class RunSettings(Protocol[M]):
    """What a run has of its learner: settings, and the model and count of epochs that it renews."""

    model: M
    optimizer: Optimizer
    step: Step
    metrics: tuple[Metric, ...]
    directory: RunDirectory | None
    arguments: dict[str, Any]
    checkpoints: CheckpointPolicy
    accumulate: int
    early_stopping: EarlyStopping | None
    observe: Goal | None
    interrupter: Interrupter
    gradient_checkpointing: Strategy
    read_every: int
    gradient_norm: bool
    show: Show | None
    compile: bool
    epochs_done: int

    def evaluation(self, emit: Callable[[Event], None]) -> Evaluation:
        """Return an evaluation of the model as it is now."""


class RunState(Generic[M]):
    """What one call of `fit` has seen, and its checkpoints.

    ``asked`` is what stops, pauses or saves this run alone.
    """

    def __init__(
        self,
        learner: RunSettings[M],
        train: DataLoader[Any],
        valid: DataLoader[Any] | None,
        epochs: int,
        views: Broadcast,
        writer: EventWriter,
        asked: Interrupter,
    ) -> None:
        self.learner = learner
        self.interrupters = (asked, learner.interrupter)
        self.train = train
        self.valid = valid
        self.epochs = epochs
        self.writer = writer
        self.emit = emitter(views, writer)
        self.metrics = [metric.fresh() for metric in learner.metrics]
        self.position = Position()
        self.history = History()
        self.steps_before = self.steps = 0
        self.epoch_seconds = 0.0
        self.paused_seconds = 0.0
        self.stream_state: Any = None
        self.saved: tuple[Position, Path] | None = None
        self.damaged: list[CheckpointDamaged] = []
        self.folder = (
            CheckpointFolder(learner.directory.checkpoints, learner.checkpoints)
            if learner.directory
            else None
        )
        self.training_step = TrainingStep(
            learner.step, learner.optimizer, learner.gradient_checkpointing,
            compile=learner.compile,
        )  # fmt: skip

    @property
    def steps_per_epoch(self) -> int:
        return math.ceil(len(self.train) / self.learner.accumulate)

    def _require_place(self, resume: bool) -> None:
        """Raise TrainError where there is nothing to resume from, or a run that is not resumed."""
        if self.folder is None and resume:
            raise TrainError("resume requires a directory, got none; pass directory=")
        files = self.folder.files() if self.folder and not resume else []
        if self.folder and files:
            raise TrainError(
                f"fit requires a directory without a run, got {len(files)} checkpoints in "
                f"{str(self.folder.path)!r}; go on with resume=True, or name another directory"
            )

    def _damaged(self, path: Path, reason: str) -> None:
        self.damaged.append(CheckpointDamaged(path, reason))

    def _restore(self, path: Path, checkpoint: Checkpoint) -> None:
        self._require_same_batches(checkpoint)
        learner = self.learner
        learner.model = learner.model.load_record(checkpoint.model)
        learner.optimizer.load_record(learner.model, checkpoint.optimizer)
        for metric in self.metrics:
            metric.load_state(checkpoint.metrics.get(metric.name, {}))
        set_random_state(dict(checkpoint.random))
        self.position, self.history = checkpoint.position, checkpoint.history
        learner.epochs_done = self.position.epoch
        self.steps = self.steps_before = checkpoint.steps
        self.epoch_seconds = checkpoint.seconds
        self.saved = (self.position, path)
        self.stream_state = checkpoint.batches.get(_STREAM)
        self.emit(Resumed(path, self.position.epoch, self.position.step))

    def _require_same_batches(self, checkpoint: Checkpoint) -> None:
        """Raise TrainError where an epoch under way would go on with batches of another order."""
        own = self._batches()
        for name, value in checkpoint.batches.items():
            if name != _STREAM and checkpoint.position.step and own.get(name) != value:
                raise TrainError(
                    f"resume within an epoch requires the batches with which it began, got "
                    f"{name}={own.get(name)} instead of {value}; use the same setting"
                )

    def _batches(self) -> dict[str, Any]:
        """Return the settings that decide which items each step of an epoch sees."""
        return {
            **self.train.settings,
            "accumulate": self.learner.accumulate,
        }

    def _place_in_batches(self) -> dict[str, Any]:
        """Return the settings of the batches, and where a stream is that can go on from there."""
        if self.train.state is None:
            return self._batches()
        return {**self._batches(), _STREAM: self.train.state}

    def _checkpoint_if_due(self, step: int, steps: int) -> None:
        every = self.learner.checkpoints.every_steps
        if every and step % every == 0 and step < steps:
            self._checkpoint()

    def _checkpoint(self, random: Mapping[str, Any] | None = None) -> None:
        """Save all that a resumed run needs; random: the stream's state, where not that of now."""
        for interrupter in self.interrupters:
            interrupter.saved()
        if self.folder is None:
            return
        learner = self.learner
        path = self.folder.save(
            Checkpoint(
                self.position,
                learner.model.record(),
                learner.optimizer.record(learner.model),
                {metric.name: metric.state() for metric in self.metrics},
                random_state() if random is None else random,
                self.history,
                self._place_in_batches(),
                self.steps,
                self.epoch_seconds,
            )
        )
        self.saved = (self.position, path)
        self.emit(Checkpointed(path, self.position.epoch, self.position.step))

    def _write_manifest(self, state: str) -> None:
        directory = self.learner.directory
        if directory is None:
            return
        leaves = tree_leaves(self.learner.model)
        directory.write_manifest(
            {
                **environment(),
                "state": state,
                "device": str(leaves[0].device) if leaves else None,
                "seed": random_state()["seed"],
                "epochs": self.epochs,
                "epochs_done": self.position.epoch,
                "steps": self.steps,
                "parameters": self.learner.model.num_params(),
                "arguments": self.learner.arguments,
            }
        )


def emitter(views: Broadcast, writer: EventWriter) -> Callable[[Event], None]:
    """Return what gives an event to the file, and then to views, which may miss steps."""

    def emit(event: Event) -> None:
        writer.append(event)
        views.emit(event)

    return emit
