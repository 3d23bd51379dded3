"""Recordings: what a lowering does, noted once and done again for every call of the same types.

What a lowering asks for becomes a `Recording`: the buffers to make, the launches, and how the
results lie in the buffers.  A call is then a look-up, the allocations, and the launches, whatever
the op.  How it is noted stands in `recording_launcher`.

A recording holds compiled kernels and no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from pyrite.backend.cube.argument import number_of
from pyrite.backend.cube.block import Use
from pyrite.backend.cube.fault import AnyDoubt, joined
from pyrite.backend.cube.inventory import note_origin
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.layout import Strides, is_row_major, layout_key
from pyrite.backend.cube.placement import Part
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.backend.explanation import listeners, told
from pyrite.backend.explanation.launched import Description, takers
from pyrite.backend.memory import ProgramOrigin
from pyrite.columns import Maker, chooser, shared
from pyrite.op import user_location
from pyrite.runtime.protocol import Buffer, Bundle, BundledLaunch, BundleMemory
from pyrite.types import DType, Number, TensorType

#: Recordings that a backend holds at least.
RECORDINGS = 4096
#: Callers of who notes a line that are Pyrite's: two of a recording, `CubeBackend.execute`, and who
#: asks for that.
_CALLERS = 4

_new = object.__new__
_tensors = Maker(CubeTensor, "buffer", "type", "strides", "offset", "doubt", "layout")


@dataclass(frozen=True, slots=True)
class Made:
    """A buffer that a run makes: when it is in use, as what, and whether a result lies there."""

    use: Use
    type: TensorType | None
    is_result: bool


@dataclass(frozen=True, slots=True)
class Recording:
    """One lowering for inputs of some types and layouts.

    Operands are the buffers of the inputs, those of ``memory``, which have ``sizes``, ``parts`` of
    these and of one ``block``, the inputs' numbers ``arguments``, by position and dtype, numbers
    that kernels of an application are given, and for each of ``faults`` an error word and a number.
    ``results`` are made of the buffer of an operand, type, strides and offset, and are in doubt as
    the inputs are.  ``name`` is an op's.
    """

    sizes: tuple[int, ...]
    memory: BundleMemory
    block: int
    parts: tuple[Part, ...]
    faults: tuple[str, ...]
    arguments: tuple[tuple[int, DType], ...]
    bundle: Bundle | None
    steps: tuple[BundledLaunch, ...]
    results: tuple[tuple[int, TensorType, Strides, int], ...]
    #: What is made in a run, results included.
    made: tuple[Made, ...]
    name: str = ""
    #: The operands that are new results, with their types; and those of them that are large.
    new: tuple[tuple[int, TensorType], ...] = ()
    large: tuple[tuple[int, TensorType], ...] = ()
    #: The operands of inputs that launches from ``split`` on write over, with their bytes: then
    #: ``bundle`` has those before, and ``tail`` these.
    donated: tuple[tuple[int, int], ...] = ()
    split: int = 0
    tail: Bundle | None = None
    #: The operands that launches of ``tail`` touch.
    late: frozenset[int] = frozenset()
    #: Whether a buffer holds several results.
    shares_rooms: bool = False
    #: Whether a kernel would be faster with sizes built in.
    is_general: bool = False
    #: The one result, with the key of its layout, of a plain recording: that has no more to do than
    #: buffers, numbers, launches, and this.
    only: tuple[int, TensorType, Strides, int, int] | None = field(init=False)
    #: Whether a plain one has numbers, or a large result.
    has_more: bool = field(init=False)
    #: The results in the order of the buffers that are made, where each of these is all of one.
    whole: tuple[int, ...] | None = field(init=False)
    #: The keys of the results' layouts; the positions of numbers side by side of one dtype.
    layouts: tuple[int, ...] = field(init=False)
    #: The results' operands, types, strides and offsets, each by itself.
    result_columns: tuple[tuple[Any, ...], ...] = field(init=False)
    #: What takes the results' buffers out of the operands.
    choose_results: Callable[[Any], Sequence[Any]] = field(init=False, compare=False)
    #: Of which buffer each part is, its offset, and its bytes.
    part_columns: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] = field(init=False)
    numbers: tuple[tuple[DType, tuple[int, ...]], ...] = field(init=False)

    def __post_init__(self) -> None:
        numbers = tuple([
            (dtype, tuple([position for position, _ in group]))
            for dtype, group in groupby(self.arguments, lambda argument: argument[1])
        ])  # fmt: skip
        object.__setattr__(self, "numbers", numbers)
        keys = [layout_key(strides, offset) for _, _, strides, offset in self.results]
        layouts = tuple(shared(keys))
        object.__setattr__(self, "layouts", layouts)
        columns = _columns(self.results) or ((),) * 4
        object.__setattr__(self, "result_columns", columns)
        object.__setattr__(self, "choose_results", chooser(columns[0]))
        parts = _columns([(p.buffer, p.offset, p.nbytes) for p in self.parts])
        object.__setattr__(self, "part_columns", parts or ((),) * 3)
        only = None
        if len(self.results) == 1 and not self.parts and not self.faults:
            ((at, of, strides, offset),) = self.results
            only = (at, of, strides, offset, *layouts)
        object.__setattr__(self, "only", only)
        object.__setattr__(self, "has_more", bool(self.large or self.arguments))
        object.__setattr__(self, "whole", self._whole())

    def _whole(self) -> tuple[int, ...] | None:
        if len(self.results) != len(self.sizes) or self.parts or self.large or self.donated:
            return None
        order = sorted(range(len(self.sizes)), key=lambda n: self.results[n][0])
        for at, (n, nbytes) in enumerate(zip(order, self.sizes, strict=True)):
            place, of, strides, offset = self.results[n]
            is_whole = of.nbytes == nbytes and is_row_major(of.shape, strides) and not offset
            if not is_whole or place != self.results[order[0]][0] + at:
                return None
        return tuple(order)

    @property
    def head(self) -> tuple[BundledLaunch, ...]:
        """The launches of ``bundle``."""
        return self.steps if self.tail is None else self.steps[: self.split]

    @property
    def planned(self) -> int:
        """The bytes that a run takes beside its inputs."""
        return sum(self.sizes) + self.block

    def replay(
        self, launcher: Launcher, inputs: Sequence[Any], given: Sequence[Number] = ()
    ) -> Sequence[CubeTensor]:
        """Make the launches for inputs, and numbers given beside them; return the results."""
        operands, doubt = operands_of(inputs)
        return self.run(launcher, inputs, operands, doubt, given)

    def run(
        self,
        launcher: Launcher,
        inputs: Sequence[Any],
        operands: list[Any],
        doubt: AnyDoubt | None,
        given: Sequence[Number] = (),
    ) -> Sequence[CubeTensor]:
        """Do what `replay` does, given the inputs' buffers, and what these are in doubt of."""
        only = self.only
        if only is not None and not listeners:
            if self.sizes:
                operands += self.memory.buffers()
            if self.has_more:
                self._put_more(inputs, operands)
            if self.bundle is not None:
                if given:
                    operands += given
                self.bundle.launch(operands)
            # As by ``CubeTensor(...)``, in half the time.
            made = _new(CubeTensor)
            at, made.type, made.strides, made.offset, made.layout = only
            made.buffer = operands[at]
            made.doubt = doubt
            return (made,)
        return self._run_all(launcher, inputs, operands, doubt, given)

    def run_into(
        self,
        launcher: Launcher,
        inputs: Sequence[Any],
        targets: Sequence[CubeTensor],
        given: Sequence[Number] = (),
    ) -> Sequence[CubeTensor] | None:
        """Do what `replay` does with results in memory that is there: whole, in row-major order.

        None, and nothing is done, where more is made than such results, and where a processor
        might take it for memory of its own, which large results begin a cache line of.
        """
        operands, doubt = operands_of(inputs)
        if self.whole is None or listeners:
            return None
        operands += [targets[n].buffer for n in self.whole]
        for position, dtype in self.arguments:
            operands.append(number_of(inputs[position], dtype))
        operands += given
        if self.bundle is not None:
            if self.faults:
                doubt = joined(
                    doubt, launcher.faults.launch(self.faults, operands, self.bundle.launch)
                )
            else:
                self.bundle.launch(operands)
        return [CubeTensor(t.buffer, t.type, t.strides, 0, doubt) for t in targets]

    def _put_more(self, inputs: Sequence[Any], operands: list[Any]) -> None:
        """Note the line of a large result, and put the inputs' numbers behind the buffers."""
        for at, of in self.large:
            note_origin(operands[at], of, known=_CALLERS)
        for position, dtype in self.arguments:
            operands.append(number_of(inputs[position], dtype))

    def _run_all(
        self,
        launcher: Launcher,
        inputs: Sequence[Any],
        operands: list[Any],
        doubt: AnyDoubt | None,
        given: Sequence[Number],
    ) -> Sequence[CubeTensor]:
        """Do what `run` does where there is more to do."""
        bundle = self.prepare(launcher, inputs, operands)
        operands += given
        for at, of in self.new if listeners else self.large:
            note_origin(operands[at], of)
        if bundle is not None:
            run = told(launcher.runtime, self.steps, self._describe) if listeners else bundle.launch
            if self.faults:
                doubt = joined(doubt, launcher.faults.launch(self.faults, operands, run))
            else:
                run(operands)
        return [
            CubeTensor(operands[at], of, strides, offset, doubt)
            for at, of, strides, offset in self.results
        ]

    def _describe(self, launch: int) -> Description:
        """Return which op a launch is for, and the line."""
        name = self.name or self.steps[launch].executable.kernel.name
        return Description((name,), (user_location(),), self.takers(launch))

    def takers(self, launch: int) -> tuple[str, ...]:
        """Return what takes the results of a launch."""
        return takers(self.steps, {at for at, *_ in self.results}, launch)

    def prepare(
        self, launcher: Launcher, inputs: Sequence[Any], operands: list[Any]
    ) -> Bundle | None:
        """Put what there is to make and the numbers behind the inputs' buffers; return the bundle.

        What it wants besides is a word and a number for each of ``faults``.
        """
        self.make(launcher, operands)
        if self.steps:
            # A step of training gives one number to many.
            for dtype, positions in self.numbers:
                given = [inputs[position] for position in positions]
                known = {x: number_of(x, dtype) for x in dict.fromkeys(given)}
                operands += [known[x] for x in given]
        return self.bundle

    def tensors(
        self, operands: Sequence[Any], doubts: Sequence[AnyDoubt | None]
    ) -> list[CubeTensor]:
        """Return the results, which lie in operands, each with its doubt."""
        return self.tensors_of(self.choose_results(operands), doubts)

    def tensors_of(
        self, held: Sequence[Buffer], doubts: Sequence[AnyDoubt | None]
    ) -> list[CubeTensor]:
        """Return the results, given the buffer of each."""
        _, types, strides, offsets = self.result_columns
        return tensors_in(held, doubts, types, strides, offsets, self.layouts)

    def block_of(self, launcher: Launcher) -> list[Buffer]:
        """Return the block of a run, if it has one."""
        if not self.block:
            return []
        block = launcher.runtime.allocate(self.block)
        block.owner.origin = ProgramOrigin(len(self.steps))
        return [block]

    def make(self, launcher: Launcher, operands: list[Any]) -> list[Buffer]:
        """Put what there is to make behind the inputs' buffers; return buffers and block."""
        buffers = self.memory.buffers(are_new=bool(listeners))
        if self.block:
            buffers = [*buffers, *self.block_of(launcher)]
        self.place(buffers, operands)
        return buffers

    def place(self, buffers: list[Buffer], operands: list[Any]) -> None:
        """Put buffers that were made, and their parts, behind the inputs' buffers."""
        operands += buffers[: len(self.sizes)]
        if self.parts:
            operands += self.memory.parts(buffers, *self.part_columns)


def tensors_in(
    held: Sequence[Buffer], doubts: Sequence[AnyDoubt | None], types: Sequence[TensorType],
    strides: Sequence[Strides], offsets: Sequence[int], layouts: Sequence[int],
) -> list[CubeTensor]:  # fmt: skip
    """Return tensors that lie so in buffers, with the keys of their layouts."""
    return _tensors.many(len(held), held, types, strides, offsets, [*doubts], layouts)


def _columns(rows: Sequence[tuple[Any, ...]]) -> tuple[tuple[Any, ...], ...]:
    """Return columns of rows, in which what is equal is one object: a run waits for fewer."""
    return tuple([tuple(shared(column)) for column in zip(*rows, strict=True)])


def operands_of(inputs: Sequence[Any]) -> tuple[list[Any], AnyDoubt | None]:
    """Return the buffers of inputs, and what these are in doubt of."""
    operands: list[Any] = []
    doubt: AnyDoubt | None = None
    for i in inputs:
        if i.__class__ is CubeTensor:
            operands.append(i.buffer)
            its = i.doubt
            if its is not doubt and its is not None:
                doubt = joined(doubt, its)
    return operands, doubt


class Expansion:
    """What a call of a composite does that has no kernels of its own: its body is run."""

    def run(
        self,
        launcher: Launcher,
        inputs: Sequence[Any],
        operands: list[Any],
        doubt: AnyDoubt | None,
    ) -> None:
        """Return None: the composite is to be expanded."""
        return


EXPANSION = Expansion()
