"""Python's operators, so that expressions of values read as code."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, NoReturn, Self

import numpy as np

from pyrite.algebra import Algebra
from pyrite.errors import KernelError
from pyrite.types import Number


class Operators(ABC):
    """What has operators, given what they mean."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # == records a comparison

    @abstractmethod
    def apply(self, name: str, *operands: Self | Number) -> Self:
        """Apply an operation of `OPCODES`."""

    @abstractmethod
    def divide(self, x: Self | Number, y: Self | Number) -> Self:
        """Return x / y of floats."""

    @abstractmethod
    def floor_divide(self, x: Self | Number, y: Self | Number) -> Self:
        """Return x // y."""

    @abstractmethod
    def remainder(self, x: Self | Number, y: Self | Number) -> Self:
        """Return x % y."""

    @abstractmethod
    def shift(self, name: str, x: Self | Number, n: Self | Number) -> Self:
        """Return x << n, which is "shl", or x >> n, "shr"."""

    def __add__(self, y: Self | Number) -> Self:
        if isinstance(y, tuple):
            return NotImplemented  # a vector has operators of its own
        return self.apply("add", self, y)

    def __radd__(self, x: Self | Number) -> Self:
        return self.apply("add", x, self)

    def __sub__(self, y: Self | Number) -> Self:
        if isinstance(y, tuple):
            return NotImplemented  # a vector has operators of its own
        return self.apply("sub", self, y)

    def __rsub__(self, x: Self | Number) -> Self:
        return self.apply("sub", x, self)

    def __mul__(self, y: Self | Number) -> Self:
        if isinstance(y, tuple):
            return NotImplemented  # a vector has operators of its own
        return self.apply("mul", self, y)

    def __rmul__(self, x: Self | Number) -> Self:
        return self.apply("mul", x, self)

    def __truediv__(self, y: Self | Number) -> Self:
        if isinstance(y, tuple):
            return NotImplemented  # a vector has operators of its own
        return self.divide(self, y)

    def __rtruediv__(self, x: Self | Number) -> Self:
        return self.divide(x, self)

    def __floordiv__(self, y: Self | Number) -> Self:
        return self.floor_divide(self, y)

    def __rfloordiv__(self, x: Self | Number) -> Self:
        return self.floor_divide(x, self)

    def __mod__(self, y: Self | Number) -> Self:
        return self.remainder(self, y)

    def __rmod__(self, x: Self | Number) -> Self:
        return self.remainder(x, self)

    def __divmod__(self, y: Self | Number) -> tuple[Self, Self]:
        return self.floor_divide(self, y), self.remainder(self, y)

    def __rdivmod__(self, x: Self | Number) -> tuple[Self, Self]:
        return self.floor_divide(x, self), self.remainder(x, self)

    def __lshift__(self, y: Self | Number) -> Self:
        return self.shift("shl", self, y)

    def __rlshift__(self, x: Self | Number) -> Self:
        return self.shift("shl", x, self)

    def __rshift__(self, y: Self | Number) -> Self:
        return self.shift("shr", self, y)

    def __rrshift__(self, x: Self | Number) -> Self:
        return self.shift("shr", x, self)

    def __and__(self, y: Self | Number) -> Self:
        return self.apply("and", self, y)

    def __rand__(self, x: Self | Number) -> Self:
        return self.apply("and", x, self)

    def __or__(self, y: Self | Number) -> Self:
        return self.apply("or", self, y)

    def __ror__(self, x: Self | Number) -> Self:
        return self.apply("or", x, self)

    def __xor__(self, y: Self | Number) -> Self:
        return self.apply("xor", self, y)

    def __rxor__(self, x: Self | Number) -> Self:
        return self.apply("xor", x, self)

    def __invert__(self) -> Self:
        return self.apply("not", self)

    def __pos__(self) -> Self:
        return self

    def __neg__(self) -> Self:
        return self.apply("neg", self)

    def __abs__(self) -> Self:
        return self.apply("abs", self)

    def __lt__(self, y: Self | Number) -> Self:
        return self.apply("lt", self, y)

    def __le__(self, y: Self | Number) -> Self:
        return self.apply("le", self, y)

    def __gt__(self, y: Self | Number) -> Self:
        return self.apply("gt", self, y)

    def __ge__(self, y: Self | Number) -> Self:
        return self.apply("ge", self, y)

    def __eq__(self, y: Self | Number) -> Self:  # type: ignore[override]
        return self.apply("eq", self, y)

    def __ne__(self, y: Self | Number) -> Self:  # type: ignore[override]
        return self.apply("ne", self, y)

    # ---- what Python asks of numbers, and a kernel says in another way ----

    def __pow__(self, y: Self | Number) -> NoReturn:
        raise KernelError(
            "** requires Python numbers, got a value of a kernel; use k.math.pow(x, y)"
        )

    __rpow__ = __pow__

    def __bool__(self) -> bool:
        raise _known_later(
            "if, while, and, or, not require a Python bool",
            "use select, if_ or while_, and & | ~; or plain Python in a kernel with a file",
        )

    def __int__(self) -> int:
        raise _known_later("int requires a Python number", "use k.cast(x, 'int32')")

    def __float__(self) -> float:
        raise _known_later(
            "float and Python's math require a Python number",
            "use k.cast(x, 'float32'), and k.math, as k.math.exp(x)",
        )

    def __index__(self) -> int:
        raise _known_later(
            "range and indices of Python's sequences require a Python int",
            "use k.for_(0, n), loop over k.static(range(n)) to have Python's ints, or k.select",
        )

    def __round__(self, digits: int | None = None) -> NoReturn:
        raise _known_later("round requires a Python number", "use k.rint(x)")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **_: Any) -> Any:
        """Compute an operator beside one of NumPy's numbers; refuse NumPy's functions."""
        symbol = _SYMBOLS.get(ufunc.__name__)
        if symbol is not None and all(np.ndim(x) == 0 for x in inputs if x is not self):
            return symbol(
                *(x.item() if isinstance(x, np.generic | np.ndarray) else x for x in inputs)
            )
        fix = _in_a_kernel(ufunc) if symbol is None else "make the array an input of the op"
        raise KernelError(
            f"np.{ufunc.__name__} requires arrays alone, got a value of a kernel; {fix}"
        )


def _in_a_kernel(ufunc: Any) -> str:
    name = _RENAMED.get(ufunc.__name__, ufunc.__name__)
    operands = "x, y" if ufunc.nin == 2 else "x"
    return f"use k.math.{name}({operands})" if hasattr(Algebra, name) else "use k.math"


def _known_later(requirement: str, fix: str) -> KernelError:
    return KernelError(
        f"{requirement}, got a value of a kernel, which is known only when the kernel runs; {fix}"
    )


#: NumPy's names of the operators, by which its numbers call them: np.float32(2) * x.
_SYMBOLS: Final[dict[str, Callable[..., Any]]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul,
    "divide": operator.truediv, "floor_divide": operator.floordiv, "remainder": operator.mod,
    "less": operator.lt, "less_equal": operator.le, "greater": operator.gt,
    "greater_equal": operator.ge, "equal": operator.eq, "not_equal": operator.ne,
    "bitwise_and": operator.and_, "bitwise_or": operator.or_, "bitwise_xor": operator.xor,
    "left_shift": operator.lshift, "right_shift": operator.rshift,
}  # fmt: skip

#: NumPy's names of what `pyrite.algebra` calls otherwise.
_RENAMED: Final = {"power": "pow", "absolute": "abs"}
