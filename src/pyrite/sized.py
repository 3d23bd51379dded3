"""Sizes as symbols outside of kernels: one run of Python code that serves many sizes.

What plans a call is run once with a `SizeSymbol` in place of each size and stride.  Arithmetic
gives such symbols, and each question that is asked of one is a guard, as while a kernel is written
(`pyrite.symbol`).  What it found, and the guards, become one function of the sizes: it returns what
the code would have found for these, or None where that would have gone another way.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from pyrite.content import ContentKey
from pyrite.errors import KernelError
from pyrite.products import Products
from pyrite.symbol import LEAST, Symbol, Symbols
from pyrite.types import Number

T = TypeVar("T")

#: From numbers to what was made of them, None where a guard does not hold.
Sized = Callable[..., "tuple[Number, ...] | None"]


class Miss(NamedTuple):
    """A question by its number, and what numbers answer to it of which a class wants another."""

    question: int
    answer: Any


#: From numbers to what was made of them, or what is otherwise.
Judged = Callable[..., "tuple[Number, ...] | Miss"]

_NAMES: Final = re.compile(r"t\d+")
_NAMES_OR_FUNCTIONS: Final = re.compile(r"[tf]\d+")
#: Stands around the number of a symbol in a text.
_MARK: Final = "\0"


class SizeSymbol(Symbol):
    """A symbol that passes for a number of Python's wherever code asks for its class.

    What reads a number without asking it (``range``, an index, `math.gcd`) takes it by
    ``__index__``, which is a guard that it is this number; so none is read unseen.
    """

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self.value)

    symbols: SizeSymbols

    def __str__(self) -> str:
        # A text is for people, and gets the number when there is one: see `SizeSymbols.parts`.
        return f"{_MARK}{self.symbols.shown(self)}{_MARK}"

    __repr__ = __str__

    def _made(self, sign: str, x: Any, y: Any) -> Any:
        made = super()._made
        return self.symbols.products.made(sign, x, y, lambda: made(sign, x, y))

    def _compared(self, sign: str, other: Any) -> Any:
        products = self.symbols.products
        if products.are_equal(self, other):
            return sign in ("==", "<=", ">=")
        answer = super()._compared(sign, other)
        if answer is (sign == "==") and sign in ("==", "!="):
            products.equate(self, other)
        return answer

    def _known(self) -> Number:
        known = super()._known()
        self.symbols.products.equate(self, known)
        return known

    def __hash__(self) -> int:
        self.symbols.unhashed = self
        return super().__hash__()

    def __format__(self, spec: str) -> str:
        return format(self._known(), spec) if spec else str(self)


class SizeSymbols(Symbols):
    """The symbols of one run, each expression of them under a name, and what was asked in order.

    >>> symbols = SizeSymbols()
    >>> rows, columns = symbols.size(30), symbols.size(8)
    >>> count = -(-rows * columns // 16) if rows > 4 else 1
    >>> found = symbols.program([count, 7])
    >>> found(30, 8), found(5, 3), found(3, 8)
    ((15, 7), (1, 7), None)
    """

    def __init__(self, *, asks_least: bool = True) -> None:
        super().__init__()
        #: Whether a size below 2 is a guard: not where only such are given that agree in these.
        self.asks_least = asks_least
        #: What symbols are as products of others.
        self.products = Products()
        #: Statements in order: a name and its expression, or a question and its answer.
        self._lines: list[tuple[str, str | bool]] = []
        self._named: dict[str, str] = {}
        self._shown: list[Symbol] = []
        #: The last one that code wanted to keep something by.
        self.unhashed: Symbol | None = None
        #: What expressions call, by name, and what the calls are to return.
        self._called: dict[str, Any] = {}
        self._names: dict[Callable[..., Any], str] = {}
        #: Of questions to functions, by their texts, the call, and what it is to return by name.
        self._calls: dict[str, tuple[str, str]] = {}
        #: The names of what calls are to return.
        self._answered: dict[str, str] = {}
        #: How many questions were asked, the same again too.
        self._asked = 0

    def size(self, value: int) -> Any:
        """Return the next symbol, or of a number below 2 itself: then the guard is that."""
        if value >= LEAST:
            symbol = self.symbol(value)
            if self.asks_least:
                self.ask(f"({symbol.text}>={LEAST})", True)
            return symbol
        if self.asks_least:
            return self.known(value)
        self.count += 1
        return value

    def known(self, value: int) -> int:
        """Return a number that is the same in all runs: the guard is that."""
        self.count += 1
        self.ask(f"(n{self.count - 1}=={value})", True)
        return value

    def made(self, text: str, value: Number, low: int | None) -> Symbol:
        """Return the symbol of an expression, which is computed once."""
        if not math.isfinite(value):
            raise KernelError(f"a plan requires finite numbers of sizes, got {value}")
        if text.startswith("("):
            name = self._named.get(text)
            if name is None:
                name = self._named[text] = f"t{len(self._named)}"
                self._lines.append((name, text))
            text = name
        return SizeSymbol(self, text, value, low)

    def answer(self, function: Callable[..., Any], sizes: Sequence[Any]) -> Any:
        """Return what a function says of sizes, as one question: the guard is that it says this.

        It depends on nothing else, and asks no symbol itself.

        >>> symbols = SizeSymbols()
        >>> rows = symbols.size(30)
        >>> symbols.answer(lambda n: "few" if n < 100 else "many", [rows])
        'few'
        >>> found = symbols.program([rows * 2])
        >>> found(50), found(100)
        ((100,), None)
        """
        asked = self._asked
        found = function(*map(_number, sizes))
        if self._asked != asked:
            raise KernelError("a question to a function requires that it asks no symbol itself")
        call = self._call(function, sizes)
        if call not in self._answered:
            wanted = self._answered[call] = f"v{len(self._called)}"
            self._called[wanted] = found
            text = f"({call}=={wanted})"
            self._calls[text] = call, wanted
            self.ask(text, True)
        return found

    def computed(
        self, function: Callable[..., Number], sizes: Sequence[Any], low: int | None
    ) -> Symbol:
        """Return the symbol of what a function makes of sizes, never less than a number, if any."""
        found = function(*map(_number, sizes))
        return self.made(f"({self._call(function, sizes)})", found, low)

    def _call(self, function: Callable[..., Any], sizes: Sequence[Any]) -> str:
        name = self._names.get(function)
        if name is None:
            name = self._names[function] = f"f{len(self._names)}"
            self._called[name] = function
        texts = [x.text if isinstance(x, Symbol) else repr(x) for x in sizes]
        return f"{name}({','.join(texts)})"

    def shown(self, symbol: Symbol) -> int:
        """Return the number under which a text has a symbol."""
        self._shown.append(symbol)
        return len(self._shown) - 1

    def parts(self, text: str) -> list[Any]:
        """Return the parts of a text, of which each second one is a symbol."""
        parts: list[Any] = text.split(_MARK)
        parts[1::2] = [self._shown[int(n)] for n in parts[1::2]]
        return parts

    def made_of(self, symbol: Symbol | None) -> set[int]:
        """Return of which symbols, by their numbers, one is made."""
        found: set[int] = set()
        texts, left = dict(self._lines), [] if symbol is None else [symbol.text]
        while left:
            text = left.pop()
            found.update(int(n) for n in re.findall(r"n(\d+)", text))
            left += [str(texts[name]) for name in _NAMES.findall(text)]
        return found

    def ask(self, text: str, answer: bool) -> bool:
        """Note the answer to a question, and return it."""
        self._asked += 1
        if text not in self.guards:
            self._lines.append((text, answer))
        return super().ask(text, answer)

    def program(self, wanted: Sequence[Any]) -> Sized:
        """Return the function of all sizes, in the order in which they were given."""

        def judged(text: str, answer: bool) -> str:
            return f"if {'not ' * answer}{text}: return None"

        return self._compiled(wanted, judged)

    def judged_program(self, wanted: Sequence[Any]) -> tuple[Judged, Mapping[int, Any]]:
        """Return the same with what is otherwise for sizes of another class, and all answers.

        A question has one number in all runs, so one answer tells several classes apart.

        >>> symbols = SizeSymbols()
        >>> found, answers = symbols.judged_program([symbols.size(30) + 1])
        >>> found(50), found(1).answer, answers[found(1).question]
        ((51,), False, True)
        """
        numbers, answers = self._numbers(), dict[int, Any]()

        def judged(text: str, answer: bool) -> str:
            number = numbers[text]
            call, name = self._calls.get(text, ("", ""))
            # Where it is asked first, of a question that is asked twice.
            answers.pop(number, None)
            answers[number] = self._called[name] if name else answer
            if not name:
                return f"if {'not ' * answer}{text}: return miss({number},{not answer})"
            return f"a={call}\n if a!={name}: return miss({number},a)"

        program = self._compiled(wanted, judged)  # which goes from the last question to the first
        return program, dict(reversed(answers.items()))

    def _compiled(
        self, wanted: Sequence[Any], asked: Callable[[str, bool], str]
    ) -> Callable[..., Any]:
        """Return a function of all sizes; ``asked`` gives the statement of a question."""
        texts = [x.text if isinstance(x, Symbol) else repr(x) for x in wanted]
        needed = {name for text in texts for name in _NAMES.findall(text)}
        lines: list[str] = []
        for name, of in reversed(self._lines):
            if isinstance(of, bool):
                lines.append(asked(name, of))
                needed.update(_NAMES.findall(name))
            elif name in needed:
                lines.append(f"{name}={of}")
                needed.update(_NAMES.findall(of))
        names = ",".join(f"n{i}" for i in range(self.count))
        body = "\n ".join([*reversed(lines), f"return ({''.join(f'{t},' for t in texts)})"])
        # The text is made of numbers, names and operators by the methods of `Symbol` alone.
        found = {"__builtins__": {}, "inf": math.inf, "nan": math.nan, "miss": Miss, **self._called}
        exec(f"def program({names}):\n {body}", found)
        return found["program"]  # type: ignore[no-any-return]

    def _numbers(self) -> dict[str, int]:
        """Return the numbers of questions by their texts: what they are of, whatever its names."""
        known = {name: hash(function) for function, name in self._names.items()}
        found: dict[str, int] = {}

        def number(text: str) -> int:
            return hash(_NAMES_OR_FUNCTIONS.sub(lambda name: f"<{known[name[0]]}>", text))

        for name, of in self._lines:
            if isinstance(of, str):
                known[name] = number(of)
            else:
                call, _ = self._calls.get(name, (name, ""))
                found[name] = number(call)
        return found


def is_size(value: object) -> bool:
    """Whether a number is a size that is not known; its class says that it is a number."""
    return type(value) is SizeSymbol


def computed(function: Callable[..., int], *sizes: Any, low: int = 1) -> int:
    """Return what a function makes of sizes, of which one may not be known: then its symbol.

    It is never less than ``low``, and depends on the sizes alone.
    """
    symbol = next(filter(is_size, sizes), None)
    if symbol is None:
        return function(*sizes)
    found: int = symbol.symbols.computed(function, sizes, low)
    return found


def asked(function: Callable[..., T], *sizes: Any) -> T:
    """Return what a function says of sizes: of such as are not known by one question.

    It depends on these numbers alone.
    """
    symbol = next(filter(is_size, sizes), None)
    if symbol is None:
        return function(*sizes)
    found: T = symbol.symbols.answer(function, sizes)
    return found


def _number(x: Any) -> Any:
    return x.value if isinstance(x, Symbol) else x


def size_of(value: Any) -> SizeSymbol | None:
    """Return a number as a size that is not known, None where it is known."""
    return value if is_size(value) else None


def has_symbol(values: Iterable[Any]) -> bool:
    """Whether one of some numbers, or of tuples of them, is a size that is not known."""
    return any(is_size(x) or (type(x) is tuple and has_symbol(x)) for x in values)


def key_of_sizes(value: Any) -> Any:
    """Return a value with what tells symbols from all others in their place, in tuples too."""
    if is_size(value):
        return ContentKey((id(value.symbols), value.text))
    if type(value) is tuple and has_symbol(value):
        return tuple([key_of_sizes(x) for x in value])
    return value
