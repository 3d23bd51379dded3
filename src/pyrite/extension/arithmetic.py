"""What operators mean in an application's kernel: what they mean on tensors, of all operands.

Our own kernels compute with indices, which are neither negative nor too large, so they take what a
processor has.  An application computes with anything:

- ``//`` and ``%`` are Python's, of integers and floats: the floor of the quotient, and the rest
  with the divisor's sign.  Of integers by zero both are 0, where a processor would trap;
- ``<<`` and ``>>`` by the width or more, or by less than 0, are as `pyrite.algebra` says;
- ``cast`` of a float to an integer truncates and saturates, NaN becomes 0; to bool it is ``!= 0``;
- integers wrap around.

Where the range of the operands is known, as of coordinates, counters and constants, the plain
operation says the same and is what is written: then nothing is tested.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from pyrite.extension.mathematics import Mathematics, Noting, Plain
from pyrite.extension.vector import item_by_item
from pyrite.kernel import Value
from pyrite.kernel.builder import Operand
from pyrite.kernel.ir import Node, dtype_of
from pyrite.types import DType, DTypeLike, bool_, int32, uint32
from pyrite.types import dtype as as_dtype

#: Least and greatest value; (None, None) where they are not known.
Range = tuple[int, int] | tuple[None, None]

#: Operations whose extremes lie at the extremes of their operands.
_OF_ENDS: dict[str, Callable[[Any, Any], int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "min": min, "max": max,
}  # fmt: skip

#: What may leave the range of its dtype.
_WRAPPING = ("add", "sub", "mul", "neg", "shl")


class Arithmetic(Noting):
    """A `KernelBuilder` with the operators of tensors; ``counts`` are the workgroups of its grid.

    ``math`` has exp, log, tanh, erf and the like, as `pyrite.algebra` lists them, within a few ulp
    on every device; `Mathematics.truncated_divide` and ``truncated_remainder`` are C's division.
    """

    def __init__(
        self, name: str, *, workgroup_size: tuple[int, ...], grid: int, counts: tuple[int, ...] = ()
    ) -> None:
        super().__init__(name, workgroup_size=workgroup_size, grid=grid)
        #: Writes into the same kernel with the operators of indices: for our own code.
        self.plain = Plain(self)
        self.math = Mathematics(self, self.plain)
        self._counts = counts
        self._known: dict[Node, Range] = {}

    def note_applied(self, name: str, operands: Sequence[Value], result: Value) -> None:
        """Note a function of the mathematics, where the kernel is to be differentiated."""

    # ---- division ----

    def floor_divide(self, x: Operand, y: Operand) -> Value:
        """Return x // y, rounded down; of integers 0 for y = 0."""
        x, y = self._met("//", x, y)
        if not x.dtype.is_integer:
            return self.math.floor_divide(x, y)
        plain = super().alu
        if self._is_plain(x, y):
            return self._noted(plain("div", x, y), self._quotients(x, y))
        shift = self._power_of_two(y)
        if shift is not None:
            return plain("shr", x, shift)
        return self._at_faults(self._floored(x, self._safe_divisor(y)), x, y)

    def remainder(self, x: Operand, y: Operand) -> Value:
        """Return x % y, with the sign of y; of integers 0 for y = 0."""
        x, y = self._met("%", x, y)
        if not x.dtype.is_integer:
            return self.math.remainder(x, y)
        low, high = self._range(y.node)
        rests: Range = (0, high - 1) if low is not None and high is not None and low > 0 else _NONE
        plain = super().alu
        if self._is_near(x, y):
            return self._noted(self._turned(x, y), rests)
        if self._is_plain(x, y):
            return self._noted(plain("rem", x, y), rests)
        shift = self._power_of_two(y)
        if shift is not None:
            return self._noted(plain("and", x, (1 << shift) - 1), rests)
        safe = self._safe_divisor(y)
        if x.dtype.kind == "int":
            # Not of C's remainder: see `pyrite.kernel.polyfill.division.remainder`.
            rest = plain("sub", x, plain("mul", self._floored(x, safe), safe))
        else:
            rest = plain("rem", x, safe)
            if safe is not y:
                rest = self.select(y == 0, 0, rest)
        return self._noted(rest, rests)

    def _is_near(self, x: Value, y: Value) -> bool:
        """Whether x is known to be less than y away from the rests of a y that is known."""
        (low, high), (least, most) = self._range(x.node), self._range(y.node)
        if x.dtype.kind != "int" or low is None or high is None or least is None or most is None:
            return False
        return least == most and least > 0 and -least <= low and high < 2 * least

    def _turned(self, x: Value, y: Value) -> Value:
        """Return the rest of an x that is near: as an index beside others it is seen to be so."""
        (low, high), (size, _) = self._range(x.node), self._range(y.node)
        plain, found = super().alu, x
        assert low is not None
        assert high is not None
        assert size is not None
        if high >= size:
            found = self.select(x >= y, plain("sub", x, y), found)
        if low < 0:
            found = self.select(x < 0, plain("add", x, y), found)
        return found

    def _floored(self, x: Value, safe: Value) -> Value:
        """Return the quotient by a divisor that is safe, rounded down."""
        plain = super().alu
        quotient = plain("div", x, safe)
        if x.dtype.kind != "int":
            return quotient
        rest = plain("sub", x, plain("mul", quotient, safe))
        return self.select(self._is_below(rest, safe), plain("sub", quotient, 1), quotient)

    def _is_plain(self, x: Value, y: Value) -> bool:
        """Whether the processor's division is Python's."""
        (low, _), (least, _) = self._range(x.node), self._range(y.node)
        is_known = x.dtype.kind == "uint" or (low is not None and low >= 0)
        return is_known and least is not None and least > 0

    def _power_of_two(self, y: Value) -> int | None:
        """Return the exponent of a constant power of two."""
        low, high = self._range(y.node)
        if not isinstance(low, int) or low != high or low < 1 or low & (low - 1):
            return None
        return low.bit_length() - 1

    def _safe_divisor(self, y: Value) -> Value:
        """Return y, or 1 in its place where a division might trap: by 0, or of the least by -1."""
        if not self._may_trap(y):
            return y
        bad = y == 0
        return self.select(bad | (y == -1) if y.dtype.kind == "int" else bad, 1, y)

    def _may_trap(self, y: Value) -> bool:
        low, high = self._range(y.node)
        return low is None or high is None or not (low > 0 or high < -1)

    def _is_below(self, rest: Value, y: Value) -> Value:
        """Return whether the rest has not the sign of the divisor."""
        low, high = self._range(y.node)
        if low is not None and low > 0:
            return rest < 0
        if high is not None and high < 0:
            return rest > 0
        return (rest != 0) & ((rest ^ y) < 0)

    def _at_faults(self, quotient: Value, x: Value, y: Value) -> Value:
        """Return the quotient, with those of 0 and -1, which was that of 1: -x wraps around."""
        if not self._may_trap(y):
            return quotient
        if y.dtype.kind == "int":
            quotient = self.select(y == -1, super().alu("sub", 0, quotient), quotient)
        return self.select(y == 0, 0, quotient)

    def _quotients(self, x: Value, y: Value) -> Range:
        (low, high), (least, most) = self._range(x.node), self._range(y.node)
        if low is None or high is None or least is None or most is None:
            return _NONE
        return low // most, high // least

    # ---- shifts, casts, and what wraps around ----

    def shift(self, name: str, x: Operand, n: Operand) -> Value:
        """Return x << n ("shl") or x >> n ("shr"), for any n."""
        x, n = self._met(name, x, n)
        low, high = self._range(n.node)
        if low is not None and high is not None and 0 <= low and high < x.dtype.bits:
            return self.alu(name, x, n)
        return self.math.shift_left(x, n) if name == "shl" else self.math.shift_right(x, n)

    def cast(self, x: Value, dtype: DTypeLike) -> Value:
        """Convert; floats saturate at the bounds of integers, and NaN becomes 0."""
        to = as_dtype(dtype)
        if (to.is_bool and not x.dtype.is_bool) or (x.dtype.is_float and to.is_integer):
            return self.math.cast(x, to)
        return super().cast(x, to)

    def alu(self, name: str, *operands: Operand) -> Value:
        """Apply an operation of the IR; "div" and "rem" of integers are C's, and 0 for y = 0."""
        if name in ("div", "rem") and len(operands) == 2:
            return self._divide(name, *self._met(name, *operands))
        return super().alu(
            name, *(self._wrapped(name, operands) if name in _WRAPPING else operands)
        )

    def _divide(self, name: str, x: Value, y: Value) -> Value:
        if not x.dtype.is_integer or not self._may_trap(y):
            return super().alu(name, x, y)
        found = super().alu(name, x, self._safe_divisor(y))
        return self._at_faults(found, x, y) if name == "div" else self.select(y == 0, 0, found)

    def _wrapped(self, name: str, operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
        """Return operands of which nothing is known, if the result may wrap around.

        `pyrite.kernel.passes.simplify_index` trusts that arithmetic on indices does not.
        """
        type = self._common_type(name, operands)
        if type.dtype is not self.index_type.dtype:
            return operands
        values = [self.value(x, type) for x in operands]
        ranges = [self._range(v.node) for v in values]
        if self._ends(name, ranges, type.dtype) != _NONE:
            return tuple(values)
        unknown = next((i for i, found in enumerate(ranges) if found == _NONE), 0)
        values[unknown] = self.hidden(values[unknown])
        return tuple(values)

    def hidden(self, x: Value) -> Value:
        """Return the same integer, as one that is not known to be an index."""
        if x.dtype is not int32:
            return x
        return self.bitcast(self.bitcast(x, uint32), int32)

    def _met(self, name: str, x: Operand, y: Operand) -> tuple[Value, Value]:
        type = self._common_type(name, (x, y))
        return self.value(x, type), self.value(y, type)

    # ---- what is known ----

    def inside(self, x: Value, size: int) -> Value | None:
        """Return whether 0 <= x < size, or None where that is known."""
        low, high = self._range(x.node)
        if low is not None and high is not None and 0 <= low and high < size:
            return None
        found = self.const(size > 0, bool_)
        if size <= int(x.dtype.highest):
            found = found & (x < size)
        return found if x.dtype.kind == "uint" else found & (x >= 0)

    def known_inside(self, x: Value, size: int) -> Value:
        """Return x, of which it is known that 0 <= x < size, unless there is no such number."""
        return self._noted(x, (0, size - 1)) if size > 0 else x

    # ---- what shaders have ----

    @item_by_item
    def clamp(self, x: Operand, low: Operand, high: Operand) -> Value:
        """Return x, low if it is less, and high if it is more."""
        return self.min(self.max(x, low), high)

    @item_by_item
    def mix(self, x: Operand, y: Operand, share: Operand) -> Value:
        """Return x * (1 - share) + y * share."""
        x, y = self._met("mix", x, y)
        return x * (1.0 - share) + y * share

    @item_by_item
    def step(self, edge: Operand, x: Operand) -> Value:
        """Return 1 where x >= edge, else 0."""
        edge, x = self._met("step", edge, x)
        return self.select(x >= edge, self.const(1, x.type), 0)

    @item_by_item
    def fmod(self, x: Operand, y: Operand) -> Value:
        """Return the rest of x / y with the sign of x, as C's ``fmod``; ``%`` has that of y."""
        return self.math.truncated_remainder(x, y)

    def _noted(self, x: Value, known: Range) -> Value:
        if known != _NONE:
            self._known[x.node] = known
        return x

    def _range(self, node: Node) -> Range:
        """Return the least and the greatest value of a node."""
        found = self._known.get(node)
        if found is None:
            found = self._known[node] = self._found_range(node)
        return found

    def _found_range(self, node: Node) -> Range:
        if node.kind == "const" and not isinstance(node.attr, tuple | float):
            return int(node.attr), int(node.attr)
        if node.kind == "builtin":
            return self._of_builtin(*node.attr)
        if node.kind == "alu":
            return self._ends(node.attr, [self._range(i) for i in node.inputs], dtype_of(node))
        return _NONE

    def _of_builtin(self, name: str, axis: int) -> Range:
        if name == "local_id":
            return 0, self.workgroup_size[axis] - 1
        if name == "local_index":
            return 0, math.prod(self.workgroup_size) - 1
        if axis < len(self._counts) and name == "workgroup_id":
            return 0, self._counts[axis] - 1
        if axis < len(self._counts) and name == "num_workgroups":
            return self._counts[axis], self._counts[axis]
        return _NONE

    def _ends(self, name: str, ranges: list[Range], dtype: DType) -> Range:
        """Return the range of an operation, if it stays within the dtype: else it wraps around."""
        if name not in _OF_ENDS:
            return _NONE
        (low, high), (least, most) = ranges
        if low is None or high is None or least is None or most is None:
            return _NONE
        ends = [_OF_ENDS[name](a, b) for a in (low, high) for b in (least, most)]
        fits = dtype.lowest <= min(ends) and max(ends) <= dtype.highest
        return (min(ends), max(ends)) if fits else _NONE


_NONE: Range = (None, None)
