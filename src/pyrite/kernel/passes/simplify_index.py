"""Simplifies integer arithmetic by what is known of its values: their range, and what divides them.

Requires a legal kernel whose index arithmetic (in a signed ``kernel.index``, of builtins, counters,
constants and arguments of which something is known) does not overflow, and arguments that are as
they are known.  Unsigned arithmetic, as of hashes, may wrap around.
Guarantees an equal one in which

- a quotient or remainder by a constant is gone, or a shift or ``and``, where the range allows it,
  and parts of a sum that the constant divides are taken out of it;
- where asked for, a quotient by an argument is a product with its reciprocal, which loops share,
  but for a coordinate of the workgroup, which is counted;
- comparisons, minima and maxima that the ranges decide are decided;
- masks that are always true are gone, and so are stores whose mask is never;
- an access whose index the width divides says so (``is_aligned``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pyrite.kernel.ir import Kernel, Node, Type, scalar
from pyrite.kernel.passes.rewrite import Rewriter
from pyrite.kernel.workgroup_place import is_counted
from pyrite.types import DType, float64, int32


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of an integer: low <= x <= high, and ``multiple`` divides it (0: it is 0).

    ``is_index`` says that it is index arithmetic, which does not overflow.
    """

    low: int
    high: int
    multiple: int = 1
    is_index: bool = True


def simplify_index(
    kernel: Kernel,
    arguments: Mapping[str, Known] | None = None,
    workgroups: tuple[int, ...] = (),
    *,
    with_reciprocals: bool = False,
) -> Kernel:
    """Return the kernel with simpler indices, given what is known of the launches.

    ``arguments`` by name; ``workgroups`` is the grid, where it is always the same.
    ``with_reciprocals`` is for targets with float64 whose division of integers is slow.
    """
    return _Simplifier(kernel, arguments or {}, workgroups, with_reciprocals).run()


class _Simplifier(Rewriter):
    def __init__(
        self, kernel: Kernel, arguments: Mapping[str, Known], workgroups: tuple[int, ...],
        with_reciprocals: bool,
    ) -> None:  # fmt: skip
        super().__init__(kernel)
        self.workgroups = workgroups
        self.with_reciprocals = with_reciprocals
        #: What is known of nodes of the new kernel.
        self.known: dict[Node, Known] = {}
        for p in kernel.arguments:
            if p.value_type.dtype.is_integer:
                self.known[p] = arguments.get(p.attr[1]) or self.argument(p)

    def visit(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.kind == "for":
            self.count(node, inputs)
        if node.kind == "alu" and (found := self.simpler(node, inputs)) is not None:
            return found
        if node.kind in ("load", "store"):
            return self.access(node, inputs)
        new = self.keep(node, inputs)
        if new.type is not None and new.type.dtype.is_integer:
            self.learn(new)
        return new

    # ---- what is known ----

    def argument(self, node: Node) -> Known:
        dtype = node.value_type.dtype
        if len(node.attr) == 2:
            return _anything(dtype)
        return Known(node.attr[2], int(dtype.highest), 1, self.is_trusted(dtype))

    def of_value(self, node: Node) -> Known:
        return self.known.get(node) or _anything(node.value_type.dtype)

    def learn(self, node: Node) -> None:
        """Note what is known of a new node."""
        dtype = node.value_type.dtype
        if node.kind == "const":
            numbers = node.attr if isinstance(node.attr, tuple) else (node.attr,)
            self.known[node] = Known(min(numbers), max(numbers), math.gcd(*numbers))
        elif node.kind == "builtin":
            self.known[node] = self.builtin(*node.attr)
        elif node.kind == "alu" and (rule := _RULES.get(node.attr)) is not None:
            inputs = [self.of_value(i) for i in node.inputs]
            is_index = self.is_trusted(dtype) and all(k.is_index for k in inputs)
            self.known[node] = _within(rule(*inputs), dtype, is_index)
        elif node.kind in ("splat", "extract", "make", "select"):
            self.known[node] = self.join(node)
        elif node.kind == "cast" and node.inputs[0].value_type.dtype.is_integer:
            x = self.of_value(node.inputs[0])
            if dtype.lowest <= x.low and x.high <= dtype.highest:
                self.known[node] = replace(x, is_index=x.is_index and self.is_trusted(dtype))

    def is_trusted(self, dtype: DType) -> bool:
        """Whether arithmetic on indices has this dtype, and does not overflow."""
        return dtype is self.kernel.index and dtype.kind == "int"

    def join(self, node: Node) -> Known:
        values = node.inputs[1:] if node.kind == "select" else node.inputs
        found = [self.of_value(v) for v in values]
        return Known(
            min(k.low for k in found),
            max(k.high for k in found),
            math.gcd(*(k.multiple for k in found)),
            all(k.is_index for k in found),
        )

    def builtin(self, name: str, axis: int) -> Known:
        kernel = self.kernel
        if name == "local_id":
            return Known(0, kernel.workgroup_size[axis] - 1)
        if name == "local_index":
            return Known(0, kernel.invocations - 1)
        if name == "subgroup_lane":
            return Known(0, 127)
        if name == "subgroup_size":
            return Known(1, 128)
        if axis < len(self.workgroups):
            count = self.workgroups[axis]
            return Known(count, count, count) if name == "num_workgroups" else Known(0, count - 1)
        highest = 1 if axis >= kernel.grid else int(kernel.index.highest)
        return Known(1, highest) if name == "num_workgroups" else Known(0, highest - 1)

    def count(self, node: Node, inputs: tuple[Node, ...]) -> None:
        """A counter runs from the start to below the stop."""
        start, stop = self.of_value(inputs[0]), self.of_value(inputs[1])
        step = node.attr[0]
        multiple = math.gcd(start.multiple, step)
        counter = node.regions[0].parameters[0]
        self.known[counter] = Known(start.low, max(start.low, stop.high - 1), multiple)

    # ---- arithmetic ----

    def simpler(self, node: Node, inputs: tuple[Node, ...]) -> Node | None:
        """Return what stands for an operation, or None where it stays."""
        if not inputs[0].value_type.dtype.is_integer:
            return None
        if node.attr in ("div", "rem"):
            return self.division(node.attr, inputs)
        if node.attr in _DECISIONS:
            x, y = (self.of_value(i) for i in inputs)
            decided = _DECISIONS[node.attr](x, y)
            if decided is not None:
                return self.const(decided, node.value_type)
            if node.attr in _SIDES:
                return self.one_side(node, inputs)
        if node.attr in ("min", "max"):
            x, y = (self.of_value(i) for i in inputs)
            if x.high <= y.low or y.high <= x.low:
                return inputs[int((x.high <= y.low) == (node.attr == "max"))]
        if node.attr == "and":
            return self.without_mask(*inputs)
        return None

    def one_side(self, node: Node, inputs: tuple[Node, ...]) -> Node | None:
        """Return the comparison of the first of neighbours that are on one side of a bound."""
        at = _SIDES[node.attr]
        bound = _constant(inputs[1 - at])
        stretch = None if bound is None or bound <= 0 else self.stretch(inputs[at], bound)
        if stretch is None:
            return None
        pair = (stretch[0], inputs[1]) if at == 0 else (inputs[0], stretch[0])
        return self.make("alu", node.type, pair, node.attr)

    def without_mask(self, x: Node, y: Node) -> Node | None:
        for value, mask in ((x, y), (y, x)):
            found = _constant(mask)
            k = self.of_value(value)
            if found is not None and found & (found + 1) == 0 and 0 <= k.low <= k.high <= found:
                return value
        return None

    def division(self, name: str, inputs: tuple[Node, ...]) -> Node | None:
        x, y = inputs
        divisor = _constant(y)
        if self.with_reciprocals and is_counted(self.kernel, x, y):
            return None
        if divisor is None and self.has_reciprocal(x, y):
            quotient = self.by_reciprocal(x, y)
            if name == "div":
                return quotient
            return self.operation("sub", x, self.operation("mul", quotient, y))
        if divisor is None or divisor <= 0 or self.of_value(x).low < 0:
            return None
        return self.quotient(x, divisor) if name == "div" else self.rest(x, divisor)

    def has_reciprocal(self, x: Node, y: Node) -> bool:
        """Whether x / y may be taken by the reciprocal of an argument."""
        by = y.inputs[0] if y.kind == "splat" else y
        is_known = by.kind == "argument" and self.of_value(by).low > 0
        is_small = x.value_type.dtype is int32 and self.of_value(x).low >= 0
        return self.with_reciprocals and is_known and is_small

    def by_reciprocal(self, x: Node, y: Node) -> Node:
        """X // y: x + 1/2 times 1/y, whole numbers below 2**31 in float64.

        (x + 1/2) / y lies 1/(2y) or more from every whole number, more than 2**-32 of it; the
        product is off by less than 2**-51 of it, so its whole part is the quotient.
        """
        wide = x.value_type.with_dtype(float64)
        one = self.const(1.0, scalar(float64))
        by = y.inputs[0] if y.kind == "splat" else y
        reciprocal = self.alu("div", one, self.make("cast", scalar(float64), (by,)))
        if wide.width > 1:
            reciprocal = self.make("splat", wide, (reciprocal,))
        shifted = self.alu("add", self.make("cast", wide, (x,)), self.const(0.5, wide))
        found = self.make("cast", x.value_type, (self.alu("mul", shifted, reciprocal),))
        self.known[found] = _div(self.of_value(x), self.of_value(by))
        return found

    def quotient(self, x: Node, divisor: int) -> Node:
        """X // divisor for x >= 0."""
        k = self.of_value(x)
        if k.high < divisor:
            return self.number(0, x.value_type)
        if divisor == 1:
            return x
        if (parts := self.parts(x, divisor)) is not None:
            whole, rest = parts
            upper, lower = self.quotient(whole, divisor), self.quotient(rest, divisor)
            return upper if _constant(lower) == 0 else self.operation("add", upper, lower)
        if (stretch := self.stretch(x, divisor)) is not None:
            return self.quotient(stretch[0], divisor)
        if (exact := self.without_factor(x, divisor)) is not None:
            return exact
        if divisor & (divisor - 1) == 0:
            shift = self.number(divisor.bit_length() - 1, x.value_type)
            return self.operation("shr", x, shift)
        return self.operation("div", x, self.number(divisor, x.value_type))

    def rest(self, x: Node, divisor: int) -> Node:
        """X % divisor for x >= 0."""
        k = self.of_value(x)
        if k.high < divisor:
            return x
        if k.multiple % divisor == 0:
            return self.number(0, x.value_type)
        if (parts := self.parts(x, divisor)) is not None:
            return self.rest(parts[1], divisor)
        if (stretch := self.stretch(x, divisor)) is not None:
            return self.operation("add", self.rest(stretch[0], divisor), stretch[1])
        if (product := self.product(x)) is not None and divisor % product[1] == 0:
            value, factor = product
            rest = self.rest(value, divisor // factor)
            return self.operation("mul", rest, self.number(factor, x.value_type))
        if divisor & (divisor - 1) == 0:
            return self.operation("and", x, self.number(divisor - 1, x.value_type))
        return self.operation("rem", x, self.number(divisor, x.value_type))

    def parts(self, x: Node, divisor: int) -> tuple[Node, Node] | None:
        """Return the term of a sum that the divisor divides, and the other; neither negative."""
        if x.kind != "alu" or x.attr != "add" or not self.of_value(x).is_index:
            return None
        for whole, rest in (x.inputs, x.inputs[::-1]):
            a, b = self.of_value(whole), self.of_value(rest)
            if a.multiple % divisor == 0 and a.low >= 0 and b.low >= 0:
                return whole, rest
        return None

    def stretch(self, x: Node, number: int) -> tuple[Node, Node] | None:
        """Return the first of neighbours, and how far x is from it, if no multiple parts them.

        So invocations of a workgroup stand in one row of so many columns, and on one side of a
        bound, where their count divides the number.
        """
        if x.kind != "alu" or x.attr != "add" or not self.of_value(x).is_index:
            return None
        for first, step in (x.inputs, x.inputs[::-1]):
            a, b = self.of_value(first), self.of_value(step)
            if a.low >= 0 and 0 <= b.low <= b.high < math.gcd(a.multiple, number):
                return first, step
        return None

    def product(self, x: Node) -> tuple[Node, int] | None:
        """Return value >= 0 and constant > 0 of which x is the product."""
        if x.kind != "alu" or x.attr != "mul" or not self.of_value(x).is_index:
            return None
        for value, other in (x.inputs, x.inputs[::-1]):
            factor = _constant(other)
            if factor is not None and factor > 0 and self.of_value(value).low >= 0:
                return value, factor
        return None

    def without_factor(self, x: Node, divisor: int) -> Node | None:
        """Return the quotient of a product, where its constant and the divisor shorten."""
        if (product := self.product(x)) is None:
            return None
        value, factor = product
        if divisor % factor == 0:
            return self.quotient(value, divisor // factor)
        if factor % divisor == 0:
            return self.operation("mul", value, self.number(factor // divisor, x.value_type))
        return None

    def number(self, value: int, type: Type) -> Node:
        node = self.const(value, type)
        self.learn(node)
        return node

    def operation(self, name: str, x: Node, y: Node) -> Node:
        node = self.alu(name, x, y)
        self.learn(node)
        return node

    # ---- memory ----

    def access(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """Drop masks that are constant; note what is aligned."""
        plain = 2 if node.kind == "load" else 3
        if len(inputs) > plain and (mask := inputs[plain]).kind == "const":
            if mask.attr is True:
                inputs = inputs[:plain]
            elif mask.attr is False:
                return inputs[3] if node.kind == "load" else node
        width = (node if node.kind == "load" else node.inputs[2]).value_type.width
        index = self.of_value(inputs[1])
        is_consecutive = inputs[1].type is scalar(self.kernel.index)
        is_aligned = node.attr or (is_consecutive and index.multiple % width == 0)
        if inputs == node.inputs and is_aligned == node.attr:
            return self.emit(node)
        return self.make(node.kind, node.type, inputs, is_aligned)


def _anything(dtype: DType) -> Known:
    return Known(int(dtype.lowest), int(dtype.highest), 1, False)


def _constant(node: Node) -> int | None:
    return node.attr if node.kind == "const" and isinstance(node.attr, int) else None


def _within(found: Known, dtype: DType, is_index: bool) -> Known:
    """Index arithmetic stays in its dtype; other may wrap around, which keeps factors of 2 only."""
    lowest, highest = int(dtype.lowest), int(dtype.highest)
    fits = lowest <= found.low and found.high <= highest
    if is_index:
        return Known(max(found.low, lowest), min(found.high, highest), found.multiple)
    if fits:
        return Known(found.low, found.high, found.multiple, False)
    power = found.multiple & -found.multiple
    return Known(lowest, highest, power, False)


def _add(x: Known, y: Known) -> Known:
    return Known(x.low + y.low, x.high + y.high, math.gcd(x.multiple, y.multiple))


def _sub(x: Known, y: Known) -> Known:
    return Known(x.low - y.high, x.high - y.low, math.gcd(x.multiple, y.multiple))


def _mul(x: Known, y: Known) -> Known:
    products = [a * b for a in (x.low, x.high) for b in (y.low, y.high)]
    return Known(min(products), max(products), x.multiple * y.multiple)


def _div(x: Known, y: Known) -> Known:
    if x.low < 0 or y.low <= 0:
        bound = max(abs(x.low), abs(x.high))
        return Known(-bound, bound)
    exact = x.multiple // y.low if y.low == y.high and x.multiple % y.low == 0 else 1
    return Known(x.low // y.high, x.high // y.low, exact)


def _rem(x: Known, y: Known) -> Known:
    bound = max(abs(y.low), abs(y.high))
    bound = max(bound - 1, 0)
    low = 0 if x.low >= 0 else -bound
    multiple = math.gcd(x.multiple, y.multiple) or 1
    return Known(low, min(bound, max(x.high, 0)) if x.low >= 0 else bound, multiple)


def _min(x: Known, y: Known) -> Known:
    return Known(min(x.low, y.low), min(x.high, y.high), math.gcd(x.multiple, y.multiple))


def _max(x: Known, y: Known) -> Known:
    return Known(max(x.low, y.low), max(x.high, y.high), math.gcd(x.multiple, y.multiple))


def _and(x: Known, y: Known) -> Known:
    """Zeros at the low end of either stay."""
    multiple = max(_power_of_two(x), _power_of_two(y))
    highs = [k.high for k in (x, y) if k.low >= 0]
    if not highs:
        return Known(min(x.low, y.low) * 2, max(x.high, y.high), multiple)
    return Known(0, min(highs), multiple)


def _power_of_two(x: Known) -> int:
    return x.multiple & -x.multiple or 1


def _shl(x: Known, y: Known) -> Known:
    if y.low != y.high or not 0 <= y.low < 64:
        return Known(-(1 << 64), 1 << 64)
    return _mul(x, Known(1 << y.low, 1 << y.low, 1 << y.low))


def _shr(x: Known, y: Known) -> Known:
    if y.low != y.high or not 0 <= y.low < 64:
        return Known(min(x.low, 0), max(x.high, 0))
    factor = 1 << y.low
    exact = x.multiple // factor if x.multiple % factor == 0 else 1
    return Known(x.low >> y.low, x.high >> y.low, exact)


_RULES: dict[str, Callable[[Known, Known], Known]] = {
    "add": _add, "sub": _sub, "mul": _mul, "div": _div, "rem": _rem, "min": _min, "max": _max,
    "and": _and, "shl": _shl, "shr": _shr,
}  # fmt: skip


def _less(x: Known, y: Known) -> bool | None:
    if x.high < y.low:
        return True
    return False if x.low >= y.high else None


def _not(decided: bool | None) -> bool | None:
    return None if decided is None else not decided


def _equal(x: Known, y: Known) -> bool | None:
    if x.low == x.high == y.low == y.high:
        return True
    return False if x.high < y.low or y.high < x.low else None


#: Comparisons by which a multiple of a number is on the far side, and which operand may be there.
_SIDES: dict[str, int] = {"lt": 0, "ge": 0, "gt": 1, "le": 1}

_DECISIONS: dict[str, Callable[[Known, Known], bool | None]] = {
    "lt": _less,
    "ge": lambda x, y: _not(_less(x, y)),
    "gt": lambda x, y: _less(y, x),
    "le": lambda x, y: _not(_less(y, x)),
    "eq": _equal,
    "ne": lambda x, y: _not(_equal(x, y)),
}
