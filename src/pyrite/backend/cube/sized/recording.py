"""What a lowering does for all sizes of a class, as expressions and guards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from pyrite.backend.cube.family import Member
from pyrite.backend.cube.guard import guarding
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.layout import Strides
from pyrite.backend.cube.noted_launch import NotedLaunch
from pyrite.backend.cube.recording import Recording
from pyrite.backend.cube.recording_launcher import RecordingLauncher
from pyrite.backend.cube.registry import Lowering, means_of
from pyrite.backend.cube.sized.call import SizedCall
from pyrite.backend.cube.sized.expressions import BoundNumbers, Expressions
from pyrite.backend.cube.sized.launcher import (
    SizedLauncher,
    SteppedNumber,
    Unsized,
    VaryingKernel,
)
from pyrite.backend.cube.sized.memory_plan import MemoryPlan, Run
from pyrite.backend.cube.slot import NumberOperand, Slot
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.backend.means import note_means
from pyrite.backend.memory import LARGE, LARGE_ON_GPU
from pyrite.cached import UnhashableSymbolError
from pyrite.errors import KernelError
from pyrite.op import Attributes, Op
from pyrite.runtime.protocol import BundledLaunch, Fixed
from pyrite.sized import Judged, Miss, SizeSymbols
from pyrite.types import DType, Number, TensorType

#: Plans of memory of a class.
MOST_PLANS: Final = 6

#: From an op, inputs and attributes to its lowering; None for a composite that is expanded.
Choose = Callable[[Op, Sequence[Any], Attributes], Lowering | None]


#: What a kernel is looked up by: numbers of its config, and its extents.
Varied = tuple[tuple[Any, ...], tuple[int, ...]] | None


class _Launch(NamedTuple):
    #: Compiled, or what looks it up.
    executable: Any
    writes_once: bool
    #: Which bindings are more at each launch of several, and by how much.
    stepped: tuple[tuple[int, int], ...]


def _varied(text: Expressions, executable: Any) -> str:
    """Return the expression of what a kernel is looked up by, if it is."""
    if type(executable) is not VaryingKernel:
        return "None"
    return f"({text.all(executable.varied)},{text.all(executable.extents)})"


@dataclass(frozen=True, slots=True)
class SizedRecording:
    """What a lowering does for all sizes of a class."""

    name: str
    #: Of the lowering, as `note_means` takes them.
    means: str
    #: What types of results and small sizes are, as `SizedCall.results` and `SizedCall.small`.
    results_of: tuple[tuple[int, DType], ...]
    small: tuple[int, ...]
    numbers: Judged
    #: What was answered on the way, by the numbers of the questions.
    answers: Mapping[int, Any]
    #: From the numbers to the bytes of what is made, and to its types.
    nbytes: Callable[..., list[int]]
    types: Callable[..., list[TensorType | None]]
    launches: tuple[_Launch, ...]
    #: The numbers that launches bind; from these, the slots and the ``operands`` that are numbers
    #: to bindings, grids and counts of launches; and to what kernels that vary are looked up by.
    bound_numbers: BoundNumbers
    operands: tuple[Any, ...]
    bound: Callable[..., list[tuple[tuple[Any, ...], tuple[int, ...], int]]]
    varied: Callable[..., list[Varied]]
    #: To slots, types, strides and offsets of results, to slots and types of those that are new,
    #: and to texts in parts.
    results: Callable[..., list[tuple[Any, TensorType, Strides, int]]]
    new: Callable[..., list[tuple[Any, TensorType]]]
    faults: Callable[..., list[tuple[Any, ...]]]
    launches_of_faults: tuple[int, ...]
    #: Whether a kernel would be faster with sizes built in.
    is_general: bool
    #: The places of questions in their order.
    places: Mapping[int, int] = field(init=False, compare=False)
    #: Where slots lie, found for some sizes.
    plans: list[MemoryPlan] = field(default_factory=list, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", {q: n for n, q in enumerate(self.answers)})

    @classmethod
    def of(cls, launcher: Launcher, choose: Choose, op: Op, call: SizedCall) -> SizedRecording:
        """Return what the lowering of an op does for sizes like those of a call.

        Raises what says that there is no such thing, of any class.
        """
        fixed: set[int] = set()
        while True:
            symbols = SizeSymbols(asks_least=False)
            try:
                return cls._found(launcher, choose, op, call, symbols, fixed)
            except (UnhashableSymbolError, Unsized):
                # A number of channels, say, or of an axis: it is built in, as few differ.
                found = symbols.made_of(symbols.unhashed) - fixed
                if not found:
                    raise
                fixed |= found
            finally:
                symbols.products.clear()

    @classmethod
    def _found(
        cls, launcher: Launcher, choose: Choose, op: Op, call: SizedCall, symbols: SizeSymbols,
        fixed: Set[int],
    ) -> SizedRecording:  # fmt: skip
        sizes = [
            symbols.known(n) if at in fixed else symbols.size(n) for at, n in enumerate(call.sizes)
        ]
        inputs, attrs, out = call.with_sizes(sizes)
        noted = SizedLauncher(launcher, inputs)
        lowering = choose(op, noted.inputs, attrs)
        if lowering is None:
            raise Unsized("a composite that is expanded")
        results = lowering(noted, op, noted.inputs, attrs, out)
        made = cls._of(op.name, means_of(op, lowering), call, symbols, noted, results)
        if isinstance(made.numbers(*call.sizes), Miss):
            raise Unsized("guards that do not hold for the sizes at hand")
        return made

    @classmethod
    def _of(
        cls, name: str, means: str, call: SizedCall, symbols: SizeSymbols, noted: SizedLauncher,
        results: Sequence[CubeTensor],
    ) -> SizedRecording:  # fmt: skip
        text = Expressions(noted.inputs_slots + len(noted.slots_made))
        made = noted.slots_made
        nbytes = text.function([text.one(slot.nbytes) for slot in made], "n")
        types = text.function([text.type(slot.type) for slot in made], "n")
        launches = tuple([
            _Launch(_without_symbols(of.executable), of.writes_once, tuple([
                (n, x.step) for n, x in enumerate(of.bindings) if type(x) is SteppedNumber
            ]))
            for of in noted.noted
        ])  # fmt: skip
        counts = [text.one(noted.counts.get(n, 1)) for n in range(len(launches))]
        bound = [
            f"({text.bound(of.bindings)},{text.all(of.grid)},{count})"
            for of, count in zip(noted.noted, counts, strict=True)
        ]
        varied = text.function([_varied(text, of.executable) for of in noted.noted], "n")
        found = text.function([
            f"({text.one(r.buffer)},{text.type(r.type)},{text.all(r.strides)},{text.one(r.offset)})"
            for r in results
        ])  # fmt: skip
        new = text.function([
            f"({text.one(slot)},{text.type(slot.type or r.type)})"
            for r in results if (slot := noted.slot(r)).number >= noted.inputs_slots
        ])  # fmt: skip
        faults = text.function([text.all(symbols.parts(of)) for of in noted.faults_noted])
        numbers, answers = symbols.judged_program(text.symbols)
        return cls(
            name, means, call.results, call.small, numbers, answers, nbytes, types, launches,
            text.numbers, tuple(text.operands), text.function(bound, "n,s,a,b,c"), varied, found,
            new, faults, tuple(noted.launches_of_faults), noted.is_general,
        )  # fmt: skip

    def has_kernels(self, launcher: Launcher, numbers: Sequence[Number]) -> bool:
        """Whether all kernels are there for a call of which `SizeClasses.matches` gave these."""
        return all(
            varied is None or of.executable.member(launcher, *varied) is not None
            for of, varied in zip(self.launches, self.varied(numbers), strict=True)
        )

    def recording(
        self, launcher: Launcher, call: SizedCall, numbers: Sequence[Number]
    ) -> Recording | None:
        """Return the recording of a call of which `SizeClasses.matches` gave the numbers.

        None where one of them is none of its dtype, or a kernel is not there.
        """
        try:
            for plan in self.plans:
                made = self._planned(launcher, plan, numbers)
                if made is not None:
                    break
            else:
                made = self._recorded(launcher, call, numbers)
        except (KernelError, Unsized):
            return None
        note_means(launcher.runtime.name, self.name, self.means, 0)
        return made

    def plan_memory(
        self, launcher: Launcher, call: SizedCall, numbers: Sequence[Number] | Miss
    ) -> None:
        """Find where the slots lie for the sizes of a call, before one like it waits for that."""
        if isinstance(numbers, Miss):
            return
        nbytes = self.nbytes(numbers)
        if all(plan.placed(nbytes) is None for plan in self.plans):
            with suppress(KernelError, Unsized):
                self._recorded(launcher, call, numbers)

    # ---- by a plan of memory ----

    def _planned(
        self, launcher: Launcher, plan: MemoryPlan, numbers: Sequence[Number]
    ) -> Recording | None:
        """Return the recording by a plan of memory, if that is one for these sizes."""
        placed = plan.placed(self.nbytes(numbers))
        steps = None if placed is None else self._steps(launcher, plan, numbers)
        if placed is None or steps is None:
            return None
        runtime = launcher.runtime
        new = tuple(dict(self.new(numbers, plan.places)).items())
        least = LARGE if runtime.is_host else LARGE_ON_GPU
        return Recording(
            sizes=placed.sizes,
            memory=runtime.bundle_memory(placed.sizes, plan.inner),
            block=placed.block,
            parts=placed.parts,
            faults=tuple(self._texts_of_faults(numbers)),
            arguments=tuple([
                (of.position, of.dtype) for of in self.operands if type(of) is NumberOperand
            ]),
            bundle=runtime.bundle(steps) if steps else None,
            steps=tuple(steps),
            results=tuple(self.results(numbers, plan.places)),
            made=(),
            name=self.name,
            new=new,
            large=tuple([(at, of) for at, of in new if of.nbytes >= least]),
            is_general=self.is_general,
        )  # fmt: skip

    def _steps(
        self, launcher: Launcher, plan: MemoryPlan, numbers: Sequence[Number]
    ) -> list[BundledLaunch] | None:
        """Return the launches; None where a kernel may not write what the plan has it write."""
        steps: list[BundledLaunch] = []
        bound = self.bound(numbers, plan.places, *self.bound_numbers.fixed(numbers))
        for n, (of, (bindings, grid, times), varied) in enumerate(
            zip(self.launches, bound, self.varied(numbers), strict=True)
        ):
            executable = of.executable
            if varied is not None:
                member = _member(launcher, executable, varied)
                executable = member.executable
                bindings = tuple(member.bindings(bindings, varied[1], Fixed))
                if plan.over and not plan.is_overwritten(n, executable.kernel, bindings):
                    return None
            steps.append(BundledLaunch(executable, bindings, grid))
            stepped = tuple([at for at, _ in of.stepped])
            for _ in range(1, times):
                moved = [*bindings]
                for at, by in of.stepped:
                    moved[at] = Fixed(moved[at].value + by)
                bindings = tuple(moved)
                steps.append(BundledLaunch(executable, bindings, grid, stepped))
        return steps

    def _texts_of_faults(self, numbers: Sequence[Number]) -> list[str]:
        return ["".join(map(str, text)) for text in self.faults(numbers, ())]

    # ---- as the lowering would ----

    def _recorded(
        self, launcher: Launcher, call: SizedCall, numbers: Sequence[Number]
    ) -> Recording:
        """Return the recording of a call, and keep where its slots lie."""
        noted = RecordingLauncher(launcher, call.inputs)
        noted.is_general, noted.is_of_one_op = self.is_general, True
        slots, runs = self._resume(launcher, noted, numbers)
        results = [CubeTensor(*of) for of in self.results(numbers, slots)]
        if not noted.launches:
            return noted.recording(results, self.name)
        memory = noted.memory(results)
        if guarding(launcher.runtime) is None and len(self.plans) < MOST_PLANS:
            places = noted.operands_behind(memory)
            plan = MemoryPlan.of(memory, [places[of] for of in self.operands], runs)
            if plan is not None:
                self.plans.append(plan)
        return noted.recording_in(memory, results, self.name)

    def _resume(
        self, launcher: Launcher, noted: RecordingLauncher, numbers: Sequence[Number]
    ) -> tuple[list[Slot], list[Run]]:
        """Have a launcher stand where one does that has noted all this.

        Returns the slots, and which launches are the steps of one.
        """
        made: list[Slot] = []
        for n, (nbytes, type) in enumerate(
            zip(self.nbytes(numbers), self.types(numbers), strict=True), noted.inputs_slots
        ):
            slot = Slot(n, nbytes)
            slot.type = type
            made.append(slot)
        slots = noted.with_slots(made)

        runs: list[Run] = []
        launches: list[NotedLaunch] = []
        bound = self.bound(numbers, [*slots, *self.operands], *self.bound_numbers.of(numbers))
        for of, (bindings, grid, times), varied in zip(
            self.launches, bound, self.varied(numbers), strict=True
        ):
            executable = of.executable
            if varied is not None:
                member = _member(launcher, executable, varied)
                executable = member.executable
                bindings = tuple(member.bindings(bindings, varied[1]))
            launch = NotedLaunch(executable, bindings, grid, of.writes_once)
            runs.append(Run(len(launches), len(launches) + times, varied is not None))
            launches.append(launch)
            places = tuple([n for n, _ in of.stepped])
            for _ in range(1, times):
                moved = [*launch.bindings]
                for n, by in of.stepped:
                    moved[n] += by
                launch = launch.binding(moved, like=launch, stepped=places)
                launches.append(launch)
        noted.resume(
            launches,
            self._texts_of_faults(numbers),
            [runs[n].begin for n in self.launches_of_faults],
        )
        return slots, runs


def _without_symbols(executable: Any) -> Any:
    """Return what a launch looks its kernel up with: symbols hold all that was made of them."""
    if type(executable) is VaryingKernel:
        return replace(executable, varied=(), extents=())
    return executable


def _member(
    launcher: Launcher, kernel: VaryingKernel, varied: tuple[tuple[Any, ...], tuple[int, ...]]
) -> Member:
    """Return the kernel for the numbers of a config and extents.  Raises Unsized if none is."""
    member = kernel.member(launcher, *varied)
    if member is None:
        raise Unsized("a kernel that is not there")
    return member
