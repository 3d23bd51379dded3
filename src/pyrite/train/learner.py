"""Learner: trains a model, and tells views what happens.

What is particular to a task is its `Step`, from (model, batch) to `Output`; epochs, metrics,
checkpoints, early stopping and interruption are here, once for all tasks.

Invariant: a step waits for nothing but its device: views have threads of their own, and metrics are
read every `read_every` steps.
"""

from __future__ import annotations

import math
import os
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from html import escape
from itertools import islice
from os import PathLike
from pathlib import Path
from time import perf_counter, sleep
from typing import Any, Generic, TypeVar

from pyrite.autodiff.tape import Strategy
from pyrite.backend.fallback import fallbacks
from pyrite.data.loader import DataLoader
from pyrite.errors import ArgumentError, TrainError
from pyrite.nn.module import Module
from pyrite.optim import Optimizer
from pyrite.tensor.stream import random_state, set_random_state
from pyrite.tensor.tree import tree_leaves
from pyrite.train.checkpoint import Checkpoint, CheckpointFolder, CheckpointPolicy, Position
from pyrite.train.directory import RunDirectory
from pyrite.train.environment import environment
from pyrite.train.evaluation import Evaluation, compute, show_samples, tell_samples, update
from pyrite.train.event import (
    CheckpointDamaged,
    Checkpointed,
    EpochEnded,
    EpochStarted,
    Event,
    Failed,
    Interrupted,
    Outcome,
    Paused,
    PauseEnded,
    Resumed,
    RunEnded,
    RunStarted,
    StepEnded,
    StoppedEarly,
    StopRequested,
)
from pyrite.train.event_file import EventWriter
from pyrite.train.history import EarlyStopping, Goal, History, SplitResult
from pyrite.train.interruption import Interrupter, stopping_on_signals
from pyrite.train.metric.loss import Loss
from pyrite.train.metric.metric import Metric
from pyrite.train.output import Show, Step
from pyrite.train.reading import Reading
from pyrite.train.training_step import TrainingStep
from pyrite.train.view.broadcast import Broadcast
from pyrite.train.view.view import CommandingView, View

M = TypeVar("M", bound=Module)

#: Seconds between two looks at whether a pause is over.
_GLANCE = 0.02


@dataclass(frozen=True)
class Result(Generic[M]):
    """What a run gives.

    model: as the last step left it; best: the checkpoint after the best epoch, if one was kept.
    steps and seconds are of this run alone, without what came before a resume.
    """

    model: M
    history: History
    outcome: Outcome
    steps: int
    seconds: float
    best: Path | None

    def _repr_html_(self) -> str:
        best = f", best: {escape(str(self.best))}" if self.best else ""
        head = f"{self.outcome}: {self.steps:,} steps in {self.seconds:.1f} s{best}"
        return f"<div>{head}</div>{self.history._repr_html_()}"


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
                    view.attach(asked, _both(views, writer))
            return _Run(self, train, valid, epochs, views, writer, asked).result(resume)

    def evaluate(self, loader: DataLoader[Any], split: str = "test") -> tuple[Reading, ...]:
        """Return the readings of a model that does not train, over all batches of a loader."""
        with Broadcast(self.views) as views, self._event_writer() as writer:
            evaluation = self.evaluation(_both(views, writer))
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


class _Run(Generic[M]):
    """One call of `fit`: where it is, and what it has seen."""

    def __init__(
        self,
        learner: Learner[M],
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
        self.emit = _both(views, writer)
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

    def result(self, resume: bool) -> Result[M]:
        began, fallen = perf_counter(), _fallbacks()
        self._start(resume)
        with self._telling_errors():
            outcome = self._train_until_done()
        seconds = perf_counter() - began - self.paused_seconds
        steps = self.steps - self.steps_before
        if self.learner.directory:
            self.learner.directory.write_model(self.learner.model.record())
            self._write_manifest(outcome)
        self.emit(RunEnded(outcome, seconds, steps, dict(_fallbacks() - fallen)))
        best = self.folder.best(self.history) if self.folder else None
        return Result(self.learner.model, self.history, outcome, steps, seconds, best)

    @contextmanager
    def _telling_errors(self) -> Iterator[None]:
        """Say in the record which error ended the run: else it looks like one that was killed."""
        try:
            yield
        except Exception as error:
            self.emit(Failed(f"{type(error).__name__}: {error}"))
            with suppress(TrainError):  # a disk that is full may be the error
                self._write_manifest("failed")
            raise

    # ---- beginning ----

    def _start(self, resume: bool) -> None:
        self._require_place(resume)
        found = self.folder.newest(self._damaged) if self.folder and resume else None
        if found is None:
            self.writer.restart()
        self._tell_start()
        for event in self.damaged:
            self.emit(event)
        if found is not None:
            self._restore(*found)
        self._write_manifest("running")

    def _tell_start(self) -> None:
        model, directory = self.learner.model, self.learner.directory
        devices = [leaf.device for leaf in tree_leaves(model)]
        self.emit(
            RunStarted(
                device=str(devices[0]) if devices else "none",
                seed=int(random_state()["seed"]),
                epochs=self.epochs,
                parameters=model.num_params(),
                directory=directory.path if directory else None,
                lacking=len(devices[0].backend.root.falls_back) if devices else 0,
                pid=os.getpid(),
                host=platform.node(),
            )
        )

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

    # ---- the loop ----

    def _train_until_done(self) -> Outcome:
        while self.position.epoch < self.epochs:
            early = self.learner.early_stopping
            if early and not self.position.step and (reason := early.reason(self.history)):
                self.emit(StoppedEarly(self.position.epoch, reason))
                return "stopped early"
            if self._should_stop() or not self._run_epoch():
                return self._interrupted()
        return "completed"

    def _run_epoch(self) -> bool:
        """Train and validate one epoch, or what is left of it; False if it was interrupted."""
        number = self.position.epoch + 1
        self._train_epoch(number)
        if self._should_stop():
            return False
        results = [self._train_result(number)]
        if self.valid is not None:
            draws = random_state()
            evaluation = self.learner.evaluation(self.emit)
            for _ in evaluation.steps(self.valid, "valid", number):
                # A resumed run validates from the beginning, and draws what was drawn there.
                self._wait_while_paused(lambda: self._save_if_asked(draws))
                if self._should_stop():
                    set_random_state(draws)
                    return False
            results.append(SplitResult.of(evaluation.ended))
        self._end_epoch(results)
        return True

    def _train_epoch(self, number: int) -> None:
        done, steps = self.position.step, self.steps_per_epoch
        every, norm = self.learner.read_every, None
        self.emit(EpochStarted(number, self.epochs, done, steps))
        start = min(done * self.learner.accumulate, len(self.train))
        batches = self.train.epoch(self.position.epoch, start=start, state=self.stream_state)
        self.stream_state = None
        readings: tuple[Reading, ...] = ()
        last = idle = perf_counter()
        for step, group in enumerate(_groups(batches, self.learner.accumulate), start=done + 1):
            waited = perf_counter() - idle
            is_read = step % every == 0 or step == steps
            self.learner.model, outputs = self.training_step(
                self.learner.model, group, with_norm=is_read and self.learner.gradient_norm
            )
            now = perf_counter()
            seconds, last = now - last, now
            update(self.metrics, outputs, seconds)
            self.epoch_seconds += seconds
            self.steps += 1
            self.position = Position(self.position.epoch, step)
            if step == done + 1:
                show_samples(
                    self.emit, self.learner.show, group[0], outputs[0], "train", number, step
                )
            if is_read:
                readings, norm = compute(self.metrics), self._gradient_norm()
            items = sum(output.weight for output in outputs)
            rate = outputs[0].learning_rate
            self.emit(
                StepEnded(
                    "train", number, step, steps, readings, seconds, waited, items, rate, norm
                )
            )
            last += self._wait_while_paused(self._save_if_asked)
            if self._should_stop():
                return
            self._checkpoint_if_due(step, steps)
            idle = perf_counter()

    def _gradient_norm(self) -> float | None:
        norm = self.training_step.gradient_norm
        return None if norm is None else float(norm.item())

    def _train_result(self, number: int) -> SplitResult:
        ended = EpochEnded("train", number, compute(self.metrics), self.epoch_seconds)
        tell_samples(self.emit, self.metrics, "train", number, self.steps_per_epoch)
        self.emit(ended)
        return SplitResult.of(ended)

    def _end_epoch(self, results: Sequence[SplitResult]) -> None:
        self.history = self.history.with_results(results)
        self.position = Position(self.position.epoch + 1)
        self.learner.epochs_done = self.position.epoch
        self.epoch_seconds = 0.0
        for metric in self.metrics:
            metric.reset()
        if self.learner.observe:
            self.learner.optimizer.observe(self.learner.observe.latest(self.history).value)
        self._checkpoint()

    # ---- pausing, stopping and saving ----

    def _wait_while_paused(self, meanwhile: Callable[[], None] = lambda: None) -> float:
        """Do what somebody asks for meanwhile, as long as the run is paused; return the seconds."""
        meanwhile()
        if not self._is_paused():
            return 0.0
        self.emit(Paused(self.position.epoch, self.position.step))
        began = perf_counter()
        while self._is_paused():
            sleep(_GLANCE)
            meanwhile()
        seconds = perf_counter() - began
        self.paused_seconds += seconds
        self.emit(PauseEnded(seconds))
        return seconds

    def _is_paused(self) -> bool:
        paused = any(interrupter.is_paused for interrupter in self.interrupters)
        return paused and not self._should_stop()

    def _save_if_asked(self, random: Mapping[str, Any] | None = None) -> None:
        if any(interrupter.wants_save for interrupter in self.interrupters):
            self._checkpoint(random)

    def _should_stop(self) -> bool:
        return any(interrupter.should_stop for interrupter in self.interrupters)

    def _interrupted(self) -> Outcome:
        is_begun = self.position > Position()
        if is_begun and (self.saved is None or self.saved[0] != self.position):
            self._checkpoint()
        path = self.saved[1] if self.saved else None
        reason = next(i.reason for i in self.interrupters if i.reason)
        self.writer.append(StopRequested(reason))  # views were told when it happened
        self.emit(Interrupted(reason, self.position.epoch + 1, self.position.step, path))
        return "interrupted"

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


def _both(views: Broadcast, writer: EventWriter) -> Callable[[Event], None]:
    """The file first: of what it holds a view may miss steps."""

    def emit(event: Event) -> None:
        writer.append(event)
        views.emit(event)

    return emit


_STREAM = "stream"
"""Where a checkpoint's batches say where a stream was: a place, and no setting."""


def _groups(batches: Iterator[Any], size: int) -> Iterator[list[Any]]:
    while group := list(islice(batches, size)):
        yield group


def _fallbacks() -> Counter[str]:
    """Return how often NumPy has run each op for a device in this process."""
    found: Counter[str] = Counter()
    for (_, op), times in fallbacks().items():
        found[op] += times
    return found
