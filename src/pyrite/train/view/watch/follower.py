"""Follower: reads a file of events that grows, a slice of time at a time."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from time import monotonic

from pyrite.train.event_file import Entry, EventReader
from pyrite.train.view.watch.run import RunState

#: Entries between two looks at the clock.
_PIECE = 200


class Follower:
    """A run's file, and what it says so far.

    ``problem`` says why the file cannot be read, None where it can.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        self.state = RunState()
        self.problem: str | None = None
        self._reader = EventReader(path)
        self._entries: Iterator[Entry] | None = None
        self._files = 0

    @property
    def skipped(self) -> int:
        """How many lines said nothing known."""
        return self._reader.skipped

    def read(self, seconds: float) -> bool:
        """Take in what is new, for some seconds at most; return whether that was all."""
        deadline = monotonic() + seconds
        try:
            while self._take(_PIECE):
                if monotonic() > deadline:
                    return False
        except OSError as error:
            self._entries = None
            self.problem = error.strerror or str(error)
            return True
        self.problem = None
        return True

    def _take(self, count: int) -> bool:
        """Take so many entries in; False when there are no more by now."""
        if self._entries is None:
            self._entries = self._reader.new()
        for _ in range(count):
            entry = next(self._entries, None)
            if self._reader.files != self._files:  # of another run
                self._files, self.state = self._reader.files, RunState()
            if entry is None:
                self._entries = None
                return False
            self.state.take(entry)
        return True
