"""The first launches of a program, made while the last of its calls are still recorded.

A step of training is recorded, then runs: whoever computes has nothing to do meanwhile, which on
two processors is a tenth of the step of a small network.  So where calls went on the same way each
time, launches that need no more than the first of them are made when these are recorded.  If the
calls go on otherwise this time, what was made is let go of, and nobody has seen it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any, Final, Protocol

from pyrite.backend.budget import memory_limit
from pyrite.backend.compiling import RunAgain, Sites
from pyrite.backend.cube.argument import number_of
from pyrite.backend.cube.fault import Doubt
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.program_doubts import Checked, checked
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.backend.explanation import listeners
from pyrite.errors import OutOfMemoryError
from pyrite.op import Constant
from pyrite.runtime.protocol import Bundle

#: Of less work, in bytes, a program waits for all of its calls.
LEAST_WORK: Final = 1 << 22
#: As long as so much takes what surrounds a call, in a step of training: there is to be work until
#: the last one is recorded.
OF_A_CALL: Final = 1 << 19


class LaunchesAgain(Protocol):
    """Launches that are made again in less time: `NativeLaunches`."""

    def found(self, inputs: Sequence[Any], numbers: Sequence[Constant]) -> Any:
        """Return the operands; None where anything is otherwise."""
        ...

    def begin(
        self, found: Any, launcher: Launcher, run: Callable[[Callable[[list[Any]], None]], None]
    ) -> list[Any] | None:
        """Have them made by ``run``; return the buffers for it, None without memory."""
        ...


class Startable(Checked, Protocol):
    """What of a program is needed here: `CubeProgram`."""

    @property
    def tensors(self) -> int:
        """How many of the inputs are tensors: the first ones."""
        ...

    def results(
        self, operands: list[Any], inputs: Sequence[Any], doubts: Sequence[Doubt], sites: Sites
    ) -> Sequence[CubeTensor]:
        """Return what was made, with the doubts of inputs and of checked launches."""
        ...


@dataclass(slots=True, eq=False)
class HeadStart:
    """Launches that need no more than the calls up to the one at a place, and all others.

    ``tensors`` and ``numbers`` say how many are known then.
    """

    place: int
    program: Startable
    #: Of each fault the launch; and how many launches come first.
    checked: tuple[int, ...]
    launches: int
    head: Bundle
    rest: Bundle
    tensors: int
    numbers: int
    #: What makes the first launches again in less time, once they were made.
    _again: LaunchesAgain | None = field(default=None, init=False)
    _is_tried: bool = field(default=False, init=False)

    def run(
        self, inputs: Sequence[Any], numbers: Sequence[Constant], sites: Sites
    ) -> StartedRun | None:
        """Make the first launches, on the inputs and numbers that are known.

        None where all is to be looked at as a whole: by `explain`, and by a budget.
        """
        if listeners or memory_limit() is not None:
            return None
        program = self.program
        recording, launcher = program.recording, program.launcher
        operands: list[Any] = [i.buffer for i in inputs]
        operands += [None] * (program.tensors - len(operands))
        try:
            buffers = recording.make(launcher, operands)
        except OutOfMemoryError:
            return None
        known = len(numbers)
        for position, dtype in recording.arguments:
            n = position - program.tensors
            operands.append(number_of(numbers[n], dtype) if n < known else None)
        operands += [None] * (2 * len(recording.faults))
        run = StartedRun(self, buffers, operands)
        run.launch(self.head, self.early, sites)
        self._note(inputs, numbers)
        return run

    def run_known(
        self, inputs: Sequence[Any], numbers: Sequence[Constant], sites: Sites
    ) -> StartedRun | None:
        """Do what `run` does where that ran for such inputs; None, and nothing is done, else."""
        again, launcher = self._again, self.program.launcher
        found = None if again is None else again.found(inputs, numbers)
        if again is None or found is None:
            return None
        run = StartedRun(self, [])
        buffers = again.begin(found, launcher, partial(run.check, self.early, sites))
        if buffers is None:
            return None
        run.buffers = buffers
        return run

    def _note(self, inputs: Sequence[Any], numbers: Sequence[Constant]) -> None:
        """Have the next run take less time, where that can be."""
        if self._is_tried:
            return
        self._is_tried = True
        program = self.program
        self._again = program.launcher.launches_again(
            program.recording, program.tensors, inputs[: self.tensors], numbers[: self.numbers],
            [self.head],
        )  # fmt: skip

    @property
    def early(self) -> list[int]:
        """The faults of the first launches."""
        return [n for n, k in enumerate(self.checked) if k < self.launches]

    @property
    def late(self) -> list[int]:
        """The faults of the other launches."""
        return [n for n, k in enumerate(self.checked) if k >= self.launches]

    def run_again(self, inputs: Sequence[Any], numbers: Sequence[Constant]) -> RunAgain | None:
        """Return what makes the other launches in less time; see `pyrite.backend.compiling`."""
        return self.program.launcher.run_again(self.program, inputs, numbers, self.rest)


class StartedRun:
    """A run of which the first launches are made.  It holds buffers, and no tensor.

    ``buffers`` are those that were made for it.
    """

    __slots__ = ("_doubts", "_operands", "begun", "buffers")

    def __init__(
        self, begun: HeadStart, buffers: list[Any], operands: list[Any] | None = None
    ) -> None:
        self.begun = begun
        self.buffers = buffers
        self._operands = operands
        #: By the numbers of faults: each is one of a launch that is made.
        self._doubts: dict[int, Doubt] = {}

    @property
    def doubts(self) -> list[Doubt]:
        """Those of all faults, once all launches are made."""
        return [self._doubts[n] for n in range(len(self.begun.program.recording.faults))]

    def launch(self, bundle: Bundle, faults: Sequence[int], sites: Sites) -> None:
        """Make launches, of which so many may find an index outside."""
        operands = self._operands
        assert operands is not None
        first = len(operands) - 2 * len(self.begun.program.recording.faults)

        def run(words: list[Any]) -> None:
            for n, word in enumerate(words):
                if word is not None:
                    operands[first + n] = word
            bundle.launch(operands)

        self.check(faults, sites, run)

    def check(self, faults: Sequence[int], sites: Sites, run: Callable[[list[Any]], None]) -> None:
        """Have launches made that may find an index outside: so many.

        ``run`` is given a word and a number for each fault, None where it is not theirs.
        """
        program = self.begun.program
        placed: list[Any] = [None] * (2 * len(program.recording.faults))

        def launch(words: list[Any]) -> None:
            for k, n in enumerate(faults):
                placed[2 * n : 2 * n + 2] = words[2 * k : 2 * k + 2]
            run(placed)

        doubts = checked(program, faults, sites, launch)
        self._doubts.update(zip(faults, doubts, strict=True))

    def go_on(self, sites: Sites, run: Callable[[list[Any]], None]) -> None:
        """Have the other launches made, as `check` does."""
        self.check(self.begun.late, sites, run)

    def finish(self, inputs: Sequence[Any], sites: Sites) -> Sequence[CubeTensor] | None:
        """Make the other launches, and return the results: all inputs are known now.

        None where all is to be looked at as a whole.
        """
        if listeners or memory_limit() is not None:
            return None
        program = self.begun.program
        recording, tensors = program.recording, program.tensors
        operands = self._operands
        if operands is None:
            operands = self._operands = [None] * tensors
            recording.place(self.buffers, operands)
            operands += [None] * (len(recording.arguments) + 2 * len(recording.faults))
        operands[:tensors] = [i.buffer for i in inputs[:tensors]]
        # Numbers lie behind the buffers, before words and numbers of faults.
        first = len(operands) - len(recording.arguments) - 2 * len(recording.faults)
        for n, (position, dtype) in enumerate(recording.arguments, first):
            operands[n] = number_of(inputs[position], dtype)
        self.launch(self.begun.rest, self.begun.late, sites)
        return program.results(operands, inputs, self.doubts, sites)


def head_start(
    program: Startable, parts: Sequence[Sequence[int]], work: Sequence[int],
    faulty: Sequence[int], known: Sequence[tuple[int, int]], after: int,
) -> HeadStart | None:  # fmt: skip
    """Return the first one behind a call that is worth it; None where there is none.

    ``parts`` are the calls that each launch computes, ``work`` what it takes, ``faulty`` the
    launches that may find an index outside.  ``known`` says of each call how many tensors and
    numbers are known.
    """
    steps = program.recording.steps
    needed = [*accumulate((max(part, default=0) for part in parts), max)]
    done = [*accumulate(work)]
    if not done or done[-1] < LEAST_WORK:
        return None
    for place in dict.fromkeys(needed):
        launches = sum(n <= place for n in needed)
        if launches == len(steps):
            return None
        left = len(known) - 1 - place
        is_enough = done[launches - 1] >= left * OF_A_CALL
        if place > after and is_enough and _are_known(program, launches, known[place]):
            bundle = program.launcher.runtime.bundle
            head, rest = bundle(steps[:launches]), bundle(steps[launches:])
            return HeadStart(place, program, tuple(faulty), launches, head, rest, *known[place])
    return None


def _are_known(program: Startable, launches: int, known: tuple[int, int]) -> bool:
    """Whether the first launches take only inputs that are known: so many tensors and numbers."""
    recording, (tensors, numbers) = program.recording, known
    first = program.tensors + len(recording.sizes) + len(recording.parts)
    late = {n for n in range(program.tensors) if n >= tensors}
    late.update(
        n for n, (position, _) in enumerate(recording.arguments, first)
        if position >= program.tensors + numbers
    )  # fmt: skip
    return late.isdisjoint(b for step in recording.steps[:launches] for b in step.bindings)
