"""Facts about the integers of one launch: everywhere, and where some conditions hold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pyrite.kernel.bounds.interval import RULES, Interval, exactly, joined
from pyrite.kernel.bounds.linear import Linear, constant, linear
from pyrite.kernel.ir import Kernel, Node
from pyrite.types import Number

#: Conditions that hold where a node stands, and whether each is true or false there.
Facts = tuple[tuple[Node, bool], ...]

#: Operations that keep what divides both operands.
_SUMS = ("add", "sub", "rem", "min", "max")

#: Beyond every integer of a kernel.
_LEAST, _MOST = -(1 << 80), 1 << 80


class Values:
    """The values of one launch, whatever holds."""

    def __init__(
        self, kernel: Kernel, grid: Sequence[int], arguments: Mapping[Node, Number]
    ) -> None:
        self.kernel = kernel
        self.grid = (*grid, 1, 1)[:3]
        #: What is known of arguments, loop counters, carried values and results.
        self.known: dict[Node, Interval] = {
            p: exactly(v) for p, v in arguments.items() if isinstance(v, int)
        }
        #: A parameter of a loop's body is that of its condition, of the same round.
        self.alias: dict[Node, Node] = {}
        #: What divides them; of loop counters it is always the same.
        self.counters: dict[Node, int] = {}
        self.divisors: dict[Node, int] = {}
        self.plain: View | None = None
        #: With more conditions than these a selection is either side.
        self.deepest = 0

    def learn(self, found: Iterable[tuple[Node, Interval]]) -> None:
        """Note intervals; what was made of others is forgotten."""
        self.known.update(found)
        self.plain = None
        self.divisors = dict(self.counters)

    def divisor(self, node: Node) -> int:
        """Return a number that divides every value of an integer; 0 where it is 0."""
        node = self.alias.get(node, node)
        found = self.divisors.get(node)
        if found is None:
            found = self.divisors[node] = self.new_divisor(node)
        return found

    def new_divisor(self, node: Node) -> int:
        if node.kind == "const":
            return math.gcd(*node.attr) if isinstance(node.attr, tuple) else int(node.attr)
        if node.kind == "argument" and node in self.known:
            return self.known[node].low
        if node.kind in ("splat", "make", "select") or (node.kind == "alu" and node.attr in _SUMS):
            return math.gcd(*(self.divisor(i) for i in node.inputs[node.kind == "select" :]))
        if node.kind == "alu" and node.attr == "mul":
            if self.plain is None:
                self.plain = View(self, ())
            if not self.plain.fits(node):
                return 1
            return math.prod(self.divisor(i) for i in node.inputs)
        return 1

    def builtin(self, name: str, axis: int) -> Interval:
        kernel = self.kernel
        if name == "workgroup_id":
            return Interval(0, self.grid[axis] - 1)
        if name == "num_workgroups":
            return exactly(self.grid[axis])
        if name == "local_id":
            return Interval(0, kernel.workgroup_size[axis] - 1)
        if name == "local_index":
            return Interval(0, kernel.invocations - 1)
        return Interval(0, 127) if name == "subgroup_lane" else Interval(1, 128)


class View:
    """The values of a launch where some conditions hold."""

    def __init__(self, values: Values, facts: Facts) -> None:
        self.values = values
        self.facts = facts
        self.narrowed: dict[Node, Interval] = {}
        #: Sums that are at most 0.
        self.sums: list[Linear] = []
        self.found: dict[Node, Interval] = {}
        #: Which lanes count, where a constant says so.
        self.lanes: tuple[bool, ...] = (True,)
        #: Whether the conditions exclude each other.
        self.is_never = False
        for _ in range(2 if facts else 0):
            self.sums.clear()
            for node, truth in facts:
                self.assume(node, truth)

    def of(self, node: Node) -> Interval:
        """Return the interval of a value, over all lanes."""
        node = self.values.alias.get(node, node)
        found = self.found.get(node)
        if found is None:
            found = self.rule(node)
            if (narrow := self.narrowed.get(node)) is not None:
                found = found.meet(narrow)
            if is_whole(node):
                found = found.multiples(self.values.divisor(node))
            self.found[node] = found
        return found

    def rule(self, node: Node) -> Interval:
        known = self.values.known.get(node)
        if known is not None:
            return known
        kind, any_value = node.kind, anything(node)
        if kind == "const" and node.value_type.dtype.is_integer:
            numbers = node.attr if isinstance(node.attr, tuple) else (node.attr,)
            return Interval(min(numbers), max(numbers))
        if kind == "builtin":
            return self.values.builtin(*node.attr)
        if kind == "alu":
            return self.operation(node, any_value)
        if kind in ("splat", "make"):
            return self.one_of(node.inputs)
        if kind == "select":
            return self.chosen(*node.inputs)
        if kind == "extract":
            # Conditions are of each lane, and this is another one.
            return View(self.values, ()).of(node.inputs[0])
        if kind == "cast":
            inner = self.of(node.inputs[0])
            return inner if inner.is_inside(any_value) else any_value
        return any_value

    def chosen(self, condition: Node, x: Node, y: Node) -> Interval:
        """Return what a selection gives: each side where its condition holds."""
        if (condition, True) in self.facts:
            return self.of(x)
        if (condition, False) in self.facts:
            return self.of(y)
        if len(self.facts) >= self.values.deepest:
            return self.one_of((x, y))
        views = [View(self.values, (*self.facts, (condition, t))) for t in (True, False)]
        pairs = zip((x, y), views, strict=True)
        found = [view.of(node) for node, view in pairs if not view.is_never]
        return joined(*found) if found else self.one_of((x, y))

    def operation(self, node: Node, any_value: Interval) -> Interval:
        rule = RULES.get(node.attr)
        if rule is None or not is_whole(node):
            return any_value
        found = rule(*(self.of(i) for i in node.inputs))
        # What may overflow may be anything.
        return any_value if found is None or not found.is_inside(any_value) else found

    def one_of(self, nodes: Sequence[Node]) -> Interval:
        return joined(*(self.of(n) for n in nodes))

    def form(self, node: Node) -> Linear:
        """Return a value as a sum, each of its terms under one name."""
        found, alias = linear(node), self.values.alias
        return Linear({alias.get(n, n): times for n, times in found.terms.items()}, found.constants)

    def counting(self, form: Linear) -> Linear:
        """Return a sum in the lanes that count."""
        width = len(self.lanes)
        if width == 1 or len(form.constants) not in (1, width):
            return form
        lanes = zip(form.lanes(width), self.lanes, strict=True)
        return Linear(form.terms, tuple(c for c, counts in lanes if counts))

    def of_sum(self, form: Linear) -> Interval:
        """Return the interval of a sum, by what is known of its terms and of other sums."""
        form = self.counting(form)
        low, high = form.within(self.of)
        for other in self.sums:
            if len(form.constants) > 1 < len(other.constants) != len(form.constants):
                continue
            for factor in _factors(form, other):
                rest = form.plus(self.counting(other), -factor).within(self.of)
                # other <= 0: with a factor above 0 the form is at most the rest, else at least.
                high = min(high, rest.high) if factor > 0 else high
                low = max(low, rest.low) if factor < 0 else low
        return Interval(low, high)

    # ---- conditions ----

    def assume(self, node: Node, truth: bool) -> None:
        if node.kind == "splat":
            self.assume(node.inputs[0], truth)
        elif isinstance(node.attr, tuple) and node.kind == "const":
            lanes = self.lanes * (len(node.attr) // len(self.lanes))
            self.lanes = tuple(x and y is truth for x, y in zip(lanes, node.attr, strict=True))
            self.is_never = self.is_never or not any(self.lanes)
        elif node.kind == "const":
            self.is_never = self.is_never or (node.attr is not truth and node.attr in (True, False))
        elif node.kind == "alu" and node.attr == "not":
            self.assume(node.inputs[0], not truth)
        elif node.kind == "alu" and node.attr == ("and" if truth else "or"):
            for i in node.inputs:
                self.assume(i, truth)
        elif node.kind == "alu" and is_whole(node.inputs[0]):
            for name, x, y in _inequalities(node, truth):
                if name == "ne":
                    self.differ(x, y)
                else:
                    self.at_most(x, y, -1 if name == "lt" else 0)

    def differ(self, x: Node, y: Node) -> None:
        """Note that x != y: it counts at an end of what x may be."""
        there, other = self.of(x), self.of(y)
        if other.low == other.high == there.high:
            self.narrow(x, Interval(_LEAST, there.high - 1))
        elif other.low == other.high == there.low:
            self.narrow(x, Interval(there.low + 1, _MOST))

    def at_most(self, x: Node, y: Node, more: int) -> None:
        """Note that x <= y + more, in every lane that counts."""
        if x.kind == "bitcast" and is_whole(x.inputs[0]):
            # A negative number is, read as one without a sign, above all that are not.
            (signed,) = x.inputs
            if self.of(y).high + more <= anything(signed).high:
                self.narrow(signed, Interval(0, _MOST))
                is_cast = y.kind == "cast" and is_whole(y.inputs[0])
                self.at_most(signed, y.inputs[0] if is_cast else y, more)
        if y.kind == "select":
            # A side that is too small was not selected.
            condition, *sides = y.inputs
            for side, other, truth in zip(sides, sides[::-1], (True, False), strict=True):
                if self.of(x).low > self.of(side).high + more:
                    self.assume(condition, not truth)
                    y = other
        self.narrow(x, Interval(_LEAST, self.of(y).high + more))
        self.narrow(y, Interval(self.of(x).low - more, _MOST))
        less, rest = self.form(x), self.form(y)
        # Sums that may overflow are no such sums.
        if less.within(self.of).is_inside(anything(x)) and rest.within(self.of).is_inside(
            anything(y)
        ):
            self.sums.append(less.plus(rest, -1).plus(Linear({}, (-more,))))

    def narrow(self, node: Node, to: Interval) -> None:
        """Note what a value is in, and what follows for what it is made of."""
        node = self.values.alias.get(node, node)
        before = self.of(node)
        after = before.meet(to)
        if after == before:
            return
        self.is_never = self.is_never or after.high < after.low
        self.narrowed[node] = after
        self.found.clear()
        if node.kind == "splat":
            self.narrow(node.inputs[0], after)
        elif node.kind == "alu" and self.fits(node):
            for inner, bound in self.parts(node, after):
                self.narrow(inner, bound)

    def fits(self, node: Node) -> bool:
        """Whether an operation gives the number that it is, and not what is left of it."""
        rule = RULES.get(node.attr)
        found = rule(*(self.of(i) for i in node.inputs)) if rule is not None else None
        return found is not None and found.is_inside(anything(node))

    def parts(self, node: Node, to: Interval) -> Iterator[tuple[Node, Interval]]:
        """Give what the operands of an operation are in, where its result is in an interval."""
        x, y = (*node.inputs, node.inputs[0])[:2]
        factor = constant(y)
        if node.attr == "add":
            yield x, Interval(to.low - self.of(y).high, to.high - self.of(y).low)
            yield y, Interval(to.low - self.of(x).high, to.high - self.of(x).low)
        elif node.attr == "sub":
            yield x, Interval(to.low + self.of(y).low, to.high + self.of(y).high)
            yield y, Interval(self.of(x).low - to.high, self.of(x).high - to.low)
        elif node.attr == "mul" and factor is not None and factor > 0:
            yield x, Interval(-(-to.low // factor), to.high // factor)
        elif node.attr == "div" and factor is not None and factor > 0 and self.of(x).low >= 0:
            yield x, Interval(max(to.low, 0) * factor, to.high * factor + factor - 1)
        elif node.attr == "min":
            yield x, Interval(to.low, _MOST)
            yield y, Interval(to.low, _MOST)
        elif node.attr == "max":
            yield x, Interval(_LEAST, to.high)
            yield y, Interval(_LEAST, to.high)


def _inequalities(node: Node, truth: bool) -> Iterator[tuple[str, Node, Node]]:
    """Give what a comparison says as (lt, le or ne, x, y)."""
    x, y = (*node.inputs, node.inputs[0])[:2]
    name = node.attr if truth else _OPPOSITE.get(node.attr)
    if name in ("lt", "le", "ne"):
        yield name, x, y
    elif name in ("gt", "ge"):
        yield _TURNED[name], y, x
    elif name == "eq":
        yield "le", x, y
        yield "le", y, x


_OPPOSITE = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "ne": "eq", "eq": "ne"}
_TURNED = {"gt": "lt", "ge": "le"}


def _factors(form: Linear, other: Linear) -> set[int]:
    """Return by which multiples of the other a term of the form goes away."""
    return {1, -1} | {
        times // other.terms[node]
        for node, times in form.terms.items()
        if node in other.terms and times % other.terms[node] == 0
    }


def is_whole(node: Node) -> bool:
    return node.type is not None and node.type.dtype.is_integer


def anything(node: Node) -> Interval:
    dtype = node.value_type.dtype
    if dtype.is_integer:
        return Interval(int(dtype.lowest), int(dtype.highest))
    return Interval(0, 1) if dtype.is_bool else Interval(_LEAST, _MOST)
