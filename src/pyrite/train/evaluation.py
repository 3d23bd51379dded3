"""Evaluation: a model that does not train, over all batches of a loader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from time import perf_counter
from typing import Any

from pyrite.autodiff import no_grad, training_mode
from pyrite.data.loader import DataLoader
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.tree import tree_leaves
from pyrite.train.event import EpochEnded, Event, Sampled, StepEnded
from pyrite.train.metric.metric import Metric
from pyrite.train.output import Output, Show, Step
from pyrite.train.reading import Reading

#: How many samples of a step are told.
SAMPLES = 16


class Evaluation:
    """One pass over a loader, step by step, so that its caller may stop it.

    `ended` is there when all steps are done, and has the readings.
    """

    ended: EpochEnded

    def __init__(
        self,
        model: Any,
        step: Step,
        metrics: Iterable[Metric],
        emit: Callable[[Event], None],
        *,
        read_every: int,
        show: Show | None = None,
    ) -> None:
        self.model = model
        self.step = step
        self.metrics = [metric.fresh() for metric in metrics if not metric.only_training]
        self.emit = emit
        self.read_every = read_every
        self.show = show

    def steps(self, loader: DataLoader[Any], split: str, epoch: int) -> Iterator[None]:
        """Evaluate a batch at each turn."""
        began = last = perf_counter()
        readings: tuple[Reading, ...] = ()
        for number, batch in enumerate(loader.epoch(0), start=1):
            with training_mode(False), no_grad():
                output = counted(self.step(self.model, batch), batch)
            now = perf_counter()
            update(self.metrics, [output], now - last)
            if number == 1:
                show_samples(self.emit, self.show, batch, output, split, epoch, number)
            if number % self.read_every == 0:
                readings = compute(self.metrics)
            self.emit(
                StepEnded(
                    split, epoch, number, len(loader), readings, now - last, items=output.weight
                )
            )
            left = perf_counter()
            yield
            away = perf_counter() - left  # as long as a pause
            began, last = began + away, now + away
        self.ended = EpochEnded(split, epoch, compute(self.metrics), perf_counter() - began)
        tell_samples(self.emit, self.metrics, split, epoch, len(loader))
        self.emit(self.ended)


def counted(output: Output, batch: Any) -> Output:
    """Return the output with its number of items: the rows of the batch where it does not say."""
    if output.items is not None or isinstance(output.targets, Tensor):
        return output
    rows = [leaf.shape[0] for leaf in tree_leaves(batch) if leaf.ndim]
    return replace(output, items=rows[0] if rows else 1)


def update(metrics: Sequence[Metric], outputs: Sequence[Output], seconds: float) -> None:
    """Give every metric the outputs of a step that took so many seconds."""
    for output in outputs:
        timed = replace(output, seconds=seconds / len(outputs))
        for metric in metrics:
            metric.update(timed)


def compute(metrics: Sequence[Metric]) -> tuple[Reading, ...]:
    """Return a reading of every metric; this waits for the device."""
    return tuple(metric.compute() for metric in metrics)


def show_samples(
    emit: Callable[[Event], None],
    show: Show | None,
    batch: Any,
    output: Output,
    split: str,
    epoch: int,
    step: int,
) -> None:
    """Tell what `show` makes of a step, the first so many."""
    if show is not None:
        for sample in islice(show(batch, output), SAMPLES):
            emit(Sampled(split, epoch, step, sample))


def tell_samples(
    emit: Callable[[Event], None], metrics: Iterable[Metric], split: str, epoch: int, step: int
) -> None:
    """Tell what the metrics of a split have to look at."""
    for metric in metrics:
        for sample in metric.samples():
            emit(Sampled(split, epoch, step, sample))
