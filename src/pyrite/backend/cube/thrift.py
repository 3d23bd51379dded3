"""Plans of a program that take less memory than its own, made where `memory_budget` asks for them.

A plan is chosen when a program is about to run, by what is live on the device then.  All plans
of a program make the same launches, some of them twice, so which one is chosen changes no bit.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Final

from pyrite.backend.cube.recording import Recording
from pyrite.backend.cube.recording_launcher import RecordingLauncher
from pyrite.backend.cube.rematerialization import once, rematerialised
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.backend.explanation import listeners
from pyrite.runtime.protocol import Runtime

#: Plans of one program that are kept.
MOST_PLANS: Final = 8
#: What is aimed at is the next lower of so many parts of what is left, for what is live changes
#: by some bytes from run to run.
PARTS: Final = 32
#: A placement takes a little more than what is in use at once: so often less is aimed at.
ATTEMPTS: Final = 6


@dataclass(frozen=True, slots=True)
class ThriftyPlan:
    """A recording, and of each of its launches which one of the program's it is."""

    recording: Recording
    launches: tuple[int, ...]


class ThriftyPlans:
    """The plans of one program.  It holds what was noted of its launches, and no memory.

    ``work`` says of each launch how long it takes, when that is first asked.
    """

    def __init__(
        self, recorder: RecordingLauncher, results: Sequence[CubeTensor],
        work: Callable[[], Sequence[int]],
    ) -> None:  # fmt: skip
        self._recorder, self._results, self._work = recorder, results, work
        self._lock = Lock()
        self._plans: list[ThriftyPlan] = []
        #: The plan that takes least, once there is no better one.
        self._least: ThriftyPlan | None = None

    def within(self, own: Recording, limit: int) -> tuple[ThriftyPlan | None, int]:
        """Return a plan for which there is room in so many bytes, and those that are live now.

        The first is None where the program's own recording will do: it fits, and no result that
        is let go leaves memory that others hold.  Where there is no room it is the plan that takes
        least, which who asks has to see.
        """
        runtime = self._recorder.runtime
        with self._lock:
            for free_some in (None, runtime.trim, gc.collect):
                # On a GPU what is kept for other programs is live; garbage in cycles is too.
                if free_some is not None:
                    free_some()
                live = runtime.memory_report().live
                is_apart = not (own.shares_rooms and runtime.is_host)
                if is_apart and live + needed(runtime, own) <= limit:
                    return None, live
                fitting = [p for p in self._plans if live + needed(runtime, p.recording) <= limit]
                if fitting:
                    return max(fitting, key=lambda p: needed(runtime, p.recording)), live
            return self._made(limit - live), live

    def _made(self, room: int) -> ThriftyPlan:
        """Return a plan that takes no more than so many bytes, or the one that takes least."""
        if self._least is not None:
            return self._least
        runtime = self._recorder.runtime
        aim = room - room % max(1, room // PARTS)
        program = self._recorder.effects(self._work(), self._results)
        schedule, target = once(program), aim
        best: ThriftyPlan | None = None
        for _ in range(ATTEMPTS):
            schedule = rematerialised(program, schedule, target)
            again = self._recorder.again(schedule.calls, schedule.stands_for)
            plan = ThriftyPlan(
                again.recording(self._results), tuple(c.launch for c in schedule.calls)
            )
            if best is None or needed(runtime, plan.recording) < needed(runtime, best.recording):
                best = plan
            over = needed(runtime, best.recording) - aim
            if over <= 0 or schedule.peak > target:
                break
            target = min(target, schedule.peak) - max(over, target // PARTS)
        assert best is not None, "there is an attempt"
        if needed(runtime, best.recording) > room:
            self._least = best
        self._plans = [*self._plans[1 - MOST_PLANS :], best]
        return best


def needed(runtime: Runtime, recording: Recording) -> int:
    """Return by how many bytes a run adds to what is live."""
    block = runtime.capacity(recording.block) if recording.block else 0
    return recording.memory.needed(are_new=bool(listeners)) + block
