"""RunDirectory: the files of one run.

    run.json             what ran: versions, device, seed, settings, how it ended
    events.jsonl         what happened, a line each
    samples/             the images that it names
    checkpoints/         what a run needs to continue
    model.safetensors    the weights, when the run has ended

Invariant: at any moment all of them can be read.  Each is replaced as a whole but events.jsonl, to
which lines are appended: see `pyrite.train.event_file`.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from pyrite.errors import RecordError, TrainError
from pyrite.opening import open_file, reader
from pyrite.record import Record, atomic_write
from pyrite.train.event import EpochEnded
from pyrite.train.event_file import read_events
from pyrite.train.history import History, SplitResult
from pyrite.train.sample import ImageSample
from pyrite.train.sample_folder import SampleFolder

if sys.platform != "win32":
    import fcntl


class RunDirectory:
    """Where a run keeps its files; made when the first of them is written."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.path / "checkpoints"

    @property
    def model(self) -> Path:
        """The file of weights."""
        return self.path / "model.safetensors"

    @property
    def manifest(self) -> Path:
        """The file that says what ran."""
        return self.path / "run.json"

    @property
    def events(self) -> Path:
        """The file of events."""
        return self.path / "events.jsonl"

    @property
    def samples(self) -> Path:
        """The folder of the images of samples."""
        return self.path / "samples"

    @reader("run directory", TrainError)
    def read_image(self, image: ImageSample) -> bytes:
        """Return the PNG file of a sample.

        Raises TrainError where it is not there: only so many are kept, the newest.
        """
        try:
            return SampleFolder(self.samples).read(image)
        except OSError as error:
            raise _unreadable(self.samples / image.file, error) from error

    def holds_run(self) -> bool:
        """Whether a run has begun here."""
        return any(path.exists() for path in self._files())

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Write run.json.  Raises TrainError when it cannot be written."""
        self._write(self.manifest, json.dumps(dict(manifest), indent=2) + "\n")

    def write_model(self, record: Record) -> None:
        """Write model.safetensors.  Raises TrainError when it cannot be written."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            record.save(self.model)
        except (RecordError, OSError) as error:
            raise _unwritable(self.path, error) from error

    @reader("run directory", TrainError)
    def read_manifest(self) -> dict[str, Any]:
        """Return run.json.  Raises TrainError where there is none, or it is damaged."""
        text = self._read(self.manifest)
        try:
            manifest = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise TrainError(
                f"run directory requires a run.json of JSON, got {str(self.manifest)!r}: {error}"
            ) from error
        if not isinstance(manifest, dict):
            raise TrainError(
                f"run directory requires an object in run.json, got {type(manifest).__name__} in "
                f"{str(self.manifest)!r}"
            )
        return manifest

    @reader("run directory", TrainError)
    def read_history(self) -> History:
        """Return the results of all epochs, from events.jsonl.

        Raises TrainError where there is none, or it holds no line of a run.
        """
        try:
            entries = read_events(self.events)
        except OSError as error:
            raise _unreadable(self.events, error) from error
        if not entries:
            raise _unreadable(self.events, "no line of it is an event")
        ended = [entry.event for entry in entries if isinstance(entry.event, EpochEnded)]
        return History(tuple(SplitResult.of(event) for event in ended))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let no other run train here as long as the block goes on, in whichever process.

        Raises TrainError where one does.  The lock is one of the system on the folder: it goes with
        its process, however that ends.  Where there are none, as on Windows and on some network
        drives, nobody is kept out.
        """
        descriptor = self._lock()
        try:
            yield
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _lock(self) -> int | None:
        if sys.platform == "win32":
            return None
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:  # what cannot be made cannot be written either, which is told then
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise TrainError(
                f"fit requires a directory in which no other run trains, got {str(self.path)!r}; "
                "wait for that run, stop it, or name another directory"
            ) from None
        except OSError:  # a file system without locks
            pass
        return descriptor

    def clear(self) -> None:
        """Delete the files of the run, and nothing else that may be here.

        Raises TrainError where that cannot be done, or the run still goes on.
        """
        with self.held():
            self._clear()

    def _clear(self) -> None:
        try:
            SampleFolder(self.samples).clear()
            for path in self._files():
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def _files(self) -> tuple[Path, ...]:
        return self.manifest, self.events, self.model, self.checkpoints

    def _write(self, file: Path, text: str) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with atomic_write(file) as opened:
                opened.write(text.encode())
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def _read(self, file: Path) -> str:
        try:
            with open_file(file) as opened:
                return opened.read().decode()
        except (OSError, UnicodeDecodeError) as error:
            raise _unreadable(file, error) from error


def _unreadable(file: Path, why: Exception | str) -> TrainError:
    reason = getattr(why, "strerror", None) or str(why)
    return TrainError(
        f"run directory requires a readable {file.name}, got {str(file)!r}: {reason}; "
        "name a directory that a training run has written"
    )


def _unwritable(path: Path, error: Exception) -> TrainError:
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return TrainError(
        f"run directory requires a place that can be written, got {str(path)!r}: {reason}; "
        "name another directory, or make room"
    )
