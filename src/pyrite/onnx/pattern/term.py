"""Terms: what a value of a graph has to be, as data.

A pattern is written as its expression is: ``x * sigmoid(x)`` is::

    commuting("Mul", Operand("x"), Call("Sigmoid", Operand("x")))

A term is matched against a value; each way in which it fits is a `Match`, which says what the names
in the pattern stand for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Protocol

from pyrite.onnx.graph import Node, ValueType
from pyrite.onnx.pattern.view import GraphView, is_one_of

#: The type of a value of which the file says nothing.
UNKNOWN = ValueType()

#: How far a number of a file may be from the one meant: it was rounded to float32.
_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class ReadValue:
    """A value as a node reads it: its name, and the type that the file gives it there."""

    name: str
    type: ValueType = UNKNOWN


@dataclass(frozen=True, slots=True)
class Match:
    """What the names of a pattern stand for: values, numbers and nodes."""

    values: Mapping[str, ReadValue] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)
    #: The nodes that the pattern names.
    nodes: Mapping[str, Node] = field(default_factory=dict)

    def named(self, *names: str) -> tuple[str, ...]:
        """Return the names in the graph of some values, ``""`` for one that is left out."""
        return tuple(self.values[n].name if n in self.values else "" for n in names)

    def types(self, *names: str) -> tuple[ValueType, ...]:
        """Return the types of some values."""
        return tuple(self.values.get(n, ReadValue("")).type for n in names)


class Term(Protocol):
    """What a value has to be."""

    def match(self, read: ReadValue, view: GraphView, found: Match) -> Iterator[Match]:
        """Give the ways in which a value fits, each with what was found before."""
        ...


@dataclass(frozen=True, slots=True)
class AnyValue:
    """Any value; the same one wherever its label stands."""

    label: str

    def match(self, read: ReadValue, view: GraphView, found: Match) -> Iterator[Match]:
        """Give the match with the value under its label, if it is the one that is there."""
        known = found.values.get(self.label)
        if known is None:
            yield replace(found, values={**found.values, self.label: read})
        elif known.name == read.name:
            yield found


@dataclass(frozen=True, slots=True)
class Weight:
    """A weight of the file that lies on the device, with so many axes, or any number."""

    label: str
    rank: int | None = None

    def match(self, read: ReadValue, view: GraphView, found: Match) -> Iterator[Match]:
        """Give the match with the weight, typed by what the file holds."""
        weight = view.weight(read.name)
        if weight is not None and self.rank in (None, len(weight.shape)):
            typed = ReadValue(read.name, ValueType(weight.element, weight.shape))
            yield from AnyValue(self.label).match(typed, view, found)


@dataclass(frozen=True, slots=True)
class KnownNumber:
    """A known number: a value, or any, which is noted under a label."""

    value: float | None = None
    label: str = ""

    def match(self, read: ReadValue, view: GraphView, found: Match) -> Iterator[Match]:
        """Give the match with the number."""
        number = view.number(read.name)
        if number is not None and (self.value is None or is_close(number, self.value)):
            yield replace(found, numbers={**found.numbers, self.label: number})


@dataclass(frozen=True, slots=True)
class NodeOf:
    """What a node of some op gives, of operands that fit; nothing else reads it, unless shared."""

    ops: str | tuple[str, ...]
    operands: tuple[Term, ...]
    #: How the match calls the node.
    label: str = ""
    commutes: bool = False
    shared: bool = False
    #: Whether the node may have operands and outputs that no term describes.
    is_open: bool = False
    where: Callable[[Node, GraphView], bool] | None = None

    def match(self, read: ReadValue, view: GraphView, found: Match) -> Iterator[Match]:
        """Give the ways in which the node that makes the value fits."""
        node = view.maker(read.name)
        is_first = node is not None and node.outputs[0] == read.name
        if node is not None and is_first and (self.shared or view.reads(read.name) == 1):
            yield from self.match_node(node, view, found)

    def match_node(self, node: Node, view: GraphView, found: Match) -> Iterator[Match]:
        """Give the ways in which a node fits, whoever reads what it gives."""
        ops = (self.ops,) if isinstance(self.ops, str) else self.ops
        if not is_one_of(node, ops) or not self._has_form(node, view):
            return
        labelled = {**found.nodes, self.label: node} if self.label else found.nodes
        started = replace(found, nodes=labelled)
        reads = [_read(node, i) for i in range(len(self.operands))]
        orders = permutations(self.operands) if self.commutes else [self.operands]
        for order in orders:
            yield from _all_match(list(zip(order, reads, strict=True)), view, started)

    def _has_form(self, node: Node, view: GraphView) -> bool:
        count = len(self.operands)
        is_closed = len(node.inputs) == count and not any(node.outputs[1:])
        has_operands = is_closed or (self.is_open and len(node.inputs) >= count)
        return has_operands and (self.where is None or self.where(node, view))


def call(op: str, *operands: Term) -> NodeOf:
    """Return the term of an op's only output."""
    return NodeOf(op, operands)


def commuting(op: str, *operands: Term) -> NodeOf:
    """Return the term of an op whose operands stand in any order."""
    return NodeOf(op, operands, commutes=True)


@dataclass(frozen=True, slots=True)
class Either:
    """What fits one of several terms, the first that does first."""

    terms: tuple[Term, ...]

    def match(self, read: ReadValue, view: GraphView, found: Match) -> Iterator[Match]:
        """Give the ways in which a value fits any of the terms."""
        for term in self.terms:
            yield from term.match(read, view, found)


def either(*terms: Term) -> Either:
    """Return what fits one of several terms."""
    return Either(terms)


@dataclass(frozen=True, slots=True)
class Same:
    """What fits a term, which is noted as an operand: it may be read again under its label."""

    label: str
    term: Term

    def match(self, read: ReadValue, view: GraphView, found: Match) -> Iterator[Match]:
        """Give the ways in which a value fits, each with the value under the label."""
        for inner in self.term.match(read, view, found):
            yield from AnyValue(self.label).match(read, view, inner)


@dataclass(frozen=True, slots=True)
class Product:
    """A product of a known number and of terms in any order, spelled in any number of nodes."""

    factor: float
    terms: tuple[Term, ...]

    def match(self, read: ReadValue, view: GraphView, found: Match) -> Iterator[Match]:
        """Give the ways in which the factors of a value fit."""
        node = view.maker(read.name)
        if node is not None and view.reads(read.name) == 1:
            yield from self.match_node(node, view, found)

    def match_node(self, node: Node, view: GraphView, found: Match) -> Iterator[Match]:
        """Give the ways in which the factors of what a node gives fit, whoever reads it."""
        factors = _factors(node, view, len(self.terms))
        if factors is None or not is_close(factors[0], self.factor):
            return
        for order in permutations(self.terms):
            if len(order) == len(factors[1]):
                yield from _all_match(list(zip(order, factors[1], strict=True)), view, found)


def product(factor: float, *terms: Term) -> Product:
    """Return a product of a number and terms in any order."""
    return Product(factor, terms)


@dataclass(frozen=True, slots=True)
class Scaled:
    """A term times a known number, which is noted under a label: 1 where there is none."""

    term: Term
    label: str

    def match(self, read: ReadValue, view: GraphView, found: Match) -> Iterator[Match]:
        """Give the ways in which a value, or what it is a multiple of, fits."""
        node = view.maker(read.name, "Mul", "Div")
        if node is not None and view.reads(read.name) == 1:
            for inner, factor in _multiples(node, view):
                scaled = replace(found, numbers={**found.numbers, self.label: factor})
                yield from self.term.match(inner, view, scaled)
        plain = replace(found, numbers={**found.numbers, self.label: 1.0})
        yield from self.term.match(read, view, plain)


def is_close(number: float, wanted: float) -> bool:
    """Whether a number is the one meant, but for its rounding to float32."""
    return number == wanted or math.isclose(number, wanted, rel_tol=_TOLERANCE)


def _read(node: Node, position: int) -> ReadValue:
    types = node.input_types
    return ReadValue(node.inputs[position], types[position] if position < len(types) else UNKNOWN)


def _all_match(
    pairs: list[tuple[Term, ReadValue]], view: GraphView, found: Match
) -> Iterator[Match]:
    """Give the ways in which all of some values fit their terms."""
    if not pairs:
        yield found
        return
    (term, read), *rest = pairs
    for inner in term.match(read, view, found):
        yield from _all_match(rest, view, inner)


def _multiples(node: Node, view: GraphView) -> Iterator[tuple[ReadValue, float]]:
    """Give what a Mul or Div by a known number is applied to, and the factor."""
    factor = view.number(node.inputs[1])
    if factor is not None and (factor or node.op == "Mul"):
        yield _read(node, 0), factor if node.op == "Mul" else 1.0 / factor
    factor = view.number(node.inputs[0])
    if factor is not None and node.op == "Mul":
        yield _read(node, 1), factor


def _factors(node: Node, view: GraphView, most: int) -> tuple[float, list[ReadValue]] | None:
    """Return the known number and the values whose product a node gives.

    None where it gives no product.  ``most``: how many nodes may lie within each other below it.
    """
    if not is_one_of(node, ("Mul", "Div")) or len(node.inputs) != 2:
        return None
    number, values = 1.0, list[ReadValue]()
    for position, name in enumerate(node.inputs):
        is_divisor = node.op == "Div" and position == 1
        known = view.number(name)
        if is_divisor and not known:
            return None
        if known is not None:
            number *= 1.0 / known if is_divisor else known
            continue
        maker = view.maker(name) if most and view.reads(name) == 1 else None
        inner = _factors(maker, view, most - 1) if maker is not None else None
        number *= 1.0 if inner is None else inner[0]
        values += [_read(node, position)] if inner is None else inner[1]
    return number, values
