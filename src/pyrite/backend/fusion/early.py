"""Launches of a program before all of its calls are known; see `pyrite.backend.cube.head_start`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Protocol

from pyrite.backend.compiling import Program, StartedRun
from pyrite.backend.fusion.history import Call, Lines
from pyrite.backend.fusion.last_run import Given
from pyrite.backend.fusion.numbers import plain
from pyrite.backend.fusion.recorded import RecordedCalls
from pyrite.op import Handle, is_host_scalar


class Calls(Given, Protocol):
    """What of calls is needed here: `PendingCalls`."""

    at: Call
    recorded: RecordedCalls
    sites: dict[int, str]
    is_whole: bool
    donated: tuple[int, ...]


class EarlyRun(NamedTuple):
    """A run that was begun, the call behind which, and by what its program is found."""

    run: StartedRun
    call: Call
    form: Hashable

    def is_of(self, last: Call) -> bool:
        """Whether it is of the calls up to one, which are known now."""
        early = self.call.early
        return early is not None and early[1] is last


def note_hit(calls: Calls, program: Program, form: Hashable) -> None:
    """Note that a program ran; now and then, look from which call on it could begin."""
    at = calls.at
    at.hits += 1
    if at.hits & (at.hits - 1) or at.hits == 1 or calls.is_whole or calls.donated:
        return
    path = at.path
    known, tensors = [], 0
    for call in path:
        tensors = max(tensors, *[-x for x in call.operands if isinstance(x, int)], 0)
        known.append((tensors, call.numbers))
    head = program.head_start(known, at.left_at)
    if head is not None:
        path[head.place].early = (head, at, form)
        calls.recorded.changes += 1


def started_early(calls: Calls, call: Call) -> EarlyRun | None:
    """Make the first launches of the program that came last time, on what is known of it."""
    assert call.early is not None
    head, _, form = call.early
    if calls.is_whole or calls.donated:
        return None
    lines = Lines(call, calls.sites)
    run = head.run_known(calls.inputs, calls.numbers, lines)
    if run is None:
        of_inputs: Any = form
        layouts = of_inputs[1][1:]
        layout_of = calls.recorded.inner.layout_of
        if tuple(map(layout_of, calls.inputs)) != layouts[: len(calls.inputs)]:
            return None
        numbers = [plain(x) if is_host_scalar(x.value) else x for x in calls.numbers]
        run = head.run(calls.inputs, numbers, lines)
    return None if run is None else EarlyRun(run, call, form)


def finished_early(
    calls: Calls, early: EarlyRun, form: Hashable, inputs: Sequence[Any],
    wanted: Sequence[int],
) -> Sequence[Handle] | None:  # fmt: skip
    """Return the results of the run that was begun; None where the calls went on otherwise."""
    at, call = calls.at, early.call
    if not early.is_of(at) or early.form != form:
        if call.early is not None and not early.is_of(at):
            call.early[1].note_left(at)
        call.early = None
        calls.recorded.changes += 1
        return None
    results = early.run.finish(inputs, Lines(at, calls.sites))
    if results is not None:
        at.hits += 1
        head = early.run.begun
        at.note_run(head, head, form, calls, wanted)
    return results
