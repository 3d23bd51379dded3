"""Sizes of tensors as the body of a composite sees them while it is traced: ints that are marked.

What is calculated of them is marked too, and where such a number meets a tensor it is an input of
the graph, not part of it: so ``x.sum() / x.shape[0]`` is one graph, and one kernel, for all sizes.
Everything else takes them for the ints and floats that they are.  Where the mark gets lost
(``float(n)``, ``math.sqrt(n)``, a float on the left of an int) the number is a part of the graph as
any other: as right, only compiled again for another size.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final


def _arithmetic(sign: str, function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        return _made(sign, function, self, other)

    return method


def _reflected(sign: str, function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        return _made(sign, function, other, self)

    return method


class SizeNumber:
    """A number that is made of sizes; ``text`` says how, so equal texts of one body are one."""

    text: str

    __add__, __radd__ = _arithmetic("+", operator.add), _reflected("+", operator.add)
    __sub__, __rsub__ = _arithmetic("-", operator.sub), _reflected("-", operator.sub)
    __mul__, __rmul__ = _arithmetic("*", operator.mul), _reflected("*", operator.mul)
    __mod__, __rmod__ = _arithmetic("%", operator.mod), _reflected("%", operator.mod)
    __pow__, __rpow__ = _arithmetic("**", operator.pow), _reflected("**", operator.pow)
    __truediv__ = _arithmetic("/", operator.truediv)
    __rtruediv__ = _reflected("/", operator.truediv)
    __floordiv__ = _arithmetic("//", operator.floordiv)
    __rfloordiv__ = _reflected("//", operator.floordiv)

    def __neg__(self) -> Any:
        return _made("-", operator.sub, 0, self)


class SizeInt(SizeNumber, int):
    """A marked int, which also says that it is of the class int."""

    def __new__(cls, value: int, text: str) -> SizeInt:
        """Return the int, marked."""
        made = super().__new__(cls, value)
        made.text = text
        return made

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return int


class SizeFloat(SizeNumber, float):
    """A marked float, which also says that it is of the class float."""

    def __new__(cls, value: float, text: str) -> SizeFloat:
        """Return the float, marked."""
        made = super().__new__(cls, value)
        made.text = text
        return made

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return float


def _made(sign: str, function: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
    if not isinstance(x, int | float) or not isinstance(y, int | float):
        return NotImplemented
    value = function(unmarked(x), unmarked(y))
    text = f"({_text(x)}{sign}{_text(y)})"
    if type(value) is int:
        return SizeInt(value, text)
    return SizeFloat(value, text) if type(value) is float else value


def _text(x: Any) -> str:
    return x.text if isinstance(x, SizeNumber) else repr(x)


#: What the elements of most tuples are: then these have no mark.
_UNMARKED: Final = frozenset({int, float, bool, str, type(None)})


def unmarked(value: Any) -> Any:
    """Return a number without its mark; tuples, lists and slices with such numbers; others as such.

    >>> unmarked((SizeInt(3, "n"), 1)), type(unmarked(SizeFloat(0.5, "n")))
    ((3, 1), <class 'float'>)
    """
    kind = type(value)
    if kind is SizeInt:
        return int.__int__(value)
    if kind is SizeFloat:
        return float.__float__(value)
    if kind is tuple or kind is list:
        if kind is tuple and _UNMARKED.issuperset(map(type, value)):
            return value
        return kind([unmarked(x) for x in value])
    if kind is slice:
        return slice(unmarked(value.start), unmarked(value.stop), unmarked(value.step))
    return value
