"""Python's operators, so that expressions of values read as code."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

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
        """x / y of floats."""

    @abstractmethod
    def divide_integers(self, x: Self | Number, y: Self | Number) -> Self:
        """x / y of integers, truncated."""

    def __add__(self, y: Self | Number) -> Self:
        return self.apply("add", self, y)

    def __radd__(self, x: Self | Number) -> Self:
        return self.apply("add", x, self)

    def __sub__(self, y: Self | Number) -> Self:
        return self.apply("sub", self, y)

    def __rsub__(self, x: Self | Number) -> Self:
        return self.apply("sub", x, self)

    def __mul__(self, y: Self | Number) -> Self:
        return self.apply("mul", self, y)

    def __rmul__(self, x: Self | Number) -> Self:
        return self.apply("mul", x, self)

    def __truediv__(self, y: Self | Number) -> Self:
        return self.divide(self, y)

    def __rtruediv__(self, x: Self | Number) -> Self:
        return self.divide(x, self)

    def __floordiv__(self, y: Self | Number) -> Self:
        return self.divide_integers(self, y)

    def __rfloordiv__(self, x: Self | Number) -> Self:
        return self.divide_integers(x, self)

    def __mod__(self, y: Self | Number) -> Self:
        return self.apply("rem", self, y)

    def __rmod__(self, x: Self | Number) -> Self:
        return self.apply("rem", x, self)

    def __lshift__(self, y: Self | Number) -> Self:
        return self.apply("shl", self, y)

    def __rshift__(self, y: Self | Number) -> Self:
        return self.apply("shr", self, y)

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

    def __bool__(self) -> bool:
        raise KernelError(
            "if, while, and, or, not require a Python bool, got a value of a kernel, which is "
            "known only when the kernel runs; use select, if_ or while_, and & | ~"
        )
