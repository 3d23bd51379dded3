"""Expressions of what was noted on symbols, written out as functions of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from pyrite.backend.cube.argument import number_of
from pyrite.backend.cube.sized.launcher import SizedArgument, SizedNumber, SteppedNumber
from pyrite.backend.cube.slot import FaultOperand, GivenOperand, NumberOperand, Slot
from pyrite.errors import KernelError
from pyrite.kernel.builder.number import exact
from pyrite.op import Constant
from pyrite.runtime.protocol import Fixed
from pyrite.sized import is_size
from pyrite.types import DType, Number, TensorType, int32

#: Operands that are numbers.
_OPERANDS: Final = frozenset((NumberOperand, GivenOperand, FaultOperand))
_HIGHEST: Final = int(int32.highest)


def _number(value: Number, type: TensorType, dtype: DType) -> Number:
    return number_of(Constant(value, type), dtype)


class BoundNumbers:
    """The numbers that launches bind, each once: of some sizes, and such as are always the same."""

    def __init__(
        self, plain: Callable[..., list[Any]], made: Callable[..., list[Any]],
        known: Sequence[Any],
    ) -> None:  # fmt: skip
        #: From the numbers of sizes to int32, which these are as they are, and to others.
        self._plain, self._made = plain, made
        self._known = known
        self._fixed = [Fixed(x) for x in known]

    def of(self, numbers: Sequence[Number]) -> tuple[list[Any], list[Any], Sequence[Any]]:
        """Return them.  Raises KernelError where a dtype does not hold one."""
        plain = self._plain(numbers)
        if plain and (max(plain) > _HIGHEST or min(plain) < -_HIGHEST):
            raise KernelError(f"int32 requires numbers up to {_HIGHEST}, got {max(plain)}")
        return plain, self._made(numbers), self._known

    def fixed(self, numbers: Sequence[Number]) -> tuple[list[Fixed], list[Fixed], list[Fixed]]:
        """Return them as a bundle takes them; raises what `of` does."""
        plain, made, _ = self.of(numbers)
        return [*map(Fixed, plain)], [*map(Fixed, made)], self._fixed


class Expressions:
    """Expressions of what was noted, by numbers ``n`` and slots ``s``.

    Written out, they take a third of the time that a loop over places takes.
    """

    def __init__(self, slots: int) -> None:
        #: The symbols that are the numbers, in order.
        self.symbols: list[Any] = []
        self._places: dict[str, int] = {}
        self._kept: dict[str, Any] = {}
        self._slots = slots
        #: Operands that are numbers, which follow the slots.
        self.operands: list[Any] = []
        #: What is bound: names of numbers by their expressions, and those that are known.
        self._bound: dict[Any, str] = {}
        self._plain: list[str] = []
        self._made: list[str] = []
        self._known: list[Any] = []

    def one(self, value: Any) -> str:
        """Return the expression of a value that may be a size, or be a slot."""
        if isinstance(value, Slot):
            return f"s[{value.number}]"
        return self._number(value) if is_size(value) else self.kept(value)

    def _number(self, symbol: Any) -> str:
        at = self._places.get(symbol.text)
        if at is None:
            at = self._places[symbol.text] = len(self.symbols)
            self.symbols.append(symbol)
        return f"n[{at}]"

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

    def bound(self, values: Iterable[Any]) -> str:
        """Return the expression of what a launch binds: of slots, operands, and bound numbers."""
        return f"({''.join([f'{self._binding(x)},' for x in values])})"

    def _binding(self, value: Any) -> str:
        if type(value) is SteppedNumber:
            return self._binding(value.first)
        if isinstance(value, Slot):
            return f"s[{value.number}]"
        if type(value) in _OPERANDS:
            if value not in self.operands:
                self.operands.append(value)
            return f"s[{self._slots + self.operands.index(value)}]"
        if type(value) is SizedArgument:
            return self._bound_number(value.value, value.dtype, partial(exact, dtype=value.dtype))
        if type(value) is SizedNumber:
            make = partial(_number, type=value.type, dtype=value.dtype)
            return self._bound_number(value.value, (value.type, value.dtype), make)
        return self._bound_number(value, None, None)

    def _bound_number(self, value: Any, key: Any, make: Callable[[Any], Any] | None) -> str:
        """Return the name of a number, or what is made of it as ``key`` says."""
        if not is_size(value):
            self._known.append(value if make is None else make(value))
            return f"c[{len(self._known) - 1}]"
        name = self._bound.get((value.text, key))
        if name is None:
            text = self._number(value)
            if key is int32 and type(value.value) is int:
                self._plain.append(text)
                name = f"a[{len(self._plain) - 1}]"
            else:
                self._made.append(text if make is None else f"{self.kept(make)}({text})")
                name = f"b[{len(self._made) - 1}]"
            self._bound[value.text, key] = name
        return name

    @property
    def numbers(self) -> BoundNumbers:
        """The numbers that are bound."""
        return BoundNumbers(
            self.function(self._plain, "n"), self.function(self._made, "n"), self._known
        )

    def function(self, texts: Iterable[str], names: str = "n,s") -> Callable[..., list[Any]]:
        """Return what gives the list of some expressions, of what has these names."""
        # The text is made of places and names of values alone.
        known = {"__builtins__": {}, **self._kept}
        return eval(f"lambda {names}: [{','.join(texts)}]", known)  # type: ignore[no-any-return]
