"""Programs are compared with their ops one by one: a wrong one is found when it first runs.

What may differ is known for each result (see tolerance.py): nothing where all that it is made of is
exact, and else what roundings do, which is found by running the ops again with each rounding drawn
anew.  A program that differs runs as its ops from then on; that is said once, with the user's
lines, and what it takes to see it again is in a file.

Invariant: nothing here names an op.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np

from pyrite.backend.budget import memory_limit
from pyrite.backend.compiling import CallList, Program, RunsWhole, Sites
from pyrite.backend.fusion.reproduction import write_reproduction
from pyrite.backend.fusion.tolerance import Expectation, expected
from pyrite.backend.graph import Graph
from pyrite.backend.memory import ProgramMemory
from pyrite.backend.protocol import Backend
from pyrite.config import Check
from pyrite.errors import DeviceError, IndexRangeError
from pyrite.op import Handle, user_frame
from pyrite.types import Array

#: The most lines that a warning names.
MOST_LINES = 5


class QuarantineWarning(UserWarning):
    """A fused program gave other results than its ops do, and is not used any more."""


class CheckedProgram(RunsWhole):
    """A program, and the ops that it stands for; see `pyrite.backend.compiling.Program`."""

    def __init__(self, backend: Backend, graph: Graph, program: Program, check: Check) -> None:
        self._backend = backend
        self._graph = graph
        self._program: Program = program
        self._check = check
        self._lock = Lock()
        #: Whether it gave other results, and so runs as its ops.
        self.is_quarantined = False
        self._is_trusted = False

    @property
    def launches(self) -> int:
        """How many kernels, or ops of the backend, one run starts."""
        return self._program.launches

    @property
    def checked(self) -> frozenset[int]:
        """The nodes that may find an index outside."""
        return self._program.checked

    def memory(self, sites: Sites) -> ProgramMemory | None:
        """Return what a run takes beside its inputs; None where that is not known."""
        return self._program.memory(sites)

    def run(self, inputs: Sequence[Any], sites: Sites) -> Sequence[Handle]:
        """Return the results: the program's where they are right, or those of its ops."""
        if memory_limit() is not None and not (self._is_trusted or self.is_quarantined):
            raise DeviceError(
                "memory_budget requires programs that are not compared with their ops, which take "
                f"memory of their own, got fusion_check={self._check!r}; set it to 'off', or run "
                "the program once outside of the block"
            )
        results = self._program.run(inputs, sites)
        if self._is_trusted or self.is_quarantined:
            return results
        with self._lock:
            plain = self._compared(inputs, results, sites)
            self._is_trusted = plain is None and self._check == "first"
        return results if plain is None else plain

    def begin(self, inputs: Sequence[Any], sites: Sites) -> None:
        """Return None: the ops, which run behind the program, want the inputs as they were."""

    def _compared(
        self, inputs: Sequence[Any], results: Sequence[Handle], sites: Sites
    ) -> Sequence[Handle] | None:
        """Return the results of the ops where those of the program differ, None where none does."""
        plain = CallList(self._backend, self._graph)
        alone = plain.run(inputs, sites)
        found, wanted = _read(self._backend, results), _read(self._backend, alone)
        if found is None or wanted is None:
            # An index outside: an error at the read, of both.
            return None if (found is None) is (wanted is None) else self._quarantined(
                "an index outside is found by one of them alone", inputs, found, wanted, sites,
                alone, plain,
            )  # fmt: skip
        for n, what in enumerate(expected(self._backend, self._graph, inputs, wanted)):
            difference = _difference(what, found[n])
            if difference is not None:
                message = f"result {n} of {len(found)}, {self._graph.out[n]}, {difference}"
                return self._quarantined(message, inputs, found, wanted, sites, alone, plain)
        return None

    def _quarantined(
        self, message: str, inputs: Sequence[Any], found: Sequence[Array] | None,
        wanted: Sequence[Array] | None, sites: Sites, alone: Sequence[Handle], plain: CallList,
    ) -> Sequence[Handle]:  # fmt: skip
        self.is_quarantined = True
        self._program = plain
        where = write_reproduction(self._backend, self._graph, inputs, found, wanted)
        lines = dict.fromkeys(sites[n] for n in range(len(self._graph.nodes)) if n in sites)
        of = ", ".join([*lines][-MOST_LINES:])
        frame = user_frame()
        warnings.warn_explicit(
            f"Fusion requires a program to give what its ops give, got another one on "
            f"{self._backend.name}: {message}, for {of or 'lines that are not known'}; it runs as "
            f"its ops from now on; report it with {where}",
            QuarantineWarning,
            frame.f_code.co_filename,
            frame.f_lineno,
        )
        return alone


def _read(backend: Backend, handles: Sequence[Handle]) -> list[Array] | None:
    """Return values; None where an index outside makes them wrong."""
    try:
        return backend.download_all(handles)
    except IndexRangeError:
        return None


def _difference(what: Expectation, found: Array) -> str | None:
    """Return in what an array is not as expected."""
    wrong = what.wrong(found)
    count = int(wrong.sum())
    if not count:
        return None
    at = tuple([int(i) for i in np.unravel_index(int(wrong.argmax()), wrong.shape)])
    return f"has {count} of {found.size} elements wrong: at {at} {found[at]}, not {what.plain[at]}"
