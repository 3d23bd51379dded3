"""The loop of a run: epochs of steps and evaluations, until it is done, paused or stopped."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from time import perf_counter, sleep
from typing import Any, Final, TypeVar

from pyrite.backend.fallback import fallbacks
from pyrite.errors import TrainError
from pyrite.nn.module import Module
from pyrite.tensor.stream import random_state, set_random_state
from pyrite.tensor.tree import tree_leaves
from pyrite.train.checkpoint import Position
from pyrite.train.evaluation import compute, show_samples, tell_samples, update
from pyrite.train.event import (
    EpochEnded,
    EpochStarted,
    Failed,
    Interrupted,
    Outcome,
    Paused,
    PauseEnded,
    RunEnded,
    RunStarted,
    StepEnded,
    StoppedEarly,
    StopRequested,
)
from pyrite.train.history import SplitResult
from pyrite.train.reading import Reading
from pyrite.train.result import Result
from pyrite.train.run_state import RunState

M = TypeVar("M", bound=Module)

#: Seconds between two looks at whether a pause is over.
_GLANCE: Final = 0.02


class Run(RunState[M]):
    """One call of `fit`: trains and evaluates, and tells what happens."""

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

    # ---- pausing and stopping ----

    def _wait_while_paused(self, meanwhile: Callable[[], None] = lambda: None) -> float:
        """Do what somebody asks for meanwhile, as long as the run is paused; return the seconds."""
        meanwhile()
        if not self._is_paused():
            return 0.0
        began = perf_counter()
        self.emit(Paused(self.position.epoch, self.position.step))
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


def _groups(batches: Iterator[Any], size: int) -> Iterator[list[Any]]:
    while group := list(islice(batches, size)):
        yield group


def _fallbacks() -> Counter[str]:
    """Return how often NumPy has run each op for a device in this process."""
    found: Counter[str] = Counter()
    for (_, op), times in fallbacks().items():
        found[op] += times
    return found
