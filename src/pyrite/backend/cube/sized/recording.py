"""What a lowering does for all sizes of a class, as expressions and guards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from pyrite.backend.cube.argument import number_of
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.layout import Strides
from pyrite.backend.cube.noted_launch import NotedLaunch
from pyrite.backend.cube.recording import Recording
from pyrite.backend.cube.recording_launcher import RecordingLauncher
from pyrite.backend.cube.registry import Lowering, means_of
from pyrite.backend.cube.sized.call import SizedCall
from pyrite.backend.cube.sized.launcher import (
    SizedArgument,
    SizedLauncher,
    SizedNumber,
    SteppedNumber,
    Unsized,
    VaryingKernel,
)
from pyrite.backend.cube.slot import Slot
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.backend.means import note_means
from pyrite.cached import UnhashableSymbolError
from pyrite.errors import KernelError
from pyrite.kernel.builder.number import exact
from pyrite.op import Attributes, Constant, Op
from pyrite.sized import Judged, Miss, SizeSymbols, is_size
from pyrite.types import DType, Number, TensorType

#: From an op, inputs and attributes to its lowering; None for a composite that is expanded.
Choose = Callable[[Op, Sequence[Any], Attributes], Lowering | None]


def _number(value: Number, type: TensorType, dtype: DType) -> Number:
    return number_of(Constant(value, type), dtype)


#: What a kernel is looked up by: numbers of its config, and its extents.
Varied = tuple[tuple[Any, ...], tuple[int, ...]] | None


class _Launch(NamedTuple):
    #: Compiled, or what looks it up.
    executable: Any
    writes_once: bool
    #: Which bindings are more at each launch of several, and by how much.
    stepped: tuple[tuple[int, int], ...]


class _Text:
    """Expressions of what was noted, by numbers ``n`` and slots ``s``.

    Written out, they take a third of the time that a loop over places takes.
    """

    def __init__(self) -> None:
        #: The symbols that are the numbers, in order.
        self.symbols: list[Any] = []
        self._places: dict[str, int] = {}
        self._kept: dict[str, Any] = {}

    def one(self, value: Any) -> str:
        """Return the expression of a value that may be made of symbols, or be a slot."""
        if type(value) is SizedArgument:
            return self._number(value.value, partial(exact, dtype=value.dtype))
        if type(value) is SizedNumber:
            return self._number(value.value, partial(_number, type=value.type, dtype=value.dtype))
        if isinstance(value, Slot):
            return f"s[{value.number}]"
        if type(value) is SteppedNumber:
            return self.one(value.first)
        return self._number(value) if is_size(value) else self.kept(value)

    def _number(self, symbol: Any, make: Callable[[Any], Any] | None = None) -> str:
        """Return the expression of what is made of a symbol, or of what is none."""
        if not is_size(symbol):
            return self.kept(symbol if make is None else make(symbol))
        at = self._places.get(symbol.text)
        if at is None:
            at = self._places[symbol.text] = len(self.symbols)
            self.symbols.append(symbol)
        return f"n[{at}]" if make is None else f"{self.kept(make)}(n[{at}])"

    def all(self, values: Iterable[Any]) -> str:
        """Return the expression of a tuple."""
        return f"({''.join([f'{self.one(x)},' for x in values])})"

    def type(self, type: TensorType | None) -> str:
        """Return the expression of a type."""
        if type is None:
            return "None"
        return f"{self.kept(TensorType)}({self.all(type.shape)},{self.kept(type.dtype)})"

    def kept(self, value: Any) -> str:
        """Return a name of a value."""
        name = f"k{len(self._kept)}"
        self._kept[name] = value
        return name

    def function(self, texts: Iterable[str]) -> Callable[..., list[Any]]:
        """Return what gives the list of some expressions, of numbers and slots."""
        # The text is made of places and names of values alone.
        known = {"__builtins__": {}, **self._kept}
        return eval(f"lambda n,s: [{','.join(texts)}]", known)  # type: ignore[no-any-return]


def _varied(text: _Text, executable: Any) -> str:
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
    #: What types of results have, as `SizedCall.results`.
    results_of: tuple[tuple[int, DType], ...]
    numbers: Judged
    #: What was answered on the way, by the numbers of the questions.
    answers: Mapping[int, Any]
    #: From the numbers to bytes and types of what is made; from these and the slots to bindings,
    #: grids and counts of launches, to what their kernels are looked up by, to slots, types,
    #: strides and offsets of results, and to texts in parts.
    made: Callable[..., list[tuple[int, TensorType | None]]]
    launches: tuple[_Launch, ...]
    bound: Callable[..., list[tuple[tuple[Any, ...], tuple[int, ...], int]]]
    varied: Callable[..., list[Varied]]
    results: Callable[..., list[tuple[Any, TensorType, Strides, int]]]
    faults: Callable[..., list[tuple[Any, ...]]]
    launches_of_faults: tuple[int, ...]
    #: Whether a kernel would be faster with sizes built in.
    is_general: bool

    @classmethod
    def of(cls, launcher: Launcher, choose: Choose, op: Op, call: SizedCall) -> SizedRecording:
        """Return what the lowering of an op does for sizes like those of a call.

        Raises what says that there is no such thing, of any class.
        """
        fixed: set[int] = set()
        while True:
            symbols = SizeSymbols()
            try:
                return cls._found(launcher, choose, op, call, symbols, fixed)
            except (UnhashableSymbolError, Unsized):
                # A number of channels, say, or of an axis: it is built in, as few differ.
                found = symbols.made_of(symbols.unhashed) - fixed
                if not found:
                    raise
                fixed |= found

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
        text = _Text()
        made = text.function([
            f"({text.one(slot.nbytes)},{text.type(slot.type)})" for slot in noted.slots_made
        ])  # fmt: skip
        launches = tuple([
            _Launch(of.executable, of.writes_once, tuple([
                (n, x.step) for n, x in enumerate(of.bindings) if type(x) is SteppedNumber
            ]))
            for of in noted.noted
        ])  # fmt: skip
        bound = text.function([
            f"({text.all(of.bindings)},{text.all(of.grid)},{text.one(noted.counts.get(n, 1))})"
            for n, of in enumerate(noted.noted)
        ])  # fmt: skip
        varied = text.function([_varied(text, of.executable) for of in noted.noted])
        found = text.function([
            f"({text.one(r.buffer)},{text.type(r.type)},{text.all(r.strides)},{text.one(r.offset)})"
            for r in results
        ])  # fmt: skip
        faults = text.function([text.all(symbols.parts(of)) for of in noted.faults_noted])
        numbers, answers = symbols.judged_program(text.symbols)
        return cls(
            name, means, call.results, numbers, answers, made, launches, bound, varied,
            found, faults,
            tuple(noted.launches_of_faults), noted.is_general,
        )  # fmt: skip

    def has_kernels(self, launcher: Launcher, numbers: Sequence[Number]) -> bool:
        """Whether all kernels are there for a call of which `SizeClasses.matches` gave these."""
        return all(
            varied is None or of.executable.member(launcher, *varied) is not None
            for of, varied in zip(self.launches, self.varied(numbers, ()), strict=True)
        )

    def recording(
        self, launcher: Launcher, call: SizedCall, numbers: Sequence[Number]
    ) -> Recording | None:
        """Return the recording of a call of which `SizeClasses.matches` gave the numbers.

        None where one of them is none of its dtype, or a kernel is not there.
        """
        noted = RecordingLauncher(launcher, call.inputs)
        noted.is_general, noted.is_of_one_op = self.is_general, True
        try:
            slots = self._resume(launcher, noted, numbers)
        except (KernelError, Unsized):
            return None
        note_means(launcher.runtime.name, self.name, self.means, 0)
        results = [CubeTensor(*of) for of in self.results(numbers, slots)]
        return noted.recording(results, self.name)

    def _resume(
        self, launcher: Launcher, noted: RecordingLauncher, numbers: Sequence[Number]
    ) -> list[Any]:
        """Have a launcher stand where one does that has noted all this; return the slots."""
        made: list[Slot] = []
        for n, (nbytes, type) in enumerate(self.made(numbers, ()), noted.inputs_slots):
            slot = Slot(n, nbytes)
            slot.type = type
            made.append(slot)
        slots = noted.with_slots(made)

        firsts: list[int] = []
        launches: list[NotedLaunch] = []
        for of, (bindings, grid, times), varied in zip(
            self.launches, self.bound(numbers, slots), self.varied(numbers, ()), strict=True
        ):
            firsts.append(len(launches))
            executable, all = _looked_up(launcher, of.executable, bindings, varied)
            launch = NotedLaunch(executable, all, grid, of.writes_once)
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
            ["".join(map(str, text)) for text in self.faults(numbers, slots)],
            [firsts[n] for n in self.launches_of_faults],
        )
        return slots


def _looked_up(
    launcher: Launcher, executable: Any, bindings: Sequence[Any], varied: Varied
) -> tuple[Any, Sequence[Any]]:
    """Return a kernel and all that is bound: of one that varies for such numbers and extents."""
    if varied is None:
        return executable, bindings
    kernel: VaryingKernel = executable
    member = kernel.member(launcher, *varied)
    if member is None:
        raise Unsized("a kernel that is not there")
    _, extents = varied
    return member.executable, member.bindings(bindings, extents)
