"""Numbers that a kernel gets when it is launched: what Python code makes of them, and asks of them.

A kernel is built once for many sizes.  While it is written a size is a `Symbol`: arithmetic gives
symbols, which become arguments of the kernel where they meet its values; a question (is it a
multiple of 16? is it less than that one?) is answered as for the size at hand, and noted.  These
answers are the **guards** of the kernel: it serves all sizes that give the same ones.  Where Python
wants the number itself (``range``, an index) the guard is that it is this number.
So no size gets into a kernel unseen, whatever the code that writes it does.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pyrite.cached import UnhashableSymbolError
from pyrite.types import DType, Number

#: Sizes of 0 and 1 are never symbols: empty and broadcast axes are problems of their own.
LEAST: Final = 2


class Argument(NamedTuple):
    """A parameter of a kernel: where it stands among all, what it is, and its dtype."""

    position: int
    text: str
    dtype: DType


class Symbols:
    """The symbols of one kernel that is being written, what was asked, and what became arguments.

    >>> symbols = Symbols()
    >>> rows, columns = symbols.symbol(30), symbols.symbol(8)
    >>> (rows * columns) % 16 == 0, columns > 1
    (True, True)
    >>> symbols.guards
    {'(((n0*n1)%16)==0)': True}
    >>> holds = symbols.function(symbols.guard)
    >>> holds(12, 12), holds(3, 5)
    (True, False)
    """

    def __init__(self) -> None:
        self.count = 0
        self.guards: dict[str, bool] = {}
        self.arguments: list[Argument] = []

    def symbol(self, value: int, low: int = LEAST) -> Any:
        """Return the next symbol, of a number that is never below the low; it passes for an int."""
        assert value >= low
        self.count += 1
        return self.made(f"n{self.count - 1}", value, low)

    def number(self, value: Number) -> Any:
        """Return the next symbol, of any number: it passes for an int or a float."""
        self.count += 1
        return self.made(f"n{self.count - 1}", value, None)

    def made(self, text: str, value: Number, low: int | None) -> Symbol:
        """Return the symbol of an expression."""
        return Symbol(self, text, value, low)

    def ask(self, text: str, answer: bool) -> bool:
        """Note the answer to a question, and return it."""
        self.guards[text] = answer
        return answer

    @property
    def guard(self) -> str:
        """What holds for all sizes that the kernel serves, in the order in which it was asked."""
        asked = (text if answer else f"not {text}" for text, answer in self.guards.items())
        return " and ".join(asked) or "True"

    @property
    def values(self) -> str:
        """The values of the arguments, in order."""
        return "(" + "".join(f"{argument.text}," for argument in self.arguments) + ")"

    def function(self, text: str) -> Callable[..., Any]:
        """Return what gives an expression for the values of all symbols."""
        names = ",".join(f"n{i}" for i in range(self.count))
        # The text is made of numbers, names and operators by the methods of `Symbol` alone.
        return eval(f"lambda {names}: {text}", {"__builtins__": {}})  # type: ignore[no-any-return]

    def given(
        self,
        known: Sequence[int],
        places: Sequence[tuple[str, type]],
        ends: Mapping[tuple[DType, type], float],
    ) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
        """Return what gives the values of the arguments, None where an answer would be another.

        The first symbols have ``known`` values, for which the kernel serves; the others lie in
        ``places`` of what it is given, as expressions of the name ``given``, and are of these
        classes.  The second is the same where all arguments are such numbers as they are, of a
        dtype and a class that have ``ends``: it gives a list, and None beyond these too.

        >>> symbols = Symbols()
        >>> rows, rate = symbols.symbol(30), symbols.number(0.5)
        >>> rows > 3, rate < 1.0
        (True, True)
        >>> symbols.arguments = [Argument(0, (rows * rate).text, None)]
        >>> values, _ = symbols.given([30], [("given['rate']", float)], {})
        >>> values({"rate": 0.25}), values({"rate": 2.0})
        ((7.5,), None)
        """
        count = len(known)

        def placed(symbol: re.Match[str]) -> str:
            n = int(symbol[1])
            return f"({known[n]!r})" if n < count else places[n - count][0]

        def function(values: str, conditions: Sequence[str]) -> Callable[..., Any]:
            text = f"{values} if {' and '.join(conditions)} else None" if conditions else values
            of_places = re.sub(r"\bn(\d+)\b", placed, text)
            return eval(f"lambda given: {of_places}", {"__builtins__": {}})  # type: ignore[no-any-return]

        asked = [
            text if answer else f"not {text}"
            for text, answer in self.guards.items()
            if not is_of_first(text, count)
        ]
        exact = function(self.values, asked)
        kinds = {f"n{count + i}": kind for i, (_, kind) in enumerate(places)}
        values: list[str] = []
        for argument in self.arguments:
            text, kind = argument.text, kinds.get(argument.text)
            end = None if kind is None else ends.get((argument.dtype, kind))
            if end is None:
                return exact, None
            asked.append(f"-{end!r} < {text} < {end!r}")
            values.append(f"{text}*1.0" if kind is int and argument.dtype.is_float else text)
        return exact, function(f"[{','.join(values)}]", asked)


class Symbol:
    """A number that is known when a kernel is launched; see the head of this file.

    ``value`` is the one at hand, ``low`` a number that it is never below, None if that is unknown.
    """

    __slots__ = ("low", "symbols", "text", "value")

    #: As a value of a kernel: one number.
    width = 1

    def __init__(self, symbols: Symbols, text: str, value: Number, low: int | None) -> None:
        self.symbols = symbols
        self.text = text
        self.value = value
        self.low = low

    # ---- arithmetic ----

    def __add__(self, other: Any) -> Any:
        return self if _is_int(other, 0) else self._made("+", self, other)

    def __radd__(self, other: Any) -> Any:
        return self if _is_int(other, 0) else self._made("+", other, self)

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, Symbol) and other.text == self.text:
            return 0
        return self if _is_int(other, 0) else self._made("-", self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._made("-", other, self)

    def __mul__(self, other: Any) -> Any:
        if _is_int(other, 0):
            return 0
        return self if _is_int(other, 1) else self._made("*", self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        if isinstance(other, Symbol) and other.text == self.text and (self.low or 0) > 0:
            return 1
        is_same = _is_int(other, 1) and type(self.value) is int
        return self if is_same else self._made("//", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._made("//", other, self)

    def __mod__(self, other: Any) -> Any:
        is_none = _is_int(other, 1) and type(self.value) is int
        return 0 if is_none else self._made("%", self, other)

    def __rmod__(self, other: Any) -> Any:
        return self._made("%", other, self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __truediv__(self, other: Any) -> Any:
        return self._made("/", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._made("/", other, self)

    def __neg__(self) -> Any:
        return self.symbols.made(f"(-{self.text})", -self.value, None)

    def _made(self, sign: str, x: Any, y: Any) -> Any:
        """Return the symbol of an operation on numbers; leave others to the other operand."""
        if not _is_number(x) or not _is_number(y):
            return NotImplemented
        value = _OPERATORS[sign](_value(x), _value(y))
        low = _low(sign, _least(x), _least(y))
        return self.symbols.made(f"({_text(x)}{sign}{_text(y)})", value, low)

    # ---- questions ----

    def __eq__(self, other: object) -> Any:
        return self._compared("==", other)

    def __ne__(self, other: object) -> Any:
        return self._compared("!=", other)

    def __lt__(self, other: Any) -> Any:
        return self._compared("<", other)

    def __le__(self, other: Any) -> Any:
        return self._compared("<=", other)

    def __gt__(self, other: Any) -> Any:
        return self._compared(">", other)

    def __ge__(self, other: Any) -> Any:
        return self._compared(">=", other)

    def _compared(self, sign: str, other: Any) -> Any:
        if not _is_number(other):
            return NotImplemented
        answer: bool = _OPERATORS[sign](self.value, _value(other))
        if isinstance(other, Symbol):
            if other.text == self.text:
                return answer
        elif self.low is not None and (
            self.low > other or (self.low == other and sign in ("<", ">="))
        ):
            return answer  # as for all that are greater
        return self.symbols.ask(f"({self.text}{sign}{_text(other)})", answer)

    def __bool__(self) -> bool:
        return bool(self != 0)

    def _known(self) -> Number:
        self.symbols.ask(f"({self.text}=={self.value!r})", True)
        return self.value

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def bit_length(self) -> int:
        """Return how many bits it has: the same for all that have the same greatest bit."""
        bits = int(self.value).bit_length()
        if self.value < 1 or self < 1 << (bits - 1) or self >= 1 << bits:
            return int(self).bit_length()
        return bits

    def __index__(self) -> int:
        return operator.index(self._known())  # type: ignore[arg-type]

    def __int__(self) -> int:
        return int(self._known())

    def __float__(self) -> float:
        return float(self._known())

    # ---- what asks for the number ----

    def _with_number(name: str) -> Any:  # type: ignore[misc]  # makes the methods below
        def method(self: Symbol, *others: Any) -> Any:
            if not all(_is_number(x) for x in others):
                return NotImplemented
            return getattr(self._known(), name)(
                *[x._known() if is_symbol(x) else x for x in others]
            )

        return method

    __pos__, __invert__ = map(_with_number, ("__pos__", "__invert__"))
    __round__, __trunc__ = _with_number("__round__"), _with_number("__trunc__")
    __floor__, __ceil__ = _with_number("__floor__"), _with_number("__ceil__")
    __pow__, __rpow__ = _with_number("__pow__"), _with_number("__rpow__")
    __and__, __rand__ = _with_number("__and__"), _with_number("__rand__")
    __or__, __ror__ = _with_number("__or__"), _with_number("__ror__")
    __xor__, __rxor__ = _with_number("__xor__"), _with_number("__rxor__")
    __lshift__, __rlshift__ = _with_number("__lshift__"), _with_number("__rlshift__")
    __rshift__, __rrshift__ = _with_number("__rshift__"), _with_number("__rrshift__")

    def __hash__(self) -> int:
        # What is found by it would be found again for kernels that know nothing of this one.
        raise UnhashableSymbolError(
            f"a cache requires known numbers, got the symbol {self!r}; keep what is made of sizes "
            "that a kernel gets at launch out of caches, or ask for its value: require_known(size)"
        )

    def __repr__(self) -> str:
        return f"{self.text}={self.value}"


_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv,
    "%": operator.mod, "/": operator.truediv, "==": operator.eq, "!=": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def _is_int(x: Any, wanted: int) -> bool:
    return type(x) is int and x == wanted


def _is_number(x: Any) -> bool:
    return isinstance(x, Symbol | int | float)


def _value(x: Any) -> Any:
    return x.value if isinstance(x, Symbol) else x


def _text(x: Any) -> str:
    if isinstance(x, Symbol):
        return x.text
    # NumPy's own float is one of Python's, and writes itself as a call.
    return float.__repr__(x) if isinstance(x, float) else repr(x)


def _least(x: Any) -> int | None:
    if isinstance(x, Symbol):
        return x.low
    return x if type(x) is int else None


def _low(sign: str, x: int | None, y: int | None) -> int | None:
    """Return a number below which a result never is, given such numbers of the operands."""
    if x is None or y is None or x < 0 or y < 0:
        return None
    if sign in "+*":
        return x + y if sign == "+" else x * y
    return 0 if sign in ("//", "%") and y > 0 else None


def require_known(value: Any) -> int:
    """Return an int, or of a symbol its value, which becomes part of the kernel."""
    return operator.index(value)


def is_symbol(value: object) -> bool:
    """Whether a number is known only when the kernel is launched."""
    return isinstance(value, Symbol)


def numbers_of(values: Sequence[Any]) -> tuple[Number, ...]:
    """Return the values at hand of numbers, some of which may be symbols."""
    return tuple(_value(x) for x in values)


def is_of_first(text: str, count: int) -> bool:
    """Whether an expression has no symbol but the first so many."""
    return all(int(n) < count for n in re.findall(r"\bn(\d+)", text))
