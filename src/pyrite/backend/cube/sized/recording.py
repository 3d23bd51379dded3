"""What a lowering does for all sizes of a class, as expressions and guards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from pyrite.backend.cube.launcher import Launcher, number_of
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


#: A shape with places, and the dtype.
_Type = tuple[tuple[Any, ...], DType]


class _Place(NamedTuple):
    """What stands for a symbol: which of the numbers it is, and what is made of that."""

    at: int
    make: Callable[[Any], Any] | None = None

    def of(self, numbers: Sequence[Number]) -> Any:
        """Return what stands there, for given numbers."""
        value = numbers[self.at]
        return value if self.make is None else self.make(value)


class _SlotNumber(NamedTuple):
    """What stands for a slot."""

    number: int


class _SteppedPlace(NamedTuple):
    """What stands for a number that is ``step`` more at each launch of several."""

    first: Any
    step: int

    def of(self, numbers: Sequence[Number]) -> Any:
        """Return the number of the first launch."""
        return _all((self.first,), numbers)[0]


class _Places:
    """The symbols of what was noted, each once, and places in their stead."""

    def __init__(self) -> None:
        self.symbols: list[Any] = []
        self._known: dict[str, int] = {}

    def of(self, value: Any) -> Any:
        """Return a value as it is, or the place of a symbol."""
        if type(value) is SizedArgument:
            return self._place(value.value, partial(exact, dtype=value.dtype))
        if type(value) is SizedNumber:
            return self._place(value.value, partial(_number, type=value.type, dtype=value.dtype))
        if isinstance(value, Slot):
            return _SlotNumber(value.number)
        if type(value) is SteppedNumber:
            return _SteppedPlace(self.of(value.first), value.step)
        return self._place(value) if is_size(value) else value

    def all(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return several with places in the stead of symbols."""
        return tuple([self.of(x) for x in values])

    def type(self, type: TensorType) -> _Type:
        """Return a type with places in its shape."""
        return self.all(type.shape), type.dtype

    def _place(self, symbol: Any, make: Callable[[Any], Any] | None = None) -> Any:
        if not is_size(symbol):
            return symbol if make is None else make(symbol)
        at = self._known.get(symbol.text)
        if at is None:
            at = self._known[symbol.text] = len(self.symbols)
            self.symbols.append(symbol)
        return _Place(at, make)


def _number(value: Number, type: TensorType, dtype: DType) -> Number:
    return number_of(Constant(value, type), dtype)


def _all(values: Sequence[Any], numbers: Sequence[Number]) -> tuple[Any, ...]:
    """Return values with numbers at their places."""
    return tuple([x.of(numbers) if x.__class__ is _Place else x for x in values])


class _Buffer(NamedTuple):
    nbytes: Any
    type: _Type | None


class _Launch(NamedTuple):
    executable: Any
    bindings: tuple[Any, ...]
    grid: tuple[Any, ...]
    writes_once: bool
    #: How often it is made, with other numbers each time.
    times: Any


class _Result(NamedTuple):
    slot: int
    type: _Type
    strides: tuple[Any, ...]
    offset: Any


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
    slots: tuple[_Buffer, ...]
    launches: tuple[_Launch, ...]
    results: tuple[_Result, ...]
    #: Texts in parts, some of which are numbers.
    faults: tuple[tuple[Any, ...], ...]
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
        if next(matches((made,), call), None) is None:
            raise Unsized("guards that do not hold for the sizes at hand")
        return made

    @classmethod
    def _of(
        cls, name: str, means: str, call: SizedCall, symbols: SizeSymbols, noted: SizedLauncher,
        results: Sequence[CubeTensor],
    ) -> SizedRecording:  # fmt: skip
        places = _Places()
        slots = tuple([
            _Buffer(places.of(s.nbytes), None if s.type is None else places.type(s.type))
            for s in noted.slots_made
        ])  # fmt: skip
        launches = tuple([
            _Launch(
                of.executable, places.all(of.bindings), places.all(of.grid), of.writes_once,
                places.of(noted.counts.get(n, 1)),
            )
            for n, of in enumerate(noted.noted)
        ])  # fmt: skip
        found = tuple([
            _Result(
                noted.number_of_slot(r), places.type(r.type), places.all(r.strides),
                places.of(r.offset),
            )
            for r in results
        ])  # fmt: skip
        faults = tuple([places.all(symbols.parts(text)) for text in noted.faults_noted])
        return cls(
            name, means, call.results, *symbols.judged_program(places.symbols), slots, launches,
            found, faults, tuple(noted.launches_of_faults), noted.is_general,
        )  # fmt: skip

    def recording(
        self, launcher: Launcher, call: SizedCall, numbers: Sequence[Number]
    ) -> Recording | None:
        """Return the recording of a call of which `matches` found the numbers.

        None where one of them is none of its dtype.
        """
        noted = RecordingLauncher(launcher, call.inputs)
        noted.is_general, noted.is_of_one_op = self.is_general, True
        try:
            slots = self._resume(noted, numbers)
        except KernelError:
            return None
        note_means(launcher.runtime.name, self.name, self.means, 0)
        results = [
            CubeTensor(
                slots[of.slot], _type(of.type, numbers), _all(of.strides, numbers),
                *_all((of.offset,), numbers),
            )
            for of in self.results
        ]  # fmt: skip
        return noted.recording(results, self.name)

    def _resume(self, noted: RecordingLauncher, numbers: Sequence[Number]) -> list[Any]:
        """Have a launcher stand where one does that has noted all this; return the slots."""
        made: list[Slot] = []
        for n, (nbytes, type) in enumerate(self.slots, noted.inputs_slots):
            slot = Slot(n, *_all((nbytes,), numbers))
            slot.type = None if type is None else _type(type, numbers)
            made.append(slot)
        slots = noted.with_slots(made)

        def bound(x: Any) -> Any:
            if x.__class__ is _Place:
                return x.of(numbers)
            return slots[x.number] if x.__class__ is _SlotNumber else x

        firsts: list[int] = []
        launches: list[NotedLaunch] = []
        for of in self.launches:
            firsts.append(len(launches))
            grid, bindings = _all(of.grid, numbers), [bound(x) for x in of.bindings]
            stepped = {n: x for n, x in enumerate(bindings) if x.__class__ is _SteppedPlace}
            (times,) = _all((of.times,), numbers) if stepped else (1,)
            first = {n: x.of(numbers) for n, x in stepped.items()}
            for n, value in first.items():
                bindings[n] = value
            launch = NotedLaunch(of.executable, bindings, grid, of.writes_once)
            for step in range(times):
                if step:
                    launch = launch.step({
                        n: value + step * stepped[n].step for n, value in first.items()
                    })  # fmt: skip
                launches.append(launch)
        noted.resume(
            launches,
            ["".join(map(str, _all(text, numbers))) for text in self.faults],
            [firsts[n] for n in self.launches_of_faults],
        )
        return slots


def matches(
    classes: Sequence[SizedRecording], call: SizedCall
) -> Iterator[tuple[SizedRecording, Sequence[Number]]]:
    """Give the classes of a call, mostly one, each with its numbers.

    What one says no to is known of all others too: so many are left out unasked.
    """
    known: list[Miss] = []
    for one in classes:
        if one.results_of != call.results:
            continue
        answers = one.answers
        if any([answers.get(question, answer) != answer for question, answer in known]):
            continue
        try:
            found = one.numbers(*call.sizes)
        except ArithmeticError:  # a question that makes no sense here
            continue
        if isinstance(found, Miss):
            known.append(found)
        else:
            yield one, found


def _type(type: _Type, numbers: Sequence[Number]) -> TensorType:
    shape, dtype = type
    return TensorType(_all(shape, numbers), dtype)
