"""A Python number that is another one at each call of a compiled function, and where it comes from.

The step that an optimiser makes is one, its rate, the words of a draw, and what is made of these by
arithmetic.  While a call is captured it has the value of that call; a replay computes it anew.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable
from contextvars import ContextVar
from typing import Any, NamedTuple, NoReturn, TypeGuard

from pyrite.errors import CompileError
from pyrite.types import Number


class Choice(NamedTuple):
    """What was asked of host scalars, as ``step == 1``, and the answer."""

    asked: HostScalar
    answer: bool


#: The choices of the call that is captured here.
choices: ContextVar[list[Choice] | None] = ContextVar("pyrite_choices", default=None)


def _arithmetic(function: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def method(self: HostScalar, other: Any) -> Any:
        return _made(function, self, other)

    def reflected(self: HostScalar, other: Any) -> Any:
        return _made(function, other, self)

    return method, reflected


def _made(function: Callable[..., Any], *operands: Any) -> Any:
    if not all(isinstance(x, int | float) for x in operands):
        return NotImplemented
    return HostScalar(function(*map(value_of, operands)), function, operands)


def _unary(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: HostScalar) -> Any:
        return _made(function, self)

    return method


def _compared(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: HostScalar, other: Any) -> Any:
        if not isinstance(other, int | float):
            return NotImplemented
        return _chosen(_made(function, self, other))

    return method


def _chosen(asked: HostScalar) -> bool:
    answer = bool(asked.value)
    noted = choices.get()
    if noted is not None:
        noted.append(Choice(asked, answer))
    return answer


def _refused(name: str) -> Callable[..., NoReturn]:
    def method(self: HostScalar, *_: Any) -> NoReturn:
        raise CompileError(
            f"compile requires arithmetic with a number that changes from call to call, got {name} "
            f"of {self.value!r}, which would stay; write it with + - * / ** and comparisons"
        )

    return method


class HostScalar:
    """An int or a float, as far as its class is asked for, that tells how it was made.

    A comparison is answered, and noted: a replay asks again.  What would turn it into a number that
    stays, as ``float``, ``int`` and the functions of `math`, raises CompileError.
    """

    __slots__ = ("function", "operands", "value")

    def __init__(
        self,
        value: Number,
        function: Callable[..., Any] | None,
        operands: tuple[Any, ...],
    ) -> None:
        self.value = value
        #: What makes it of the operands; of a source there is none, and they name it.
        self.function = function
        self.operands = operands

    @classmethod
    def source(cls, value: Number, *name: Hashable) -> HostScalar:
        """Return a number that has a name, by which a replay asks for it."""
        return cls(value, None, name)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self.value)

    @property
    def key(self) -> Hashable:
        """What tells how it is made."""
        return (self.function, *[key_of(x) for x in self.operands])

    def __repr__(self) -> str:
        return repr(self.value)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    __add__, __radd__ = _arithmetic(operator.add)
    __sub__, __rsub__ = _arithmetic(operator.sub)
    __mul__, __rmul__ = _arithmetic(operator.mul)
    __truediv__, __rtruediv__ = _arithmetic(operator.truediv)
    __floordiv__, __rfloordiv__ = _arithmetic(operator.floordiv)
    __mod__, __rmod__ = _arithmetic(operator.mod)
    __pow__, __rpow__ = _arithmetic(operator.pow)
    __and__, __rand__ = _arithmetic(operator.and_)
    __lshift__, __rlshift__ = _arithmetic(operator.lshift)
    __rshift__, __rrshift__ = _arithmetic(operator.rshift)
    __neg__, __pos__, __abs__ = _unary(operator.neg), _unary(operator.pos), _unary(operator.abs)
    __eq__, __ne__ = _compared(operator.eq), _compared(operator.ne)
    __lt__, __le__ = _compared(operator.lt), _compared(operator.le)
    __gt__, __ge__ = _compared(operator.gt), _compared(operator.ge)
    __float__, __int__, __index__ = _refused("float()"), _refused("int()"), _refused("an index")
    __round__, __trunc__ = _refused("round()"), _refused("trunc()")
    __floor__, __ceil__ = _refused("floor()"), _refused("ceil()")
    __hash__ = _refused("the hash")
    __array__, __array_ufunc__ = _refused("an array"), _refused("a NumPy function")

    def __bool__(self) -> bool:
        return _chosen(_made(operator.ne, self, 0))


def is_host_scalar(x: Any) -> TypeGuard[HostScalar]:
    """Whether a number is one; its class says that it is an int or a float."""
    return type(x) is HostScalar


def value_of(x: Any) -> Any:
    """Return the number that a host scalar is at this call; anything else as it is."""
    return x.value if is_host_scalar(x) else x


def key_of(x: Any) -> Hashable:
    """Return what tells a part of an expression from others: how it is made, or what it is."""
    return x.key if is_host_scalar(x) else (type(x), repr(x))
