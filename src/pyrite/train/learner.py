"""Learner: trains a model, and tells views what happens.

What is particular to a task is its `Step`, from (model, batch) to `Output`; epochs, metrics,
checkpoints, early stopping and interruption are here, once for all tasks.

Invariant: a step waits for nothing but its device: views have threads of their own, and metrics are
read every `read_every` steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from os import PathLike
from typing import Any, Generic, TypeVar

from pyrite.autodiff.tape import Strategy
from pyrite.data.loader import DataLoader
from pyrite.errors import ArgumentError, TrainError
from pyrite.nn.module import Module
from pyrite.optim import Optimizer
from pyrite.train.checkpoint import CheckpointPolicy
from pyrite.train.directory import RunDirectory
from pyrite.train.evaluation import Evaluation
from pyrite.train.event import (
    Event,
    StopRequested,
)
from pyrite.train.event_file import EventWriter
from pyrite.train.history import EarlyStopping, Goal
from pyrite.train.interruption import Interrupter, stopping_on_signals
from pyrite.train.metric.loss import Loss
from pyrite.train.metric.metric import Metric
from pyrite.train.output import Show, Step
from pyrite.train.reading import Reading
from pyrite.train.result import Result
from pyrite.train.run import Run
from pyrite.train.run_state import emitter
from pyrite.train.view.broadcast import Broadcast
from pyrite.train.view.view import CommandingView, View

M = TypeVar("M", bound=Module)


class Learner(Generic[M]):
    """Trains a model with an optimiser by a step.

        learner = Learner(model, Adam(1e-3), supervised(CrossEntropyLoss()), metrics=[Accuracy()])
        result = learner.fit(train_loader, valid_loader, epochs=10)

    metrics: in addition to the loss; each split has its own copies.
    directory: where checkpoints and readings are kept; None keeps nothing.
    arguments: JSON values for the manifest: with which settings the caller made all this.
    accumulate: batches per step; gradients are averaged, each weighted by its number of items.
    gradient_checkpointing: "balanced" recomputes cheap ops in the backward pass, to save memory.
    observe: the metric that an optimiser's schedule follows, as ReduceOnPlateau does.
    read_every: steps between two readings of metrics, which wait for the device.
    show: what people should see of the first batch of each split and epoch: images, texts, tables.
    gradient_norm: whether the steps whose metrics are read tell the norm of all gradients too.
    compile: whether a training step is one program, as of `pyrite.compile`: the model is on a
    device with `pyrite.fusion`, and ``step`` changes no Python state of its own.

    Raises ArgumentError when accumulate or read_every < 1, two metrics have one name, or one has a
    name that is no Unicode.
    """

    def __init__(
        self,
        model: M,
        optimizer: Optimizer,
        step: Step,
        *,
        metrics: Sequence[Metric] = (),
        views: Iterable[View] = (),
        directory: str | PathLike[str] | None = None,
        arguments: Mapping[str, Any] | None = None,
        checkpoints: CheckpointPolicy | None = None,
        accumulate: int = 1,
        early_stopping: EarlyStopping | None = None,
        observe: Goal | None = None,
        interrupter: Interrupter | None = None,
        gradient_checkpointing: Strategy = "none",
        read_every: int = 10,
        gradient_norm: bool = False,
        show: Show | None = None,
        compile: bool = False,
    ) -> None:
        if accumulate < 1 or read_every < 1:
            raise ArgumentError(
                "Learner requires accumulate >= 1 and read_every >= 1, got "
                f"accumulate={accumulate}, read_every={read_every}"
            )
        self.model = model
        self.optimizer = optimizer
        self.step = step
        self.metrics = _with_loss(metrics)
        self.views = tuple(views)
        self.directory = None if directory is None else RunDirectory(directory)
        self.arguments = dict(arguments or {})
        self.checkpoints = checkpoints or CheckpointPolicy()
        self.accumulate = accumulate
        self.early_stopping = early_stopping
        self.observe = observe
        self.interrupter = interrupter or Interrupter()
        self.gradient_checkpointing = gradient_checkpointing
        self.read_every = read_every
        self.gradient_norm = gradient_norm
        self.show = show
        self.compile = compile
        self.epochs_done = 0

    def fit(
        self,
        train: DataLoader[Any],
        valid: DataLoader[Any] | None = None,
        *,
        epochs: int,
        resume: bool = False,
    ) -> Result[M]:
        """Train until `epochs` epochs are done, counted from the very first, and return the result.

        With resume, go on from the directory's newest checkpoint, or begin where there is none.
        The first Ctrl-C ends the step under way, saves a checkpoint, and returns; a second raises.

        Raises TrainError when the directory holds a run and resume is False, another run trains in
        it, or it cannot be written; and when a goal names a metric or split that there is not.
        """
        if epochs < 0:
            raise ArgumentError(f"fit requires epochs >= 0, got {epochs}")
        self._require_goals(valid is not None)
        asked = Interrupter()  # of this run: the next one may go on
        with (
            self.directory.held() if self.directory else nullcontext(),
            Broadcast(self.views) as views,
            self._event_writer() as writer,
            stopping_on_signals(asked, lambda why: views.emit(StopRequested(why))),
        ):
            for view in self.views:
                if isinstance(view, CommandingView):
                    view.attach(asked, emitter(views, writer))
            return Run(self, train, valid, epochs, views, writer, asked).result(resume)

    def evaluate(self, loader: DataLoader[Any], split: str = "test") -> tuple[Reading, ...]:
        """Return the readings of a model that does not train, over all batches of a loader."""
        with Broadcast(self.views) as views, self._event_writer() as writer:
            evaluation = self.evaluation(emitter(views, writer))
            for _ in evaluation.steps(loader, split, self.epochs_done):
                pass
            return evaluation.ended.readings

    def evaluation(self, emit: Callable[[Event], None]) -> Evaluation:
        """Return an evaluation of the model as it is now, and where its events go."""
        return Evaluation(
            self.model, self.step, self.metrics, emit, read_every=self.read_every, show=self.show
        )

    def _event_writer(self) -> EventWriter:
        return EventWriter(self.directory.events if self.directory else None)

    def _require_goals(self, has_valid: bool) -> None:
        early = self.early_stopping.goal if self.early_stopping else None
        best = self.checkpoints.best if self.directory else None
        names = [metric.name for metric in self.metrics]
        splits = ["train", "valid"] if has_valid else ["train"]
        for goal in (early, best, self.observe):
            if goal is not None and (
                goal.metric not in names or (goal.split or "train") not in splits
            ):
                raise TrainError(
                    f"goal requires a metric of {', '.join(names)} on {' or '.join(splits)}, got "
                    f"{goal}"
                )


def _with_loss(metrics: Sequence[Metric]) -> tuple[Metric, ...]:
    names = [metric.name for metric in metrics]
    if len(set(names)) < len(names):
        raise ArgumentError(
            f"Learner requires metrics of different names, got {', '.join(names)}; give one a name="
        )
    for name in names:
        if not _is_unicode(name):
            raise ArgumentError(
                f"Learner requires metrics whose names are Unicode, got {name!r}, which no "
                "checkpoint can hold; give it another name="
            )
    return tuple(metrics) if "Loss" in names else (Loss(), *metrics)


def _is_unicode(text: str) -> bool:
    """Whether a text can be written: half of a pair of surrogates cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
