"""Sizes that come back often: their kernels have them built in, where they are faster so.

A second size of an op runs the kernel for all sizes, so it waits for no compiler.  Rows of which a
place is divided by a size take up to 1.3 times as long so.  What has come back often is recorded
anew by a thread in a pause, as if it came first; the folds of both have one order, so no result
depends on when that is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from pyrite.backend.cube.fault import AnyDoubt
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.recording import Recording
from pyrite.backend.cube.tensor import CubeTensor

#: Calls of some sizes after which these are built in.
OFTEN: Final = 256


class CountedRecording:
    """A recording with a kernel for all sizes, until it has run `OFTEN`."""

    __slots__ = ("_left", "_note", "recording")

    def __init__(self, recording: Recording, note: Callable[[], None]) -> None:
        self.recording, self._note, self._left = recording, note, OFTEN

    def run(
        self, launcher: Launcher, inputs: Sequence[Any], operands: list[Any],
        doubt: AnyDoubt | None,
    ) -> Sequence[CubeTensor]:  # fmt: skip
        """Do what `Recording.run` does."""
        # Two threads may count two calls once; if both come to 0 it is made twice, and one kept.
        self._left = left = self._left - 1
        if left == 0:
            self._note()
        return self.recording.run(launcher, inputs, operands, doubt)
