"""A group of folds inside a kernel, at one row: what its values are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from pyrite.backend.cube.body.evaluate import evaluate, weight_of
from pyrite.backend.cube.body.group import (
    KEPT_WEIGHT,
    Group,
    bound_fold,
    elements_of,
    has_own_order,
    kept_value,
    passes,
    writes_in_last,
)
from pyrite.backend.cube.body.region import Region, is_view
from pyrite.backend.cube.body.row import BodyRow
from pyrite.backend.cube.skeleton.row import At, Make
from pyrite.backend.graph import Node
from pyrite.kernel import Value
from pyrite.op.rule.fold import BoundFold


class RowBody:
    """A group of folds inside a kernel, at one row."""

    def __init__(self, row: BodyRow, region: Region, group: Group) -> None:
        self.row, self.region, self.group = row, region, group
        self.b, self.k = row.b, row.k
        self._along = set(group.length)
        self._nodes = {v: node for node in region.nodes for v in node.results}
        self._numbers: dict[int, Value] = {}
        self._memo: dict[int, tuple[At, dict[int, Value]]] = {}
        self.readers: dict[int, Make] = {}
        self.kept = kept_value(region, group)
        if self.kept is not None:
            self._store, self._load = row.kept(lambda at: self._made(self._kept, at))
        self._is_stored = False
        self._states: list[Value] = []

    @property
    def _kept(self) -> int:
        assert self.kept is not None
        return self.kept

    def put(self, value: int, number: Value) -> None:
        """Say what a number of the row is."""
        self._numbers[value] = number

    def write(self, elements: Sequence[Any], numbers: Sequence[Any]) -> None:
        """Fold, pass after pass, and write what depends on that."""
        *before, last = passes(self.region, self.group)
        for folds in before:
            self._prepare([node.values[0] for node in folds])
            self._fold(folds)
        written = elements if writes_in_last(self.region, self.group) else ()
        more = self.group.elements if written else ()
        self._prepare([*(node.values[0] for node in last), *more])
        self._fold(last, written)
        if self.group.is_part:
            for store, x in zip(numbers, self._states, strict=True):
                store(x)
            return
        summed = [node.values[0] for node in self.group.sums]
        self._prepare([*self.group.elements, *self.group.numbers, *summed])
        for value, store in zip(self.group.numbers, numbers, strict=True):
            store(self.number(value))
        if not written and (elements or summed):
            is_light = self._weight((*self.group.elements, *summed)) < KEPT_WEIGHT
            self.row.write(lambda at: self._write(at, elements), is_light=is_light)

    def _weight(self, wanted: Sequence[int]) -> int:
        """Return about how many instructions the elements take, but for what is kept."""
        made = elements_of(self.region, self.group, wanted, but=self.kept)
        nodes = {self._nodes[value] for value in made}
        return sum(weight_of(n, self.region.graph.types) for n in nodes if n.op.is_elementwise)

    def _write(self, at: At, elements: Sequence[Any]) -> None:
        for value, store in zip(self.group.elements, elements, strict=True):
            store(at, self.element(value, at))
        for node, add in zip(self.group.sums, self.row.sums, strict=True):
            bound = bound_fold(self.region, node, 1)
            (x,) = bound.take(self.k, self._taken(node, at), self.row.position(at))
            add(at, x)

    def _prepare(self, wanted: Sequence[int]) -> None:
        """Make the numbers that a pass needs, before its loop."""
        self._memo.clear()
        seen: set[int] = set()
        left = list(wanted)
        while left:
            value = left.pop()
            if value in seen:
                continue
            seen.add(value)
            if self._is_number(value):
                self.number(value)
            elif value in self._nodes:
                left += self._nodes[value].values

    def _is_number(self, value: int) -> bool:
        return self._along.isdisjoint(self.region.support(value))

    def number(self, value: int) -> Value:
        """Return a number of the row."""
        found = self._numbers.get(value)
        if found is None:
            node = self._nodes[value]
            is_same = is_view(node)
            found = self.number(node.values[0]) if is_same else evaluate(self.b, node, self.number)
            self._numbers[value] = found
        return found

    def element(self, value: int, at: At) -> Value:
        """Return neighbours of a value at their place in the row."""
        _, memo = self._memo.setdefault(id(at), (at, {}))
        found = memo.get(value)
        if found is None:
            found = memo[value] = self._element(value, at)
        return found

    def _element(self, value: int, at: At) -> Value:
        if self._is_number(value):
            return self.row.spread(self.number(value), at)
        if value in self.readers:
            return self.readers[value](at)
        if value == self.kept:
            return self._load(at) if self._is_stored else self._store(at)
        return self._made(value, at)

    def _made(self, value: int, at: At) -> Value:
        node = self._nodes[value]
        if is_view(node):
            return self.element(node.values[0], at)
        return evaluate(self.b, node, lambda x: self.element(x, at))

    def _fold(self, nodes: Sequence[Node], written: Sequence[Any] = ()) -> None:
        """Make folds by a pass over the row, in which the elements are ``written``, if they are."""
        row = self.row
        config = None if self.group.is_part else row.config
        bound = [bound_fold(self.region, node, row.length, config) for node in nodes]
        parts = Apart([len(fold.start) for fold in bound])
        start = [part for fold in bound for part in fold.start]

        def join(xs: Sequence[Value], ys: Sequence[Value]) -> list[Value]:
            pairs = zip(bound, parts(xs), parts(ys), strict=True)
            return [v for fold, s, t in pairs for v in fold.join(self.k, s, t)]

        def make(at: At) -> list[Value]:
            for value, store in zip(self.group.elements if written else (), written, strict=True):
                store(at, self.element(value, at))
            place = self.row.places(at)
            pairs = zip(bound, nodes, strict=True)
            return [
                v for fold, node in pairs for v in fold.take(self.k, self._taken(node, at), place)
            ]

        has_order = any(has_own_order(self.region, node) for node in nodes)
        state = row.fold(start, join, make, has_order=has_order, writes=bool(written))
        if self.group.is_part:
            self._states = list(state)
            return
        if self.kept is not None and self._stores(nodes):
            self._is_stored = True
        for fold, node, of in zip(bound, nodes, parts(state), strict=True):
            results = fold.end(self.k, of)
            for value, result, type in zip(node.results, results, node.types, strict=True):
                self._numbers[value] = self.b.cast(result, type.dtype)

    def _taken(self, node: Node, at: At) -> Value:
        x = self.element(node.values[0], at)
        return self.b.cast(x, x.dtype.compute)

    def _stores(self, folds: Sequence[Node]) -> bool:
        return self.kept in elements_of(self.region, self.group, [n.values[0] for n in folds])


def write_row(
    row: BodyRow, region: Region, group: Group, leaves: Sequence[int], numbers: dict[int, Value]
) -> None:
    row.begin()
    body = RowBody(row, region, group)
    for value, number in numbers.items():
        body.put(value, number)
    for value, operand, reader in zip(leaves, row.read, row.sources, strict=True):
        if row.has_numbers(operand):
            body.put(value, row.number(operand))
        else:
            body.readers[value] = reader
    count = len(group.elements)
    stores = [row.number_writer(operand) for operand in row.written[count:]]
    body.write(row.targets[:count], stores)


def write_joined(row: BodyRow, bound: Sequence[BoundFold]) -> None:
    """Write the results of folds of which a row has the states of its parts."""
    row.begin()
    start = [part for fold in bound for part in fold.start]
    apart = Apart([len(fold.start) for fold in bound])

    def join(xs: Sequence[Value], ys: Sequence[Value]) -> list[Value]:
        pairs = zip(bound, apart(xs), apart(ys), strict=True)
        return [v for fold, s, t in pairs for v in fold.join(row.k, s, t)]

    state = row.fold(start, join, lambda at: [source(at) for source in row.sources])
    results = [x for fold, s in zip(bound, apart(state), strict=True) for x in fold.end(row.k, s)]
    for operand, x in zip(row.written, results, strict=True):
        row.number_writer(operand)(x)


@dataclass(frozen=True, slots=True)
class Apart:
    """Takes the values of several states apart, of which each has so many."""

    sizes: Sequence[int]

    def __call__(self, values: Sequence[Value]) -> list[tuple[Value, ...]]:
        """Return the states."""
        ends = list(accumulate(self.sizes))
        return [tuple(values[end - size : end]) for size, end in zip(self.sizes, ends, strict=True)]
