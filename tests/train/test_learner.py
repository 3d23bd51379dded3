"""The loop: what it learns, what it tells, how it stops, and that it goes on as if it had not."""

from __future__ import annotations

import itertools
import json
import math
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import nn
from pyrite.data import DataLoader, InMemoryDataset, ResumableDataset
from pyrite.errors import ArgumentError, CompileError, RecordError, TrainError
from pyrite.optim import SGD
from pyrite.optim.schedule import ReduceOnPlateau
from pyrite.train import (
    Accuracy,
    CheckpointDamaged,
    Checkpointed,
    CheckpointPolicy,
    ConfusionMatrix,
    EarlyStopping,
    EpochEnded,
    Event,
    Failed,
    Goal,
    ImageSample,
    Interrupted,
    Interrupter,
    Learner,
    LearningRate,
    Output,
    Paused,
    PauseEnded,
    Reading,
    Resumed,
    RunDirectory,
    RunEnded,
    RunStarted,
    Sampled,
    StepEnded,
    StoppedEarly,
    SumMetric,
    TableSample,
    TextSample,
    read_events,
    supervised,
)
from pyrite.train.report.run import read_run

STEPS = 6  # of an epoch, as in conftest.py


def readings_without_time(history: Any) -> list[Any]:
    return [(r.epoch, r.split, r.readings) for r in history]


def test_it_learns(task) -> None:
    result = task.fit(task.learner(optimizer=SGD(0.1, momentum=0.9)), epochs=20)
    losses = [reading.value for _, reading in result.history.readings("Loss", "valid")]
    assert losses[-1] < losses[0] / 2
    assert result.outcome == "completed"
    assert result.steps == 20 * 6


def test_events_come_in_the_order_in_which_things_happen(task, recorder, tmp_path: Path) -> None:
    policy = CheckpointPolicy(every_steps=4)
    task.fit(task.learner(views=[recorder], directory=tmp_path, checkpoints=policy), epochs=2)
    epoch = [
        "EpochStarted",
        *["StepEnded train"] * 4,
        "Checkpointed",
        *["StepEnded train"] * 2,
        "EpochEnded train",
        *["StepEnded valid"] * 2,
        "EpochEnded valid",
        "Checkpointed",
    ]
    told = [
        f"{type(event).__name__} {getattr(event, 'split', '')}".strip() for event in recorder.events
    ]
    assert told == ["RunStarted", *epoch, *epoch, "RunEnded"]
    assert recorder.closed == 1


def test_events_say_where_the_run_is(task, recorder) -> None:
    task.fit(task.learner(views=[recorder]), epochs=2)
    started, ended = recorder.events[0], recorder.events[-1]
    assert isinstance(started, RunStarted)
    assert (started.device, started.seed, started.epochs) == ("numpy", 5, 2)
    assert started.parameters == 4 * 8 + 8 + 2 * 8 + 8 * 3 + 3
    assert isinstance(ended, RunEnded)
    assert (ended.outcome, ended.steps) == ("completed", 12)
    steps = [e for e in recorder.of(StepEnded) if e.split == "train"]
    assert [(e.epoch, e.step, e.steps) for e in steps[5:8]] == [(1, 6, 6), (2, 1, 6), (2, 2, 6)]


def test_steps_carry_the_latest_readings(task, recorder) -> None:
    task.fit(task.learner(views=[recorder], read_every=3), epochs=1)
    steps = [e for e in recorder.of(StepEnded) if e.split == "train"]
    assert [len(e.readings) for e in steps] == [0, 0, 2, 2, 2, 2]
    assert steps[3].readings == steps[2].readings != steps[5].readings
    assert steps[5].readings == recorder.of(EpochEnded)[0].readings


def test_a_step_reads_nothing_from_the_device(task) -> None:
    model_reads: list[int] = []
    plain = supervised(task.loss)

    def step(model: Any, batch: Any) -> Output:
        model_reads.append(pyrite.sync_count())
        return plain(model, batch)

    task.fit(task.learner(step=step, read_every=100), epochs=1)
    assert len(set(model_reads[:6])) == 1


def test_how_often_metrics_are_read_changes_no_value(task) -> None:
    often = task.fit(task.learner(read_every=1))
    seldom = task.fit(task.learner(read_every=50))
    assert readings_without_time(often.history) == readings_without_time(seldom.history)


def test_epoch_readings_are_means_over_items(task) -> None:
    learner = task.learner(metrics=[Accuracy()])
    readings = learner.evaluate(DataLoader(task.train.dataset, 5))
    inputs = np.stack([x for x, _ in task.train.dataset])
    labels = np.array([label for _, label in task.train.dataset])
    with pyrite.no_grad():
        logits = learner.model(pyrite.tensor(inputs)).numpy().astype(np.float64)
    log_sums = np.log(np.exp(logits).sum(axis=1))
    assert readings[0].value == pytest.approx((log_sums - logits[range(22), labels]).mean(), 1e-5)
    assert readings[1].value == pytest.approx((logits.argmax(axis=1) == labels).mean())


def test_evaluation_changes_neither_the_model_nor_the_next_draw(task, weights) -> None:
    learner = task.learner()
    before, draws = weights(learner.model), pyrite.random_state()
    learner.evaluate(task.valid)
    assert weights(learner.model) == before
    assert pyrite.random_state() == draws


def test_accumulated_batches_step_as_one_large_batch() -> None:
    items = [(np.float32([i, 1]), np.float32([i % 3])) for i in range(10)]
    models = []
    for size, accumulate in ((5, 1), (2, 3)):
        pyrite.seed(0)
        loader = DataLoader(InMemoryDataset(items[:5]), size)
        learner = Learner(
            nn.Linear(2, 1), SGD(0.1), supervised(nn.MSELoss()), accumulate=accumulate
        )
        result = learner.fit(loader, epochs=2)
        assert result.steps == 2
        models.append(result.model.weight.numpy())
    np.testing.assert_allclose(models[0], models[1], rtol=1e-6)


def test_metrics_of_training_are_left_out_of_evaluations(task) -> None:
    result = task.fit(task.learner(metrics=[LearningRate()]), epochs=3)
    names = {r.split: [reading.name for reading in r.readings] for r in result.history}
    assert names == {"train": ["Loss", "Learning rate"], "valid": ["Loss"]}
    rates = [reading.value for _, reading in result.history.readings("Learning rate", "train")]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == pytest.approx(0.05 * (1 + math.cos(math.pi * 5 / 18)) / 2)


def test_a_run_of_no_epochs_is_completed(task) -> None:
    result = task.fit(task.learner(), epochs=0)
    assert (result.outcome, result.steps, len(result.history)) == ("completed", 0, 0)


@pytest.mark.parametrize("arguments", [{"accumulate": 0}, {"read_every": 0}])
def test_arguments_out_of_range_are_refused(task, arguments: dict[str, int]) -> None:
    with pytest.raises(ArgumentError, match="accumulate >= 1 and read_every >= 1, got"):
        task.learner(**arguments)


def test_an_error_stands_in_the_record_and_the_run_can_be_resumed(
    task, weights, recorder, tmp_path: Path
) -> None:
    plain, calls = supervised(task.loss), iter(range(1, 1000))

    def breaking(model: Any, batch: Any) -> Output:
        if next(calls) == 11:  # in the second epoch
            raise ValueError("broken")
        return plain(model, batch)

    with pytest.raises(ValueError, match="broken"):
        task.fit(task.learner(step=breaking, views=[recorder], directory=tmp_path))
    assert recorder.events[-1] == Failed("ValueError: broken")
    assert read_run(tmp_path).status == "failed"
    assert RunDirectory(tmp_path).read_manifest()["state"] == "failed"

    with pytest.raises(TrainError, match="directory without a run"):
        task.fit(task.learner(directory=tmp_path))
    told = [entry.event for entry in read_events(tmp_path / "events.jsonl")]
    assert sum(isinstance(event, Failed) for event in told) == 1  # a run that did not begin

    resumed = task.fit(task.learner(directory=tmp_path), resume=True)
    assert weights(resumed.model) == weights(task.fit(task.learner()).model)
    assert read_run(tmp_path).status == "completed"


def test_two_metrics_of_one_name_are_refused(task) -> None:
    with pytest.raises(ArgumentError, match="different names, got Accuracy, Accuracy"):
        task.learner(metrics=[Accuracy(), Accuracy()])


def test_a_metric_that_no_checkpoint_could_name_is_refused_before_training(task) -> None:
    with pytest.raises(ArgumentError, match=r"names are Unicode, got 'half \\ud800'"):
        task.learner(metrics=[Accuracy(name="half \ud800")])


@pytest.mark.parametrize("goal", [Goal("F1"), Goal("Loss", "test")], ids=["metric", "split"])
def test_a_goal_that_is_not_measured_is_refused(task, goal: Goal) -> None:
    with pytest.raises(TrainError, match="requires a metric of Loss, Accuracy on train or valid"):
        task.fit(task.learner(early_stopping=EarlyStopping(goal)))


# ---- stopping early, and schedules that follow a metric ----


class Scripted(SumMetric):
    """A metric whose value in each epoch is given."""

    better = "lower"
    values = (3.0, 2.0, 4.0, 4.0, 1.0, 1.0)

    def __init__(self) -> None:
        super().__init__("Scripted")
        self.epoch = -1

    def measure(self, output: Output) -> tuple[Any, ...]:
        return (0,)

    def reset(self) -> None:
        super().reset()
        self.epoch += 1

    def of_sums(self, *sums: Any) -> float:
        return self.values[self.epoch + 1]


def test_it_stops_when_the_metric_does_not_improve(task, recorder) -> None:
    early = EarlyStopping(Goal("Scripted", "train"), patience=2)
    learner = task.learner(metrics=[Scripted()], views=[recorder], early_stopping=early)
    result = task.fit(learner, epochs=6)
    assert result.outcome == "stopped early"
    assert result.history.results[-1].epoch == 4
    (stopped,) = recorder.of(StoppedEarly)
    assert stopped.reason == (
        "train Scripted has not improved since epoch 2 (2.0000), 2 epochs of patience"
    )


def test_a_schedule_is_told_the_metric_that_it_follows(task) -> None:
    schedule = ReduceOnPlateau(1e-3, factor=0.5, patience=0)
    learner = task.learner(
        metrics=[Scripted()], optimizer=SGD(schedule), observe=Goal("Scripted", "train")
    )
    task.fit(learner, epochs=3)
    assert learner.optimizer.learning_rates() == {"*": 5e-4}


# ---- compiled ----


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"accumulate": 2, "gradient_norm": True},
        {"gradient_checkpointing": "balanced", "observe": Goal("Loss", "train")},
    ],
    ids=["plain", "accumulated", "observed"],
)
def test_a_compiled_step_trains_bit_for_bit_as_without(
    task, recorder, weights, arguments: dict[str, Any]
) -> None:
    device = pyrite.fusion("cpu")
    task.train.device = task.valid.device = device

    entered = Counter[bool]()

    def trained(compile: bool) -> tuple[Any, list[Any]]:
        def step(model: Any, batch: Any) -> Output:
            entered[compile] += 1
            return supervised(task.loss)(model, batch)

        recorder.events.clear()
        schedule = ReduceOnPlateau(0.05, factor=0.5, patience=0)
        chosen = {"optimizer": SGD(schedule)} if "observe" in arguments else {}
        learner = task.learner(views=[recorder], compile=compile, step=step, **arguments, **chosen)
        learner.model = learner.model.to(device)
        result = task.fit(learner, epochs=6)
        told = [(e.readings, e.items, e.learning_rate) for e in recorder.of(StepEnded)]
        norms = [e.gradient_norm for e in recorder.of(StepEnded)]
        return weights(result.model), [told, norms]

    assert trained(compile=True) == trained(compile=False)
    assert entered[True] < 0.8 * entered[False]


def test_a_compiled_step_asks_for_fusion(task) -> None:
    with pytest.raises(CompileError, match=r"one device with fusion, got numpy; move them"):
        task.fit(task.learner(compile=True))


# ---- interrupted and resumed ----


def calls_until(epoch: int, step: int) -> int:
    """The number of the call of the step function in which (epoch, step) is trained, from 1."""
    return (epoch - 1) * (6 + 2) + step


@pytest.mark.parametrize(
    ("call", "position"),
    [
        (calls_until(1, 1), (0, 1)),
        (calls_until(2, 3), (1, 3)),
        (calls_until(2, 6), (1, 6)),
        (calls_until(2, 6) + 1, (1, 6)),
        (calls_until(3, 5), (2, 5)),
    ],
    ids=["first step", "mid-epoch", "last step", "validation", "last epoch"],
)
def test_interrupted_and_resumed_equals_uninterrupted_bit_for_bit(
    task, recorder, weights, tmp_path: Path, call: int, position: tuple[int, int]
) -> None:
    whole = task.fit(task.learner())
    first = task.interrupted_at(call, tmp_path)
    assert first.outcome == "interrupted"

    second = task.fit(task.learner(directory=tmp_path, views=[recorder]), resume=True)

    (resumed,) = recorder.of(Resumed)
    assert (resumed.epoch, resumed.step) == position
    assert weights(second.model) == weights(whole.model)
    assert readings_without_time(second.history) == readings_without_time(whole.history)
    assert first.steps + second.steps == whole.steps


def test_stopped_at_an_epochs_end_and_resumed_equals_uninterrupted(
    task, weights, tmp_path: Path
) -> None:
    whole = task.fit(task.learner())
    task.fit(task.learner(directory=tmp_path), epochs=1)
    task.fit(task.learner(directory=tmp_path), epochs=2, resume=True)
    resumed = task.fit(task.learner(directory=tmp_path), resume=True)
    assert weights(resumed.model) == weights(whole.model)
    assert readings_without_time(resumed.history) == readings_without_time(whole.history)


def test_accumulation_resumes_at_the_same_batches(task, weights, tmp_path: Path) -> None:
    whole = task.fit(task.learner(accumulate=4))
    assert whole.steps == 6
    task.interrupted_at(3, tmp_path, accumulate=4)
    resumed = task.fit(task.learner(directory=tmp_path, accumulate=4), resume=True)
    assert resumed.steps == 5
    assert weights(resumed.model) == weights(whole.model)


def test_a_run_that_was_done_stays_done(task, recorder, weights, tmp_path: Path) -> None:
    first = task.fit(task.learner(directory=tmp_path))
    again = task.fit(task.learner(directory=tmp_path, views=[recorder]), resume=True)
    assert (again.outcome, again.steps) == ("completed", 0)
    assert weights(again.model) == weights(first.model)
    assert not recorder.of(StepEnded)


def test_resuming_where_nothing_was_saved_begins(task, weights, tmp_path: Path) -> None:
    whole = task.fit(task.learner())
    assert weights(task.fit(task.learner(directory=tmp_path), resume=True).model) == weights(
        whole.model
    )


def test_a_directory_with_a_run_is_not_written_over(task, tmp_path: Path) -> None:
    task.fit(task.learner(directory=tmp_path), epochs=1)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(TrainError, match=r"without a run, got 1 checkpoints in .*resume=True"):
        task.fit(task.learner(directory=tmp_path))
    assert sorted(tmp_path.rglob("*")) == before


def test_resuming_needs_a_directory(task) -> None:
    with pytest.raises(TrainError, match=r"requires a directory, got none; pass directory="):
        task.fit(task.learner(), resume=True)


def test_other_batches_within_an_epoch_are_refused(task, tmp_path: Path) -> None:
    task.interrupted_at(3, tmp_path)
    task.train = DataLoader(task.train.dataset, 2, shuffle=True, seed=3)
    with pytest.raises(TrainError, match="got batch_size=2 instead of 4"):
        task.fit(task.learner(directory=tmp_path), resume=True)


def test_another_optimiser_is_refused(task, tmp_path: Path) -> None:
    task.interrupted_at(3, tmp_path)
    with pytest.raises(RecordError, match="requires the settings that were recorded"):
        task.fit(task.learner(directory=tmp_path, optimizer=SGD(0.1)), resume=True)


def test_an_interruption_says_where_it_saved(task, recorder, tmp_path: Path) -> None:
    task.interrupted_at(calls_until(2, 3), tmp_path, views=[recorder])
    (event,) = recorder.of(Interrupted)
    assert (event.reason, event.epoch, event.step) == ("enough", 2, 3)
    assert event.checkpoint == tmp_path / "checkpoints" / "epoch-0002-step-000003.safetensors"
    assert event.checkpoint.is_file()
    assert isinstance(recorder.events[-1], RunEnded)


def test_a_stop_before_the_first_step_saves_nothing(task, recorder, tmp_path: Path) -> None:
    interrupter = Interrupter()
    interrupter.stop("not now")
    result = task.fit(task.learner(directory=tmp_path, views=[recorder], interrupter=interrupter))
    assert (result.outcome, result.steps) == ("interrupted", 0)
    assert recorder.of(Interrupted)[0].checkpoint is None
    assert not recorder.of(Checkpointed)


def test_the_newest_checkpoint_is_damaged_and_the_one_before_it_is_used(
    task, recorder, weights, tmp_path: Path
) -> None:
    whole = task.fit(task.learner())
    task.fit(task.learner(directory=tmp_path), epochs=2)
    newest = tmp_path / "checkpoints" / "epoch-0002.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1000])

    resumed = task.fit(task.learner(directory=tmp_path, views=[recorder]), resume=True)

    told = [type(event) for event in recorder.events[:3]]
    assert told == [RunStarted, CheckpointDamaged, Resumed]
    (damaged,) = recorder.of(CheckpointDamaged)
    assert damaged.path == newest
    assert recorder.of(Resumed)[0].epoch == 1
    assert weights(resumed.model) == weights(whole.model)


def test_a_run_directory_holds_what_was_promised(task, tmp_path: Path) -> None:
    result = task.fit(task.learner(directory=tmp_path / "run", arguments={"task": "tiny"}))
    directory = RunDirectory(tmp_path / "run")
    manifest = directory.read_manifest()
    assert (manifest["state"], manifest["device"], manifest["seed"]) == ("completed", "numpy", 5)
    assert manifest["arguments"] == {"task": "tiny"}
    assert manifest["dependencies"]["numpy"] == np.__version__
    assert directory.read_history() == result.history
    loaded = task.learner().model.load(directory.model)
    assert np.array_equal(loaded.out.weight.numpy(), result.model.out.weight.numpy())
    assert json.loads(directory.manifest.read_text())["epochs_done"] == 3


# ---- Ctrl-C ----


def pressing_ctrl_c(task: Any, at: set[int]) -> Any:
    plain, calls = supervised(task.loss), iter(range(1, 1000))

    def step(model: Any, batch: Any) -> Output:
        if next(calls) in at:
            os.kill(os.getpid(), signal.SIGINT)
        return plain(model, batch)

    return step


def test_the_first_ctrl_c_ends_the_step_and_saves(task, recorder, tmp_path: Path) -> None:
    step = pressing_ctrl_c(task, {4})
    result = task.fit(task.learner(step=step, directory=tmp_path, views=[recorder]))
    assert (result.outcome, result.steps) == ("interrupted", 4)
    assert recorder.of(Interrupted)[0].reason == "Ctrl-C"
    assert (tmp_path / "checkpoints" / "epoch-0001-step-000004.safetensors").is_file()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_after_ctrl_c_the_next_call_goes_on(task, weights, tmp_path: Path) -> None:
    whole = task.fit(task.learner())
    learner = task.learner(step=pressing_ctrl_c(task, {4}), directory=tmp_path)
    assert task.fit(learner).outcome == "interrupted"
    assert task.fit(learner, resume=True).outcome == "completed"
    assert weights(learner.model) == weights(whole.model)


def test_gradient_checkpointing_changes_no_bit(task, weights) -> None:
    plain = task.fit(task.learner())
    saving = task.fit(task.learner(gradient_checkpointing="balanced"))
    assert weights(saving.model) == weights(plain.model)


def test_the_second_ctrl_c_raises(task, recorder) -> None:
    plain = supervised(task.loss)

    def step(model: Any, batch: Any) -> Output:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        return plain(model, batch)

    with pytest.raises(KeyboardInterrupt):
        task.fit(task.learner(step=step, views=[recorder]))
    assert recorder.closed == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_another_thread_trains_and_is_stopped_from_outside(task) -> None:
    interrupter, begun = Interrupter(), threading.Event()
    plain, results = supervised(task.loss), []

    def step(model: Any, batch: Any) -> Output:
        begun.set()
        return plain(model, batch)

    learner = task.learner(step=step, interrupter=interrupter)
    thread = threading.Thread(target=lambda: results.append(task.fit(learner, epochs=10**6)))
    thread.start()
    assert begun.wait(60)
    interrupter.stop("the window was closed")
    thread.join(60)
    assert results[0].outcome == "interrupted"


# ---- pauses ----


class Resuming:
    """A view that ends each pause, after it asked for what is wanted meanwhile."""

    def __init__(self, interrupter: Interrupter, *, save: bool = False, stop: bool = False) -> None:
        self.interrupter, self.save, self.stop = interrupter, save, stop
        self.events: list[Event] = []

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def close(self) -> None:
        pass

    def handle(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, Checkpointed if self.save else Paused):
            sleep(0.05)
            self.interrupter.stop("enough") if self.stop else self.interrupter.resume()
        elif isinstance(event, Paused):
            self.interrupter.save()


def pausing(task: Any, at: set[int], **arguments: Any) -> tuple[Any, Resuming]:
    """A learner that pauses in those calls of its step, validation counted, and who resumes it."""
    interrupter, plain, calls = Interrupter(), supervised(task.loss), iter(range(1, 1000))
    wanted = {name: arguments.pop(name) for name in ("save", "stop") if name in arguments}
    view = Resuming(interrupter, **wanted)

    def step(model: Any, batch: Any) -> Output:
        if next(calls) in at:
            interrupter.pause()
        return plain(model, batch)

    return task.learner(step=step, interrupter=interrupter, views=[view], **arguments), view


def test_a_pause_changes_no_bit(task, weights) -> None:
    whole = task.fit(task.learner())
    learner, view = pausing(task, {2, 6, 7})  # in training, at its last step, and in validation
    result = task.fit(learner)
    assert [(e.epoch, e.step) for e in view.of(Paused)] == [(0, 2), (0, 6), (0, 6)]
    assert len(view.of(PauseEnded)) == 3
    assert weights(result.model) == weights(whole.model)
    assert readings_without_time(result.history) == readings_without_time(whole.history)


def test_no_time_that_is_told_holds_a_pause(task) -> None:
    learner, view = pausing(task, {2, 6, 7})
    began = perf_counter()
    result = task.fit(learner)
    wall = perf_counter() - began
    paused = sum(event.seconds for event in view.of(PauseEnded))
    assert paused >= 3 * 0.05
    assert result.seconds + paused <= wall
    assert sum(event.seconds for event in view.of(StepEnded)) + paused <= wall
    assert sum(event.seconds for event in view.of(EpochEnded)) + paused <= wall


def test_a_checkpoint_is_made_on_request_and_in_a_pause(task, tmp_path: Path) -> None:
    learner, view = pausing(task, {2}, save=True, directory=tmp_path)
    assert task.fit(learner).outcome == "completed"
    assert [(e.epoch, e.step) for e in view.of(Checkpointed)] == [(0, 2), (1, 0), (2, 0), (3, 0)]
    assert not learner.interrupter.wants_save


class SavingInAPause(Resuming):
    """A view that asks for a checkpoint in each pause, and ends it when there is one.

    Without one it ends it too, late enough for any machine: then the checkpoint comes after it.
    """

    def handle(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, Paused):
            self.given_up = threading.Timer(60, self.interrupter.resume)
            self.given_up.start()
            self.interrupter.save()
        elif isinstance(event, Checkpointed) and self.interrupter.is_paused:
            self.given_up.cancel()
            self.interrupter.resume()


def test_a_checkpoint_of_a_pause_in_validation_is_made_in_it_and_resumes_to_the_same(
    task, weights, tmp_path: Path
) -> None:
    interrupter, calls = Interrupter(), iter(range(1, 1000))
    view = SavingInAPause(interrupter)
    plain = supervised(task.loss)

    def drawing(model: Any, batch: Any) -> Output:
        pyrite.uniform((1,))
        return plain(model, batch)

    def pausing_in_validation(model: Any, batch: Any) -> Output:
        if next(calls) == 8:
            interrupter.pause()
        return drawing(model, batch)

    whole = task.fit(task.learner(step=drawing))
    task.fit(
        task.learner(
            step=pausing_in_validation, interrupter=interrupter, views=[view], directory=tmp_path
        )
    )
    told = [type(event) for event in view.events]
    assert told.index(Paused) < told.index(Checkpointed) < told.index(PauseEnded)
    saved = view.of(Checkpointed)[0]
    assert (saved.epoch, saved.step) == (0, 6)

    for later in set(saved.path.parent.glob("*.safetensors")) - {saved.path}:
        later.unlink()
    resumed = task.fit(task.learner(step=drawing, directory=tmp_path), resume=True)
    assert weights(resumed.model) == weights(whole.model)
    assert readings_without_time(resumed.history) == readings_without_time(whole.history)


def test_a_pause_ends_with_a_request_to_stop(task, tmp_path: Path) -> None:
    learner, view = pausing(task, {2}, stop=True, directory=tmp_path)
    result = task.fit(learner)
    assert (result.outcome, result.steps) == ("interrupted", 2)
    assert view.of(Interrupted)[0].checkpoint == tmp_path / (
        "checkpoints/epoch-0001-step-000002.safetensors"
    )


def test_the_norm_of_gradients_is_told_where_metrics_are_read(task, recorder) -> None:
    norms: list[float] = []

    class Watching(SGD):
        def step(self, model: Any, gradients: Any) -> Any:
            norms.append(float(np.sqrt(sum((g.numpy() ** 2).sum() for g in gradients))))
            return super().step(model, gradients)

    task.fit(task.learner(views=[recorder], optimizer=Watching(0.1), gradient_norm=True), epochs=1)
    steps = [event for event in recorder.of(StepEnded) if event.split == "train"]
    told = [event.gradient_norm for event in steps]
    assert told[0] is None
    assert told[1:] == pytest.approx([norms[i] for i in (1, 1, 3, 3, 5)])
    assert {event.learning_rate for event in steps} == {0.1}
    assert [event.items for event in steps] == [4, 4, 4, 4, 4, 2]


# ---- errors ----


def test_an_error_in_the_model_reaches_the_caller_and_closes_the_views(task, recorder) -> None:
    def step(model: Any, batch: Any) -> Output:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        task.fit(task.learner(step=step, views=[recorder]))
    assert recorder.closed == 1


def test_a_loss_that_is_nan_does_not_break_the_run(task, tmp_path: Path) -> None:
    def step(model: Any, batch: Any) -> Output:
        inputs, targets = batch
        predictions = model(inputs)
        return Output(task.loss(predictions, targets) * float("nan"), predictions, targets)

    early = EarlyStopping(patience=1)
    result = task.fit(task.learner(step=step, directory=tmp_path, early_stopping=early))
    assert result.outcome == "stopped early"
    last = result.history.results[-1].readings[0]
    assert isinstance(last, Reading)
    assert math.isnan(last.value)
    assert len(RunDirectory(tmp_path).read_history()) == len(result.history)


# ---- samples ----


def test_what_is_shown_of_the_first_batch_of_each_split_is_told(
    task: Any, recorder: Any, tmp_path: Path
) -> None:
    def show(batch: Any, output: Output) -> Any:
        for number, (item, target) in enumerate(zip(*batch, strict=True)):
            yield TextSample(f"item {number}", f"{item.shape} is {target.item()}")
        yield TableSample("scores", ["0", "1", "2"], output.predictions.tolist())
        yield from [TextSample("too", "many")] * 100

    learner = task.learner(
        show=show, views=[recorder], directory=tmp_path, metrics=[ConfusionMatrix()]
    )
    task.fit(learner, epochs=2)
    told = [e.event for e in read_events(tmp_path / "events.jsonl") if is_sampled(e.event)]
    assert told == recorder.of(Sampled)
    places = Counter((e.split, e.epoch, e.step) for e in told)
    of_first, of_end = 16, 2  # the matrix and the classes
    assert places == {
        (split, epoch, step): count
        for epoch in (1, 2)
        for split, steps in (("train", STEPS), ("valid", 2))
        for step, count in ((1, of_first), (steps, of_end))
    }
    names = [e.sample.name for e in told if e.split == "valid" and e.epoch == 2]
    assert names[:5] == ["item 0", "item 1", "item 2", "item 3", "scores"]
    assert names[-2:] == ["Confusion matrix", "Classes"]
    pictures = [e.sample for e in told if isinstance(e.sample, ImageSample)]
    assert all(RunDirectory(tmp_path).read_image(each)[:4] == b"\x89PNG" for each in pictures)


def test_samples_of_steps_that_are_done_again_are_void(task: Any, tmp_path: Path) -> None:
    def show(batch: Any, output: Output) -> Any:
        yield TextSample("x", "y")

    task.interrupted_at(STEPS + 2 + 3, tmp_path, show=show)
    task.fit(task.learner(directory=tmp_path, show=show), resume=True)
    places = [
        (e.event.split, e.event.epoch, e.event.step)
        for e in read_events(tmp_path / "events.jsonl")
        if is_sampled(e.event)
    ]
    assert places == [
        ("train", 1, 1), ("valid", 1, 1), ("train", 2, 1), ("train", 2, 4), ("valid", 2, 1),
        ("train", 3, 1), ("valid", 3, 1),
    ]  # fmt: skip


def is_sampled(event: Any) -> bool:
    return isinstance(event, Sampled)


class EndlessStream(ResumableDataset[Any]):
    """Items of the task's dataset in turn; the state is how many have come."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def read(self, epoch: int, state: Any) -> Iterator[Any]:
        for number in itertools.count(state or 0):
            yield self.dataset[(epoch + number) % len(self.dataset)], number + 1


def test_a_run_on_a_stream_resumes_where_the_stream_was(task, weights, tmp_path: Path) -> None:
    stream = EndlessStream(task.train.dataset)
    task.train = DataLoader(stream, 4, max_batches=STEPS, workers=2, device="numpy")
    whole = task.fit(task.learner())
    task.interrupted_at(3, tmp_path)
    resumed = task.fit(task.learner(directory=tmp_path), resume=True)
    assert weights(resumed.model) == weights(whole.model)
    assert readings_without_time(resumed.history) == readings_without_time(whole.history)
