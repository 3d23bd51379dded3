"""Checkpoints: all that a run needs to continue, each in one file that is replaced as a whole.

A run that is killed at any moment continues from its newest checkpoint with the same batches,
random numbers and sums, so on a deterministic device its weights are those of a run that was never
stopped, bit for bit.  Invariant: a new checkpoint is complete on the disk before an old one is
deleted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyrite.errors import ArgumentError, RecordError, TrainError
from pyrite.record import Record
from pyrite.record.record import CHECKPOINT
from pyrite.train.history import Goal, History, SplitResult
from pyrite.types import Array

FORMAT = 1
"""The version of a checkpoint's metadata; the file's own format is the Record's."""

_NAME = re.compile(r"epoch-(\d+)(?:-step-(\d+))?\.safetensors")


@dataclass(frozen=True, order=True)
class Position:
    """Where a run is: so many epochs done, and so many steps of the next."""

    epoch: int = 0
    step: int = 0

    @property
    def file_name(self) -> str:
        """The name of the checkpoint made here; epochs and steps are counted from 1.

        >>> Position(3).file_name, Position(3, 120).file_name
        ('epoch-0003.safetensors', 'epoch-0004-step-000120.safetensors')
        """
        if not self.step:
            return f"epoch-{self.epoch:04}.safetensors"
        return f"epoch-{self.epoch + 1:04}-step-{self.step:06}.safetensors"

    @classmethod
    def of_file_name(cls, name: str) -> Position | None:
        """Return the position of a checkpoint by its name, None if it is not a checkpoint's."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        epoch, step = int(found[1]), int(found[2] or 0)
        return cls(epoch - 1, step) if step else cls(epoch)


@dataclass(frozen=True)
class CheckpointPolicy:
    """When checkpoints are made, and which are kept.

    One is made after every epoch, and within it after every `every_steps` steps.  Kept are the
    newest `keep_last`, and the one after the epoch that is best by `best`; None keeps no such one.
    """

    keep_last: int = 2
    best: Goal | None = field(default_factory=Goal)
    every_steps: int | None = None

    def __post_init__(self) -> None:
        if self.keep_last < 1 or (self.every_steps is not None and self.every_steps < 1):
            raise ArgumentError(
                "CheckpointPolicy requires keep_last >= 1 and every_steps >= 1 or None, got "
                f"keep_last={self.keep_last}, every_steps={self.every_steps}"
            )


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state of a run at a position.

    metrics: the state of each training metric by name, for the epoch under way; seconds: its time.
    random: of the stream from which the run draws.  batches: what decides which batches come next.
    """

    position: Position
    model: Record
    optimizer: Record
    metrics: Mapping[str, Mapping[str, Array]]
    random: Mapping[str, Any]
    history: History
    batches: Mapping[str, Any]
    steps: int
    seconds: float

    def to_record(self) -> Record:
        """Return all of it as one record."""
        metrics = {
            f"{name}/{key}": array
            for name, state in self.metrics.items()
            for key, array in state.items()
        }
        arrays = {"model": self.model.arrays, "optimizer": self.optimizer.arrays, "metric": metrics}
        return Record(
            {f"{part}.{name}": a for part, named in arrays.items() for name, a in named.items()},
            {
                CHECKPOINT: FORMAT,
                "epoch": self.position.epoch,
                "step": self.position.step,
                "steps": self.steps,
                "seconds": self.seconds,
                "random": self.random,
                "batches": self.batches,
                "model": self.model.metadata,
                "optimizer": self.optimizer.metadata,
                "history": [result.to_json() for result in self.history],
            },
        )

    @classmethod
    def from_record(cls, record: Record) -> Checkpoint:
        """Return the checkpoint that a record holds.  Raises RecordError if it holds none."""
        metadata = record.metadata
        if metadata.get(CHECKPOINT) != FORMAT:
            raise RecordError(
                f"checkpoint requires a record of format {FORMAT}, got "
                f"{metadata.get(CHECKPOINT)!r}; it is of another version of pyrite, or of "
                "something else"
            )
        try:
            return cls(
                Position(int(metadata["epoch"]), int(metadata["step"])),
                _part(record, "model"),
                _part(record, "optimizer"),
                _by_metric(record.part("metric").arrays),
                metadata["random"],
                History(tuple(SplitResult.from_json(fields) for fields in metadata["history"])),
                metadata["batches"],
                int(metadata["steps"]),
                float(metadata["seconds"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise RecordError(
                f"checkpoint requires complete metadata, got {type(error).__name__}: {error}"
            ) from error


class CheckpointFolder:
    """A folder of checkpoints, and the policy that says which of them stay."""

    def __init__(self, path: Path, policy: CheckpointPolicy) -> None:
        self.path = path
        self.policy = policy

    def files(self) -> list[Path]:
        """Return the checkpoints, oldest first."""
        found = self.path.iterdir() if self.path.is_dir() else ()
        positions = {file: Position.of_file_name(file.name) for file in found}
        known = {file: position for file, position in positions.items() if position is not None}
        return sorted(known, key=lambda file: known[file])

    def save(self, checkpoint: Checkpoint) -> Path:
        """Write a checkpoint, then delete those that the policy does not keep.

        Raises TrainError when it cannot be written; the others are then as they were.
        """
        path = self.path / checkpoint.position.file_name
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            checkpoint.to_record().save(path)
        except (RecordError, OSError) as error:
            raise TrainError(
                f"checkpoint requires a file that can be written, got: {error}; training stopped "
                "here, and older checkpoints are as they were: make room, then resume the run"
            ) from error
        self._delete_others(checkpoint.history)
        return path

    def newest(self, damaged: Callable[[Path, str], None]) -> tuple[Path, Checkpoint] | None:
        """Return the newest checkpoint that can be read, or None where there is not a file.

        ``damaged(path, reason)`` is told of each newer one that cannot.  Raises TrainError when
        there are files and none can be read.
        """
        self._delete_unfinished()
        files = self.files()
        for path in reversed(files):
            try:
                return path, Checkpoint.from_record(Record.load(path))
            except RecordError as error:
                damaged(path, str(error))
        if files:
            raise TrainError(
                f"resume requires a checkpoint that can be read, got {len(files)} damaged ones in "
                f"{str(self.path)!r}; start anew in another directory"
            )
        return None

    def best(self, history: History) -> Path | None:
        """Return the checkpoint after the best epoch, if the policy keeps it and it is there."""
        best = self.policy.best.best(history) if self.policy.best else None
        path = self.path / Position(best[0]).file_name if best else None
        return path if path is not None and path.is_file() else None

    def _delete_others(self, history: History) -> None:
        keep = {*self.files()[-self.policy.keep_last :], self.best(history)}
        for file in self.files():
            if file not in keep:
                with suppress(OSError):  # one that stays costs space and nothing else
                    file.unlink()

    def _delete_unfinished(self) -> None:
        """Delete what a killed process was writing."""
        for file in self._unfinished():
            with suppress(OSError):
                file.unlink()

    def _unfinished(self) -> Iterator[Path]:
        return self.path.glob(".epoch-*.tmp")


def _part(record: Record, name: str) -> Record:
    """Return a part of a checkpoint.  Raises KeyError where its metadata is missing."""
    record.metadata[name]
    return record.part(name)


def _by_metric(arrays: Mapping[str, Array]) -> dict[str, dict[str, Array]]:
    states: dict[str, dict[str, Array]] = {}
    for path, array in arrays.items():
        name, _, key = path.rpartition("/")
        states.setdefault(name, {})[key] = array
    return states
