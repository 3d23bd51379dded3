"""A value of a scalar rule as it is written: a node's output, with Python's operators."""

from __future__ import annotations

from typing import Any, NoReturn

from pyrite.onnx.exporter.call import Call, Value
from pyrite.types import DType, bool_


class Term:
    """A value of a rule: a node's output, with Python's operators."""

    __slots__ = ("call", "value")

    __hash__ = None  # type: ignore[assignment]  # equality is a node

    def __init__(self, call: Call, value: Value) -> None:
        self.call = call
        self.value = value

    @property
    def dtype(self) -> DType:
        """Element type, for rules that ask."""
        return self.value.dtype

    def of(self, other: Any) -> Value:
        """Return another operand in this one's dtype."""
        if isinstance(other, Term):
            return other.value
        return self.call.number(other, self.value.dtype)

    def node(self, op_type: str, *others: Any, dtype: DType | None = None, **attrs: Any) -> Term:
        """Return the output of a node on this value and others."""
        operands = [self.of(x) for x in others]
        return Term(self.call, self.call.emit(op_type, self.value, *operands, dtype=dtype, **attrs))

    def _reflected(self, op_type: str, other: Any) -> Term:
        return Term(self.call, self.of(other)).node(op_type, self)

    def __add__(self, other: Any) -> Term:
        return self.node("Add", other)

    def __radd__(self, other: Any) -> Term:
        return self._reflected("Add", other)

    def __sub__(self, other: Any) -> Term:
        return self.node("Sub", other)

    def __rsub__(self, other: Any) -> Term:
        return self._reflected("Sub", other)

    def __mul__(self, other: Any) -> Term:
        return self.node("Mul", other)

    def __rmul__(self, other: Any) -> Term:
        return self._reflected("Mul", other)

    def __truediv__(self, other: Any) -> Term:
        return self.node("Div", other)

    def __rtruediv__(self, other: Any) -> Term:
        is_one = isinstance(other, int | float) and other == 1
        return self.node("Reciprocal") if is_one else self._reflected("Div", other)

    def __neg__(self) -> Term:
        return 0 - self if self.dtype.kind == "uint" else self.node("Neg")

    def __pos__(self) -> Term:
        return self

    def __lt__(self, other: Any) -> Term:
        return self.node("Less", other, dtype=bool_)

    def __le__(self, other: Any) -> Term:
        return self.node("LessOrEqual", other, dtype=bool_)

    def __gt__(self, other: Any) -> Term:
        return self.node("Greater", other, dtype=bool_)

    def __ge__(self, other: Any) -> Term:
        return self.node("GreaterOrEqual", other, dtype=bool_)

    def __eq__(self, other: Any) -> Term:  # type: ignore[override]
        return self.node("Equal", other, dtype=bool_)

    def __ne__(self, other: Any) -> Term:  # type: ignore[override]
        return self.node("Equal", other, dtype=bool_).node("Not")

    def _logic(self, of_bools: str, of_integers: str, other: Any) -> Term:
        return self.node(of_bools if self.dtype is bool_ else of_integers, other)

    def __and__(self, other: Any) -> Term:
        return self._logic("And", "BitwiseAnd", other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Term:
        return self._logic("Or", "BitwiseOr", other)

    __ror__ = __or__

    def __xor__(self, other: Any) -> Term:
        return self._logic("Xor", "BitwiseXor", other)

    __rxor__ = __xor__

    def __invert__(self) -> Term:
        return self.node("Not" if self.dtype is bool_ else "BitwiseNot")

    def __bool__(self) -> NoReturn:
        raise self.call.error("a rule that does not branch on a value")
