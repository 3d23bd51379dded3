"""A run of a program: its operands, and what of it is still to be done.

What writes over inputs comes last.  An input that somebody else holds by then is copied first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.backend.cube.fault import AnyDoubt
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.recording import Recording
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.backend.explanation import listeners, told
from pyrite.backend.explanation.launched import Describe
from pyrite.errors import MemoryBudgetError
from pyrite.runtime.interruption import Uninterrupted


class ProgramRun:
    """See the head of this file.  It holds buffers, and none of the tensors that were given."""

    __slots__ = (
        "_describe", "_doubts", "_is_done", "_launcher", "_limit", "_operands", "_recording",
    )  # fmt: skip

    def __init__(
        self, launcher: Launcher, recording: Recording, operands: list[Any],
        doubts: Sequence[AnyDoubt | None], describe: Describe,
        limit: int | None = None,
    ) -> None:  # fmt: skip
        self._launcher, self._recording = launcher, recording
        self._operands, self._doubts, self._describe = operands, doubts, describe
        #: The most bytes that may be live on the device, by `memory_budget`.
        self._limit = limit
        self._is_done = recording.tail is None

    @property
    def results(self) -> list[CubeTensor | None]:
        """What is made so far, None where it is not."""
        recording = self._recording
        made = recording.tensors(self._operands, self._doubts)
        late = frozenset() if self._is_done else recording.late
        return [
            None if at in late else x for (at, *_), x in zip(recording.results, made, strict=True)
        ]

    def finish(self) -> list[CubeTensor]:
        """Do the rest; return all results.  What raises has written over nothing."""
        recording = self._recording
        if not self._is_done:
            self._require_room()
            for at, nbytes in recording.donated:
                self._own(at, nbytes)
            self._launch_tail()
        return recording.tensors(self._operands, self._doubts)

    def _require_room(self) -> None:
        """Raise MemoryBudgetError where copies of what is still held would be too much."""
        if self._limit is None:
            return
        runtime, operands = self._launcher.runtime, self._operands
        more = sum(
            runtime.capacity(nbytes) for at, nbytes in self._recording.donated
            if not runtime.is_last_holder(operands, at)
        )  # fmt: skip
        live = runtime.memory_report().live
        if more and live + more > self._limit:
            error = MemoryBudgetError(
                f"memory_budget requires {live + more:,} bytes to copy what a step writes over and "
                f"somebody still holds, got {self._limit:,}, too few by "
                f"{live + more - self._limit:,}; let go of the old model, or give more"
            )
            error.needed = live + more
            raise error

    def _own(self, at: int, nbytes: int) -> None:
        """Have an operand be memory that nobody else holds."""
        runtime, operands = self._launcher.runtime, self._operands
        if not runtime.is_last_holder(operands, at):
            copy = runtime.allocate(nbytes)
            runtime.copy(operands[at], copy)
            operands[at] = copy

    def _launch_tail(self) -> None:
        recording, operands = self._recording, self._operands
        assert recording.tail is not None
        if listeners:
            steps, first = recording.steps[recording.split :], recording.split
            launch = told(self._launcher.runtime, steps, lambda n: self._describe(first + n))
        else:
            launch = recording.tail.launch
        # Done twice it would update what is updated.
        with Uninterrupted():
            launch(operands)
            self._is_done = True
