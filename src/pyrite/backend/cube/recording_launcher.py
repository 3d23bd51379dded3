"""How a lowering is recorded.

A lowering is run on `Slot`s and `Unknown`s in place of buffers and numbers, by a
`RecordingLauncher` in place of the launcher: so what it does cannot depend on them, only on the op,
its attributes, and the types, strides and offsets of its inputs, which are the key.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple, TypeVar

from pyrite.backend.cube.ahead import Job, breathe
from pyrite.backend.cube.argument import number_of, with_arguments
from pyrite.backend.cube.guard import GuardedBundle, guarding
from pyrite.backend.cube.joined_launch import joined_launch
from pyrite.backend.cube.launch_groups import launch_groups
from pyrite.backend.cube.launch_schedule import NotedProgram, Occurrence
from pyrite.backend.cube.launcher import Foresee, Given, Launcher, Resizings, Steps
from pyrite.backend.cube.noted_launch import NotedLaunch, effect_of
from pyrite.backend.cube.placement import SMALL, Part
from pyrite.backend.cube.recorded_memory import (
    RecordedMemory,
    RecordedSlots,
    is_overwritten,
    with_likes,
)
from pyrite.backend.cube.recording import Made, Recording
from pyrite.backend.cube.slot import FaultOperand, GivenOperand, NumberOperand, Slot, Unknown
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.backend.memory import LARGE, LARGE_ON_GPU
from pyrite.kernel import Kernel
from pyrite.kernel.extent import all_extents
from pyrite.op import Constant
from pyrite.runtime.protocol import Buffer, Bundle, BundledLaunch, Fixed
from pyrite.types import DType, TensorType

P = TypeVar("P", bound=Hashable)

#: Numbers that are operands.
_OPERANDS = frozenset((NumberOperand, GivenOperand, FaultOperand))
#: In the place of a number that each step has another of.
_STEP = object()


class Kept(NamedTuple):
    """What an op's calls at other sizes have as the first one has it.

    They are sizes of a model, which kernels have built in, and inputs, by position, of one shape.
    What shapes some inputs may have together is said beside these where a lowering knows it.
    """

    sizes: frozenset[int] = frozenset()
    inputs: frozenset[int] = frozenset()
    resized: tuple[int, ...] = ()
    resizings: Resizings | None = None


class RecordingLauncher(Launcher):
    """A launcher that launches nothing: it notes what one lowering asks for."""

    def __init__(self, launcher: Launcher, inputs: Sequence[Any]) -> None:
        # Not the base's: kernels and faults are the launcher's own.
        self._launcher = launcher
        self.runtime, self.machine = launcher.runtime, launcher.machine
        self._slots: list[Slot] = []
        self._launches: list[NotedLaunch] = []
        self._faults: list[str] = []
        #: Of each fault its launch.
        self.launches_of_faults: list[int] = []
        #: What the lowering gets in place of the inputs.
        self.inputs = [self._unknown(position, i) for position, i in enumerate(inputs)]
        self._given = len(self._slots)
        #: Inputs, by slot, whose memory results may take: of the bytes that they have.
        self.donated: dict[int, int] = {}
        #: Whether results may share buffers, which lie idle when some of them are let go.
        self._shares_rooms = True
        #: Whether it notes a call of one op, for whose memory nobody waits long.
        self.is_of_one_op = False
        #: Whether kernels may have the sizes of these inputs built in, as those that come first.
        self.comes_first = True
        #: Whether a kernel would be faster with sizes of these inputs built in.
        self.is_general = False
        #: Of launches of an application's kernels what gives them numbers, and how many these are.
        self.given: list[Given] = []
        self._given_numbers = 0
        self._kept_sizes: set[int] = set()
        self._kept_inputs: set[int] = set()
        self._noted_resizings: tuple[tuple[int, ...], Resizings | None] = ((), None)

    def _unknown(self, position: int, x: Any) -> Any:
        if isinstance(x, CubeTensor):
            return CubeTensor(self.allocate(0), x.type, x.strides, x.offset)
        if isinstance(x, Constant) and not x.type.dtype.is_bool:
            return Unknown(position, x.type)
        return x

    @property
    def base(self) -> Launcher:
        """The launcher that has the kernels."""
        return self._launcher

    def allocate(self, nbytes: int) -> Any:
        """Return a slot."""
        slot = Slot(len(self._slots), nbytes)
        self._slots.append(slot)
        return slot

    def empty(self, type: TensorType) -> CubeTensor:
        """Return a dense tensor in a slot, which knows its type."""
        made = super().empty(type)
        made.buffer.type = type  # type: ignore[attr-defined]
        return made

    def number(self, constant: Constant, dtype: DType) -> Any:
        """Return a number, or the argument that will be one."""
        if isinstance(constant, Unknown):
            return NumberOperand(constant.position, dtype)
        return number_of(constant, dtype)

    def executable(self, key: Hashable, build: Callable[[int], Kernel], axes: int) -> Any:
        """Return the kernel of a key, compiled."""
        return self._launcher.executable(key, build, axes)

    @property
    def noted(self) -> Sequence[NotedLaunch]:
        """The launches so far."""
        return self._launches

    @property
    def inputs_slots(self) -> int:
        """How many slots are inputs'; those that are made come behind these."""
        return self._given

    @property
    def slots_made(self) -> Sequence[Slot]:
        """The slots that are no inputs'."""
        return self._slots[self._given :]

    @property
    def faults_noted(self) -> Sequence[str]:
        """What launches may find outside."""
        return self._faults

    def number_of_slot(self, tensor: CubeTensor) -> int:
        """Return the number of the slot in which a tensor lies."""
        return self.slot(tensor).number

    def with_slots(self, made: Sequence[Slot]) -> list[Slot]:
        """Have it that these slots were made; return all."""
        self._slots += made
        return self._slots

    def resume(
        self, launches: list[NotedLaunch], faults: Sequence[str], launches_of_faults: Sequence[int]
    ) -> None:
        """Have it that these launches are noted, some of which may find an index outside."""
        self._launches = launches
        self._faults, self.launches_of_faults = [*faults], [*launches_of_faults]

    @property
    def launches(self) -> int:
        """How many launches are noted."""
        return len(self._launches)

    def launch(
        self, key: Hashable, build: Callable[[int], Kernel], bindings: Sequence[Any],
        workgroups: int, fault: str | None = None,
    ) -> None:  # fmt: skip
        """Note a launch."""
        breathe()
        grid = self.machine.grid(workgroups)
        executable = self.executable(key, build, len(grid))
        self._launches.append(NotedLaunch(executable, self._with_fault(bindings, fault), grid))

    def launch_for(
        self, problem: Hashable, key: Hashable, build: Callable[[Any, int], Kernel],
        bindings: Sequence[Any], workgroups: int, fault: str | None = None, *,
        knows_first: bool = False, writes_once: bool = False,
    ) -> None:  # fmt: skip
        """Note a launch of a kernel for problems of many extents."""
        breathe()
        grid = self.machine.grid(workgroups)
        member, extents = self._launcher.member(
            problem, key, build, len(grid), knows_first=knows_first and self.comes_first
        )
        all = member.bindings(self._with_fault(bindings, fault), extents)
        self._launches.append(NotedLaunch(member.executable, all, grid, writes_once=writes_once))

    def launch_steps(
        self, problem: Hashable, key: Hashable, build: Callable[[Any, int], Kernel],
        bindings: Sequence[Any], workgroups: int, steps: Steps,
    ) -> None:  # fmt: skip
        """Note a launch for each step."""
        breathe()
        grid = self.machine.grid(workgroups)
        member, extents = self._launcher.member(problem, key, build, len(grid))
        # All but the last two numbers is the same.
        all = member.bindings([*bindings, _STEP, _STEP], extents)
        at, other = [n for n, x in enumerate(all) if x is _STEP]
        noted = NotedLaunch(member.executable, all, grid)
        for n, (first, second) in enumerate(steps.pairs):
            if n:
                noted = noted.step({at: first, other: second})
            else:
                all[at], all[other] = first, second
            self._launches.append(noted)

    def compile_ahead(self, key: Hashable, job: Callable[[Launcher], Iterable[Job] | None]) -> None:
        """Have kernels compiled in a pause, by the launcher itself."""
        self._launcher.compile_ahead(key, job)

    def compile_other_class(self, foreseen: Callable[[], tuple[Hashable, Foresee]]) -> None:
        """Have it compiled by the launcher itself, where these sizes come first."""
        if self.comes_first:
            self._launcher.compile_ahead(*foreseen())

    def keep_sizes(self, *sizes: int) -> None:
        """Note sizes that kernels have built in."""
        self._kept_sizes.update(sizes)

    def keep_shape(self, x: CubeTensor) -> None:
        """Note an input that has one shape in all calls."""
        self._kept_inputs.update(n for n, i in enumerate(self.inputs) if i is x)

    @property
    def kept(self) -> Kept:
        """What calls at other sizes have as this one has it."""
        return Kept(
            frozenset(self._kept_sizes), frozenset(self._kept_inputs), *self._noted_resizings
        )

    def note_resizings(self, tensors: Sequence[CubeTensor], resizings: Resizings) -> None:
        """Note what shapes inputs may have together at other sizes."""
        places = [
            next((n for n, i in enumerate(self.inputs) if _is_same(i, x)), None) for x in tensors
        ]
        if None not in places:
            self._noted_resizings = (tuple(n for n in places if n is not None), resizings)

    def is_first(self, problem: Hashable) -> bool:
        """Whether the extents of a problem are those with which its pattern came first."""
        return self._launcher.is_first(problem)

    def builds_in(self, sizes: tuple[int, ...], problem: Hashable) -> bool:
        """Whether a kernel has sizes of a problem built in: as in `Launcher.builds_in`."""
        key = (sizes, all_extents(problem)[0])
        if self.comes_first:
            self._launcher.note_built_in(key)
            return True
        found = self._launcher.is_built_in(key)
        self.is_general = self.is_general or not found
        return found

    def first_of(self, problem: P) -> P:
        """Return the problem with the extents with which its pattern came first."""
        return self._launcher.first_of(problem)

    def run(
        self,
        executable: Any,
        bindings: Sequence[Any],
        grid: tuple[int, ...],
        faults: Sequence[str] = (),
        arguments: Sequence[tuple[int, Any]] = (),
        given: Given | None = None,
        counts: Buffer | None = None,
    ) -> None:
        """Note a launch of a kernel of an application: one word for all of its faults."""
        assert counts is None, "what the device counts is launched anew each time"
        all = [*bindings]
        for position, fault in enumerate(faults):
            word, number = self._with_fault((), fault)
            all += (number,) if position else (word, number)
        if given is not None:
            first = self._given_numbers
            arguments = [(at, GivenOperand(first + n)) for n, (at, _) in enumerate(arguments)]
            self._given_numbers += len(arguments)
            self.given.append(given)
        noted = NotedLaunch(executable, with_arguments(all, arguments), grid, is_ours=False)
        self._launches.append(noted)

    def _with_fault(self, bindings: Sequence[Any], fault: str | None) -> Sequence[Any]:
        if fault is None:
            return bindings
        self._faults.append(fault)
        self.launches_of_faults.append(len(self._launches))
        n = len(self._faults) - 1
        return [*bindings, FaultOperand(n, True), FaultOperand(n, False)]

    def join_launches(self, results: Sequence[CubeTensor]) -> list[list[int]]:
        """Make one launch of several where that is less; return of each which these were."""
        kept = [self.slot(r) for r in results]
        groups = launch_groups(self._launches, kept, self.machine)
        joined: list[NotedLaunch] = []
        for group in groups:
            breathe()
            joined.append(joined_launch(self._launcher, [self._launches[n] for n in group]))
        self._launches = joined
        places = {n: place for place, group in enumerate(groups) for n in group}
        self.launches_of_faults = [places[n] for n in self.launches_of_faults]
        return groups

    def again(
        self, calls: Sequence[Occurrence], stands_for: Mapping[int, int]
    ) -> RecordingLauncher:
        """Return a launcher that has noted some of the launches, some of them again.

        ``stands_for`` says of slots that are new of which one each is a copy.
        """
        found = copy(self)
        found._shares_rooms = not self.runtime.is_host
        slots = {slot.number: slot for slot in self._slots}
        for new, old in sorted(stands_for.items()):
            slots[new] = Slot(new, slots[old].nbytes)
            slots[new].type = slots[old].type
        found._slots = [slots[n] for n in range(len(slots))]
        found._launches = [self._launches[c.launch].on(c.names, slots) for c in calls]
        launches = [call.launch for call in calls]
        found.launches_of_faults = [launches.index(n) for n in self.launches_of_faults]
        return found

    def effects(self, work: Sequence[int], results: Sequence[CubeTensor]) -> NotedProgram:
        """Return what the launches do, given how long each takes."""
        return NotedProgram(
            [effect_of(launch, n) for launch, n in zip(self._launches, work, strict=True)],
            {slot.number: slot.nbytes for slot in self._slots},
            self._given,
            frozenset(self.slot(r).number for r in results),
            self.donated,
            frozenset(self.launches_of_faults),
            is_overwritten(self.runtime),
        )

    def memory(self, results: Sequence[CubeTensor]) -> RecordedMemory:
        """Return where the slots of what was noted lie, for a lowering that had these results."""
        return RecordedMemory(RecordedSlots(
            self.runtime, self._slots, self._given, self._launches,
            tuple([self.slot(r).number for r in results]), self.donated,
            # An index outside is looked for when the launches before the split are done.
            max(self.launches_of_faults, default=-1) + 1,
            frozenset([x.type for x in self.inputs if isinstance(x, CubeTensor)]),
            self._shares_rooms, SMALL if self.is_of_one_op else 0,
        ))  # fmt: skip

    def recording(self, results: Sequence[CubeTensor], name: str = "") -> Recording:
        """Return what was noted, for a lowering of an op that had these results."""
        if not self._launches and all(self.slot(r).number < self._given for r in results):
            return self._views(results, name)
        return self.recording_in(self.memory(results), results, name)

    def recording_in(
        self, memory: RecordedMemory, results: Sequence[CubeTensor], name: str
    ) -> Recording:
        """Return what was noted, in a memory that was found for these results."""
        placement, places, uses = memory.placement, memory.places, memory.uses
        standing = [memory.standing(self.slot(r).number) for r in results]
        new = {
            places[slot.number]: slot.type or r.type
            for r, slot in zip(results, standing, strict=True) if slot.number >= self._given
        }  # fmt: skip
        operands = self.operands_behind(memory)

        def place(binding: Any) -> int | Fixed:
            if binding.__class__ is Slot:
                return places[binding.number]
            return operands[binding] if binding.__class__ in _OPERANDS else Fixed(binding)

        steps: list[BundledLaunch] = []
        for of, like in with_likes(memory.launches):
            if like is None:
                bindings = [place(b) for b in of.bindings]
            else:
                bindings = [*steps[-1].bindings]
                for n in of.stepped:
                    bindings[n] = Fixed(of.bindings[n])
            stepped = () if like is None else of.stepped
            steps.append(BundledLaunch(of.executable, tuple(bindings), of.grid, stepped))
        split = memory.split if memory.renewed else len(steps)
        least = LARGE if self.runtime.is_host else LARGE_ON_GPU
        head, tail = steps[:split], steps[split:]
        return Recording(
            sizes=placement.sizes,
            memory=self.runtime.bundle_memory(placement.sizes, memory.inner_buffers),
            block=placement.block,
            parts=tuple(memory.parts),
            faults=tuple(self._faults),
            arguments=tuple(
                (a.position, a.dtype) for a in operands if isinstance(a, NumberOperand)
            ),
            bundle=self._bundle(head) if head else None,
            made=() if self.is_of_one_op else tuple([
                Made(use, self._slots[n].type, n in {slot.number for slot in standing})
                for n, use in uses.items() if n >= self._given
            ]),
            new=tuple(new.items()),
            large=tuple([(at, of) for at, of in new.items() if of.nbytes >= least]),
            steps=tuple(steps),
            results=tuple([
                (places[slot.number], r.type, r.strides, r.offset)
                for r, slot in zip(results, standing, strict=True)
            ]),
            name=name,
            donated=tuple([(places[old], self.donated[old]) for old in memory.renewed.values()]),
            split=memory.split,
            tail=self._bundle(tail) if tail else None,
            late=frozenset(b for of in tail for b in of.bindings if not isinstance(b, Fixed)),
            is_general=self.is_general,
            shares_rooms=any(
                isinstance(placement.places.get(slot.number), Part) for slot in standing
            ),
        )  # fmt: skip

    def operands_behind(self, memory: RecordedMemory) -> dict[Any, int]:
        """Return the operands that are numbers, in order behind the buffers.

        Faults come behind all others, as `Faults.launch` gives them.
        """
        found: list[Any] = [
            b for of, like in with_likes(memory.launches) if like is None
            for b in of.bindings if b.__class__ is NumberOperand
        ]  # fmt: skip
        found += [GivenOperand(n) for n in range(self._given_numbers)]
        found += [
            FaultOperand(n, is_word) for n in range(len(self._faults)) for is_word in (True, False)
        ]
        first = self._given + len(memory.placement.sizes) + len(memory.parts)
        return {operand: first + n for n, operand in enumerate(dict.fromkeys(found))}

    def _views(self, results: Sequence[CubeTensor], name: str) -> Recording:
        """Return the recording of views of inputs, as a loop over rows makes one for each."""
        return Recording(
            sizes=(), memory=self.runtime.bundle_memory((), ()), block=0, parts=(), faults=(),
            arguments=(), bundle=None, steps=(), made=(), name=name,
            results=tuple([
                (self.slot(r).number, r.type, r.strides, r.offset) for r in results
            ]),
        )  # fmt: skip

    def donate(self, positions: Iterable[int]) -> None:
        """Let results take the memory of inputs that fill it, by position."""
        for x in [self.inputs[n] for n in positions]:
            if isinstance(x, CubeTensor) and x.is_contiguous and not x.offset and x.type.size:
                self.donated[self.slot(x).number] = x.type.nbytes

    def _bundle(self, steps: Sequence[BundledLaunch]) -> Bundle:
        bundle, guard = self.runtime.bundle(steps), guarding(self.runtime)
        return bundle if guard is None else GuardedBundle(guard, bundle, self.inputs)

    def slot(self, tensor: CubeTensor) -> Slot:
        """Return the slot in which a tensor lies."""
        assert isinstance(tensor.buffer, Slot), "the memory of a result is an input's or new"
        return self._slots[tensor.buffer.number]


def _is_same(x: Any, y: CubeTensor) -> bool:
    """Whether what a lowering got is a tensor as it lies."""
    return isinstance(x, CubeTensor) and x.buffer is y.buffer and x.shape == y.shape
