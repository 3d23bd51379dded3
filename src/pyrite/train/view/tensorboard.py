"""TensorBoardView: a run as TensorBoard's event files.  Needs tensorboardX: import it by name.

    from pyrite.train.view.tensorboard import TensorBoardView

    Learner(..., views=[TensorBoardView("runs/mine")])

Then ``tensorboard --logdir runs``.  Steps are counted over all epochs; the splits of a metric share
a chart.  Files that a run wrote before it was resumed stay: TensorBoard is told from which step on
the new ones hold.
"""

from __future__ import annotations

import io
import logging
from functools import singledispatchmethod
from os import PathLike
from pathlib import Path
from time import time_ns

import numpy as np
import PIL.Image
from tensorboardX import SummaryWriter

from pyrite.train.event import EpochEnded, EpochStarted, Event, Sampled, StepEnded
from pyrite.train.reading import Reading
from pyrite.train.sample import ImageSample, TableSample, TextSample
from pyrite.train.view.legible import legible


class TensorBoardView:
    """Writes metrics, learning rate, norm of gradients and samples into a folder."""

    def __init__(self, directory: str | PathLike[str]) -> None:
        self.directory = Path(directory)
        self._writer: SummaryWriter | None = None
        self._written: tuple[Reading, ...] = ()
        self._step = 0

    def handle(self, event: Event) -> None:
        """Write the event, if TensorBoard has something to show of it."""
        self._show(event)

    def close(self) -> None:
        """Write what is left, and close the file."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    @singledispatchmethod
    def _show(self, event: Event) -> None:
        """Most events are no curves and no samples."""

    @_show.register
    def _(self, event: EpochStarted) -> None:
        self._step = (event.epoch - 1) * event.steps + event.step
        self._open()

    @_show.register
    def _(self, event: StepEnded) -> None:
        if event.split != "train":
            return
        self._step = (event.epoch - 1) * event.steps + event.step
        if event.readings is self._written:
            return
        self._written = event.readings
        self._scalars("train", event.readings)
        rates = {"Learning rate": event.learning_rate, "Gradient norm": event.gradient_norm}
        known = {reading.name for reading in event.readings}
        for name, value in rates.items():
            if value is not None and name not in known:
                self._scalars("train", (Reading(name, value),))

    @_show.register
    def _(self, event: EpochEnded) -> None:
        if event.split != "train":  # of training the last step said the same
            self._scalars(event.split, event.readings)
        self._open().flush()

    @_show.register
    def _(self, event: Sampled) -> None:
        tag = _tag(event.sample.name, event.split)
        match event.sample:
            case ImageSample(png=png) if png:
                with PIL.Image.open(io.BytesIO(png)) as image:
                    pixels = np.asarray(image.convert("RGB"))
                self._open().add_image(tag, pixels, self._step, dataformats="HWC")
            case TextSample(text=text):
                self._open().add_text(tag, _literal(text), self._step)
            case TableSample(columns=columns, rows=rows):
                lines = ["\t".join("" if c is None else str(c) for c in row) for row in rows]
                text = "\n".join(["\t".join(columns), *lines])
                self._open().add_text(tag, _literal(text), self._step)

    def _open(self) -> SummaryWriter:
        if self._writer is None:
            self.directory.mkdir(parents=True, exist_ok=True)
            # It warns of each NaN, a line for every reading of a metric that is not defined yet.
            logging.getLogger("tensorboardX.x2num").setLevel(logging.ERROR)
            purge = self._step + 1 if self._step else None
            # By itself it names files by the second, and would empty that of a run just before.
            suffix = f".{time_ns()}"
            self._writer = SummaryWriter(
                str(self.directory), purge_step=purge, filename_suffix=suffix
            )
        return self._writer

    def _scalars(self, split: str, readings: tuple[Reading, ...]) -> None:
        for reading in readings:
            self._open().add_scalar(_tag(reading.name, split), reading.value, self._step)


def _tag(name: str, split: str) -> str:
    """One chart for each metric: what stands before the slash."""
    return f"{legible(name).replace('/', '|')}/{legible(split)}"


def _literal(text: str) -> str:
    """The text as Markdown that shows it as it is."""
    return "\n".join(f"    {legible(line)}" for line in text.split("\n"))
