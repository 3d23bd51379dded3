"""What ran last of the calls up to one: where that comes again, it runs in less time.

A step of training runs the program of the step before.  Which one that is need not be looked up:
the same results are held, and who runs it finds that inputs lie alike (`Program.run_again`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Protocol

from pyrite.backend.compiling import HeadStart, Program, RunAgain, Sites, StartedRun
from pyrite.backend.fusion.lazy import Lazy
from pyrite.columns import held_as
from pyrite.op import Constant, Handle


class Given(Protocol):
    """What calls take, and their results: `PendingCalls`."""

    inputs: list[Handle]
    numbers: list[Constant]
    results: list[Lazy | None]


class LastRun:
    """A run: by what its program was found, and behind which first launches it was, if any."""

    __slots__ = ("_again", "_flags", "_is_known", "form", "head")

    def __init__(self, form: Hashable, head: HeadStart | None) -> None:
        self.form, self.head = form, head
        #: What runs it again, and a byte of each result: 1 of those that were wanted.
        self._again: RunAgain | None = None
        self._flags = b""
        #: Whether that was asked for: it may be None.
        self._is_known = False

    def note(self, program: Program | HeadStart, calls: Given, wanted: Sequence[int]) -> None:
        """Note that it came twice in a row."""
        if self._is_known:
            return
        self._is_known = True
        self._again = program.run_again(calls.inputs, calls.numbers)
        flags = bytearray(len(calls.results))
        for n in wanted:
            flags[n] = 1
        self._flags = bytes(flags)

    def again(
        self, calls: Given, sites: Sites, started: StartedRun | None
    ) -> tuple[Sequence[Lazy], Sequence[Handle]] | None:
        """Run it again; return the results that are wanted, and their values.

        None where anything is otherwise, or was so once only: then nothing is done.
        """
        run = self._again
        if run is None or self.head is not (None if started is None else started.begun):
            return None
        wanted: Any = held_as(calls.results, self._flags)
        if wanted is None:
            return None
        made = run.run(calls.inputs, calls.numbers, sites, started)
        return None if made is None else (wanted, made)
