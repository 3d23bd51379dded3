"""A Python number that is not known yet: what the body of a composite gets while it is traced."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NoReturn

from pyrite.types import Number


class UntraceableError(Exception):
    """A body did what no graph can hold, as to ask for a value; the composite is expanded."""


def _arithmetic(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: SymbolicNumber, other: Any) -> Any:
        return _made(function, (self, other))

    return method


def _reflected(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: SymbolicNumber, other: Any) -> Any:
        return _made(function, (other, self))

    return method


def _refused(name: str) -> Callable[..., NoReturn]:
    def method(*_: Any) -> NoReturn:
        raise UntraceableError(f"{name} of a number that only a call knows")

    return method


class SymbolicNumber:
    """A float that only a call knows: an input of an op by its position, or arithmetic with one.

    Beside a tensor it is weak, as any Python float.  What needs its value raises UntraceableError,
    and so does all that a float has and this has not.
    """

    __slots__ = ("function", "operands", "position")

    def __init__(
        self,
        position: int = -1,
        function: Callable[..., Any] | None = None,
        operands: tuple[SymbolicNumber | Number, ...] = (),
    ) -> None:
        self.position = position
        self.function = function
        self.operands = operands

    def __getattr__(self, name: str) -> NoReturn:
        raise UntraceableError(f"{name} of a number that only a call knows")

    def __neg__(self) -> Any:
        return _made(operator.mul, (-1.0, self))

    __add__, __radd__ = _arithmetic(operator.add), _reflected(operator.add)
    __sub__, __rsub__ = _arithmetic(operator.sub), _reflected(operator.sub)
    __mul__, __rmul__ = _arithmetic(operator.mul), _reflected(operator.mul)
    __truediv__, __rtruediv__ = _arithmetic(operator.truediv), _reflected(operator.truediv)
    __float__ = __int__ = __index__ = __bool__ = __hash__ = _refused("the value")
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refused("a comparison")
    __pow__ = __rpow__ = __mod__ = __rmod__ = _refused("a power or remainder")
    __floordiv__ = __rfloordiv__ = __abs__ = __round__ = _refused("a rounding")


def _made(function: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
    if not all(isinstance(x, SymbolicNumber | int | float) for x in operands):
        return NotImplemented
    # As Python says it: isinstance is to hold of what is made of a SymbolicFloat too.
    kind = next(type(x) for x in operands if isinstance(x, SymbolicNumber))
    return kind(function=function, operands=operands)


class SymbolicFloat(SymbolicNumber):
    """One that passes for a float where its class is asked for."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return float


class SymbolicInteger(SymbolicNumber):
    """One that passes for an int where its class is asked for."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return int
