"""What the results of a graph may differ by from those of its ops one by one.

Two classes of ops.  *Exact* ones give the same bits however they are grouped: elementwise ops,
which round as alone, what only moves elements, and all of whole numbers and bools alone.  All
others, sums and products above all, may add in another order: each result is off by roundings of
its dtype, and by what becomes of these in the ops that follow.

That is not bounded but tried: the ops run again, and the float inputs and what ops of the second
class give are moved by a rounding up or down, by chance.  What moves by that may differ by `TIMES`
as much.  Whole numbers and bools that are made of rounded ones may differ in a few elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2
from typing import Any, Final

import numpy as np

from pyrite.backend.compiling import CallList
from pyrite.backend.graph import Graph, Node
from pyrite.backend.protocol import Backend
from pyrite.op import Handle, Plan
from pyrite.op.rule import Gather, Map, View
from pyrite.types import Array, TensorType

#: How often the ops run again.
SHAKES: Final = 2
#: What may differ, as a multiple of what moved and of a rounding of the largest element.  In 400
#: random graphs no result differed by more than 0.27 of that sum.
TIMES: Final = 2
#: The part of whole numbers and bools made of rounded ones that may differ: ties broken otherwise.
TIES: Final = 0.02
#: Terms of one value that move a sum by a rounding more: these all round in one direction.
REPEATED: Final = 8
#: A sum of two to the power of that many terms is short: added in pairs, each is rounded as often.
SHORT: Final = 8
#: Elements that are looked at for how often one is repeated.
LOOKED_AT: Final = 4096


@dataclass(frozen=True, slots=True)
class Expectation:
    """A result of the ops, and what another one may differ by.

    ``allowed`` is None where the bits are to be the same.  ``is_open`` says of each element whether
    it is not known at all, as what overflows by a rounding.
    """

    plain: Array
    allowed: float | None = None
    is_open: Array | None = None

    def wrong(self, found: Array) -> Array:
        """Return which elements are none that the ops may give."""
        differs = ~_is_same(found, self.plain)
        if self.allowed is None:
            return differs
        if self.plain.dtype.kind in "iub":
            is_few = differs.sum() <= max(1, TIES * differs.size)
            return np.zeros_like(differs) if is_few else differs
        with np.errstate(invalid="ignore", over="ignore"):
            off = np.abs(found.astype(np.float64) - self.plain.astype(np.float64))
        wrong: Array = differs & ~(off <= self.allowed) & ~np.asarray(self.is_open)
        return wrong


def expected(
    backend: Backend, graph: Graph, inputs: Sequence[Any], plain: Sequence[Array]
) -> list[Expectation]:
    """Return what results may be, where those of the ops are ``plain``."""
    rounded = rounded_values(graph)
    if not any(value in rounded for value in graph.results):
        return [Expectation(array) for array in plain]
    random = np.random.default_rng(0)
    shaken = [
        backend.download_all(_Shaken(backend, graph, random).run(moved, {}))
        for moved in [_moved_inputs(backend, graph, inputs, random) for _ in range(SHAKES)]
    ]
    return [
        _expectation(array, [run[n] for run in shaken]) if value in rounded else Expectation(array)
        for n, (value, array) in enumerate(zip(graph.results, plain, strict=True))
    ]


def is_exact(graph: Graph, node: Node) -> bool:
    """Whether an op gives the same bits however it is grouped."""
    if node.op.is_elementwise and node.op.body is None:
        return True
    if isinstance(node.op.rule, View | Map | Gather):
        return True
    types = [*node.types, *[graph.types[v] for v in node.values]]
    return not any(type.dtype.is_float for type in types)


def rounded_values(graph: Graph) -> set[int]:
    """Return the values that another order of sums may change."""
    found: set[int] = set()
    for node in graph.nodes:
        if not is_exact(graph, node) or not found.isdisjoint(node.values):
            found.update(node.results)
    return found


class _Shaken(CallList):
    """The ops of a graph, with the results of those that add moved by a rounding."""

    def __init__(self, backend: Backend, graph: Graph, random: np.random.Generator) -> None:
        super().__init__(backend, graph)
        self._device = backend
        self._random = random

    def execute(self, node: Node, operands: Sequence[Any], plan: Plan) -> Sequence[Handle]:
        """Return the results of a node, moved."""
        made = super().execute(node, operands, plan)
        if is_exact(self._graph, node):
            return made
        given = [self._graph.types[v] for v in node.values]
        eps = max((_eps(type) for type in [*given, *node.types]), default=0.0)
        repeats = max(
            (_repeats(self._device.download(operands[n])) for n, x in enumerate(node.operands)
             if isinstance(x, int) and not self._is_number(x)),
            default=1.0,
        )  # fmt: skip
        terms = max([type.size for type in given], default=1)
        return [
            self._moved_by(x, eps, 1 + repeats / REPEATED + _levels(terms, type))
            if type.dtype.is_float and type.size
            else x
            for x, type in zip(made, node.types, strict=True)
        ]

    def _moved_by(self, x: Handle, eps: float, near: float) -> Handle:
        return self._device.upload(_moved(self._device.download(x), eps, near, self._random))

    def _is_number(self, value: int) -> bool:
        return value < len(self._graph.inputs) and self._graph.inputs[value].is_number


def _moved_inputs(
    backend: Backend, graph: Graph, inputs: Sequence[Any], random: np.random.Generator
) -> list[Any]:
    found = list(inputs)
    for given in graph.inputs:
        if not given.is_number and given.type.dtype.is_float and given.type.size:
            array = backend.download(inputs[given.position])
            found[given.position] = backend.upload(_moved(array, _eps(given.type), 0.0, random))
    return found


def _moved(array: Array, eps: float, near: float, random: np.random.Generator) -> Array:
    """Return values moved by a rounding, and by ``near`` roundings of the largest of them."""
    signs = random.choice([-1.0, 1.0], array.shape)
    wide = array.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        moved = wide * (1 + eps * signs) + eps * near * _greatest(wide) * signs
        return moved.astype(array.dtype)


def _expectation(plain: Array, shaken: Sequence[Array]) -> Expectation:
    if plain.dtype.kind in "iub":
        return Expectation(plain, 0.0)
    wide = plain.astype(np.float64)
    others = [x.astype(np.float64) for x in shaken]
    is_known = np.isfinite(wide)
    for other in others:
        is_known &= np.isfinite(other)
    known = wide[is_known]
    moved = max((np.abs(x[is_known] - known).max(initial=0.0) for x in others), default=0.0)
    is_same = np.logical_and.reduce([_is_same(x, wide) for x in others])
    allowed = TIMES * (float(moved) + _eps_of(plain) * _greatest(wide))
    return Expectation(plain, allowed, ~is_known & ~is_same)


def _is_same(x: Array, y: Array) -> Array:
    """Return where two arrays have the same values, of one sign."""
    if x.dtype.kind in "iub":
        return np.asarray(x == y)
    is_zero_alike = np.signbit(x) == np.signbit(y)
    return np.asarray(((x == y) & is_zero_alike) | ((x != x) & (y != y)))


def _eps(type: TensorType) -> float:
    return 2.0 ** (1 - _BITS[type.dtype.name]) if type.dtype.is_float else 0.0


def _eps_of(array: Array) -> float:
    return 2.0 ** (1 - _BITS[array.dtype.name])


#: Bits of the fraction of a float, the one that is not written included.
_BITS: Final = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


def _levels(terms: int, type: TensorType) -> float:
    """Return how often a sum of so many numbers for all elements is rounded beyond a short one."""
    return max(0.0, log2(max(terms, 1) / max(type.size, 1)) - SHORT)


def _greatest(wide: Array) -> float:
    return float(np.abs(wide[np.isfinite(wide)]).max(initial=0.0))


def _repeats(array: Array) -> float:
    """Return how often a value is there, roughly: equal terms are rounded in one direction."""
    if array.dtype.kind in "iub" or not array.size:
        return 1.0
    some = array.reshape(-1)[:LOOKED_AT]
    unique = len(np.unique(some.astype(np.float64)))
    return float(array.size / unique) if unique < some.size / 2 else 1.0
