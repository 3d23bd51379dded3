"""A program that writes over inputs, run again by machine code; see program_run.py, native_run.py.

What comes before the first such write is made when it begins.  The rest waits until who gave the
inputs has let go of them; what somebody else still holds then is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyrite.backend.compiling import Sites
from pyrite.backend.cube.fault import AnyDoubt, Doubt
from pyrite.backend.cube.native_run import Found, NativeLaunches, Repeatable, ResultBuffers
from pyrite.backend.cube.native_run import native_launches as launches_of
from pyrite.backend.cube.program_doubts import checked
from pyrite.backend.cube.recording import Recording, tensors_in
from pyrite.backend.cube.tensor import BUFFERS, CubeTensor
from pyrite.columns import chooser
from pyrite.op import Constant
from pyrite.runtime.cpu.memory import alone
from pyrite.runtime.interruption import Uninterrupted

#: The bytes of a value.
WORD = 8


class NativeBegin:
    """A run of a program up to its first write over an input, for inputs that lie as some did."""

    def __init__(self, program: Repeatable, launches: NativeLaunches, tensors: int) -> None:
        self.program, self.launches = program, launches
        recording = program.recording
        operands = recording.result_columns[0]
        late = [at in recording.late for at in operands]
        self.early = _Results(recording, tensors, [n for n, it in enumerate(late) if not it])
        self.late = _Results(recording, tensors, [n for n, it in enumerate(late) if it])
        #: The inputs that are written over, and their bytes.
        self.donated = recording.donated
        self._faults = range(len(recording.faults))
        #: What is known of doubts in these places.
        self._doubt_groups: dict[Any, Any] = {}

    def begin(
        self, inputs: Sequence[CubeTensor], numbers: Sequence[Constant], sites: Sites
    ) -> NativeBegun | None:
        """Return the run; see `pyrite.backend.compiling.BeginAgain`."""
        program, launches = self.program, self.launches
        found = launches.found(inputs, numbers)
        if found is None:
            return None
        words: list[Any] = []
        doubts: Sequence[Doubt] = ()

        def run(launch: Callable[[list[Any]], None]) -> None:
            def noted(given: list[Any]) -> None:
                words.extend(given)
                launch(given)

            nonlocal doubts
            doubts = checked(program, self._faults, sites, noted)

        buffers = launches.begin(found, program.launcher, run)
        if buffers is None:
            return None
        of = program.doubts
        if inputs and not found.doubts:
            all_doubts = of.of(inputs, doubts)
        else:
            places, groups = launches.doubt_places, self._doubt_groups
            all_doubts = of.of_distinct(found.doubts, places, doubts, groups)
        begun = NativeBegun(self, found, BUFFERS.read(inputs), buffers, words, all_doubts)
        if program.recording.large:
            self.note_large(begun, sites)
        return begun

    def note_large(self, begun: NativeBegun, sites: Sites) -> None:
        """Note what made large results that are no input's memory."""
        recording = self.program.recording
        held: list[Any] = [None] * len(recording.results)
        for results in (self.early, self.late):
            for n, buffer in zip(results.which, begun.buffers_of(results), strict=True):
                held[n] = buffer
        self.program.note_large(held, sites)


class _Results:
    """Some results of a program: which, and how they lie in which buffers."""

    def __init__(self, recording: Recording, tensors: int, which: Sequence[int]) -> None:
        self.which = which
        self.buffers = ResultBuffers(recording, tensors, which)
        self.choose = chooser(which)
        _, *columns = recording.result_columns
        self._columns = [self.choose(column) for column in (*columns, recording.layouts)]

    def tensors(
        self, held: Sequence[Any], doubts: Sequence[AnyDoubt | None]
    ) -> Sequence[CubeTensor]:
        """Return the results, given their buffers, and the doubts of all results."""
        return tensors_in(held, self.choose(doubts), *self._columns)


class NativeBegun:
    """A run that has begun.  It holds buffers, and none of the tensors that were given."""

    def __init__(
        self, begin: NativeBegin, found: Found, inputs: list[Any], buffers: list[Any],
        words: Sequence[Any], doubts: Sequence[AnyDoubt | None],
    ) -> None:  # fmt: skip
        self._begin, self._found = begin, found
        #: The inputs' buffers, but for those that are written over: only one list has these.
        self._donated = [inputs[at] for at, _ in begin.donated]
        self._inputs = inputs
        for at, _ in begin.donated:
            inputs[at] = None
        self._place = {at: n for n, (at, _) in enumerate(begin.donated)}
        self._buffers, self._words, self._doubts = buffers, words, doubts
        self._values = bytearray(found.values)
        self._is_done = False

    def buffers_of(self, results: _Results) -> Sequence[Any]:
        """Return the buffers of some results."""
        place = self._place
        held = [
            self._donated[place[at]] if at in place else self._inputs[at]
            for at in results.buffers.inputs
        ]
        return results.buffers.of(held, self._buffers)

    @property
    def results(self) -> list[CubeTensor | None]:
        """What is made so far, None where it is not."""
        return self._with(self._begin.early)

    def _with(self, results: _Results) -> list[CubeTensor | None]:
        found: list[CubeTensor | None] = [None] * len(self._doubts)
        made = results.tensors(self.buffers_of(results), self._doubts)
        for n, tensor in zip(results.which, made, strict=True):
            found[n] = tensor
        return found

    def finish(self) -> list[Any]:
        """Do the rest; return what is made by it.  What raises has written over nothing."""
        if not self._is_done:
            self._own()
            self._launch_tail()
        return self._with(self._begin.late)

    def _launch_tail(self) -> None:
        found = self._found._replace(values=bytes(self._values))
        # Done twice it would update what is updated.
        with Uninterrupted():
            self._begin.launches.launch(found, self._buffers, self._words, 1)
            self._is_done = True

    def _own(self) -> None:
        """Have what is written over be memory that nobody else holds."""
        runtime, donated = self._begin.program.launcher.runtime, self._donated
        are_alone = alone(donated)
        for n, (at, nbytes) in enumerate(self._begin.donated):
            if not are_alone[n]:
                copy: Any = runtime.allocate(nbytes)
                runtime.copy(donated[n], copy)
                donated[n] = copy
                self._values[WORD * at : WORD * (at + 1)] = copy.address.to_bytes(WORD, "little")


def native_begin(
    program: Repeatable, inputs: Sequence[Any], numbers: Sequence[Constant]
) -> NativeBegin | None:
    """Return a run of a program that ran for such inputs; None where machine code cannot run it."""
    recording = program.recording
    if recording.tail is None:
        return None
    bundles = [recording.bundle, recording.tail]
    launches = launches_of(recording, len(inputs), inputs, numbers, bundles, asks_doubts=True)
    return None if launches is None else NativeBegin(program, launches, len(inputs))
