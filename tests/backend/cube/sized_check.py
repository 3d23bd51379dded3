"""A plugin that judges each recording made for its size by the lowering itself.

    pytest -p tests.backend.cube.sized_check tests/...

What no call came to yet is learned at once, so that the next call of its kind is judged.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from typing import Any

from pyrite.backend.cube.recorder import record
from pyrite.backend.cube.recording import Recording
from pyrite.backend.cube.sized import SizedCall, SizedRecordings
from pyrite.op import Op

ops: dict[Hashable, Op] = {}
judged = [0]
_recording, _learn = SizedRecordings.recording, SizedRecordings.learn


def what_it_does(of: Recording) -> tuple[Any, ...]:
    """Return all that a recording says, its kernels by identity."""
    steps = [(id(s.executable), s.grid, [repr(o) for o in s.bindings]) for s in of.steps]
    return (
        of.sizes, of.block, of.parts, of.faults, of.arguments, steps, of.results, of.made, of.name,
        of.new, of.large, of.donated, of.split, of.shares_rooms,
    )  # fmt: skip


def recording(self: SizedRecordings, kind: Hashable, call: SizedCall) -> Recording | None:
    """Return what is made, if it is what the lowering records."""
    made = _recording(self, kind, call)
    if made is not None:
        op = ops[kind]
        lowering = self.choose(op, call.inputs, call.attrs)
        assert lowering is not None, f"{op.name} is expanded at {call.sizes}"
        wanted, _, _ = record(
            self._launcher, lowering, op, call.inputs, call.attrs, call.out, comes_first=False
        )
        judged[0] += 1
        for one, other in zip(what_it_does(made), what_it_does(wanted), strict=True):
            assert one == other, (op.name, call.sizes, one, other)
    return made


def learn(self: SizedRecordings, kind: Hashable, op: Op, call: SizedCall) -> None:
    """Learn, and remember of which op a kind is."""
    ops[kind] = op
    _learn(self, kind, op, call)


def learn_later(self: SizedRecordings, kind: Hashable, op: Op, call: SizedCall) -> None:
    """Learn at once."""
    with suppress(Exception):
        self.learn(kind, op, call)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many were judged."""
    terminalreporter.write_line(f"{judged[0]} recordings made for their sizes were judged")


SizedRecordings.recording, SizedRecordings.learn = recording, learn  # type: ignore[method-assign]
SizedRecordings.learn_later = learn_later  # type: ignore[method-assign]
