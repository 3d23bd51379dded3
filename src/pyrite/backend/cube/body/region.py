"""A region of a graph: values that are computed of such as lie in memory, with their axes.

Elementwise ops, folds and the moves that only name axes anew are inside; all else is in memory
before, or after.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from typing import Final

from pyrite.backend.cube.body.atoms import Atom, Atoms, Axes, MisalignedError
from pyrite.backend.graph import Graph, Node
from pyrite.cached import UnhashableSymbolError
from pyrite.op.index import IndexMap, coordinates, number_of
from pyrite.op.rule import Fold, View
from pyrite.op.rule.fold import axes_of
from pyrite.recent import Recent
from pyrite.types import Shape, element_count


def is_view(node: Node) -> bool:
    """Whether every element of the result is one of the input, at another place."""
    return isinstance(node.op.rule, View)


def is_renaming(node: Node, graph: Graph) -> bool:
    """Whether the result has the elements of the input along the same axes, named anew."""
    return is_view(node) and renamed(node, graph) is not None


@dataclass(frozen=True, slots=True)
class Renaming:
    """A view without arithmetic: of each axis of the result which of the input it is, or None.

    ``axes`` is None for a reshape.
    """

    axes: tuple[int | None, ...] | None


def renamed(node: Node, graph: Graph) -> Renaming | None:
    """Return how a view names axes anew; None where it leaves elements out, or turns them round."""
    (value,) = node.values
    shape = graph.types[value].shape
    key = (node.content, shape)
    try:
        found = _renamings.get(key)
    except UnhashableSymbolError:
        return _renamed(_index_of(node, shape))
    if found is None:
        found = (_renamed(_index_of(node, shape)),)
        _renamings.put(key, found)
    return found[0]


#: What views were found to be, by what they are by content and the shape of the operand.
_renamings: Recent[Hashable, tuple[Renaming | None]] = Recent(4096)


def _renamed(index: IndexMap) -> Renaming | None:
    shape, source = index.shape, index.source
    axes: list[int | None] = [None] * len(shape)
    for axis, (place, size) in enumerate(zip(index.simplified.places, source, strict=True)):
        if size == 1:
            continue
        if place.offset or len(place.terms) != 1:
            break
        ((factor, atom),) = place.terms
        if factor != 1 or not isinstance(atom, int) or shape[atom] != size:
            break
        axes[atom] = axis
    else:
        return Renaming(tuple(axes))
    own = number_of(coordinates(len(shape)), shape).simplified(shape)
    is_reshape = element_count(shape) == element_count(source)
    return Renaming(None) if is_reshape and index.numbered().simplified(shape) == own else None


def _index_of(node: Node, shape: Shape) -> IndexMap:
    rule = node.op.rule
    assert isinstance(rule, View)
    return rule.of([shape], node.attrs)[0].index


def is_fold(node: Node) -> bool:
    """Whether a node is a reduction by the class of its rule."""
    return isinstance(node.op.rule, Fold)


def is_inside(node: Node, graph: Graph) -> bool:
    """Whether a region may have such a node."""
    if not (node.op.is_elementwise or is_fold(node) or is_renaming(node, graph)):
        return False
    # What has no elements is no matter of kernels.
    return all(t.size for t in node.types) and all(graph.types[v].size for v in node.values)


@lru_cache(maxsize=1024)
def inside_of(graph: Graph) -> frozenset[Node]:
    """Return the nodes of a graph that regions may have."""
    return frozenset(node for node in graph.nodes if is_inside(node, graph))


def reduced_axes(graph: Graph, node: Node) -> tuple[int, ...]:
    """Return the axes over which a fold goes."""
    ndim = len(graph.types[node.values[0]].shape)
    return axes_of(node.attrs.get("axis"), ndim)


@dataclass(eq=False)
class Region:
    """Some nodes of a graph in order, and the axes of all their values.

    ``leaves`` are the values that lie in memory.  ``support`` has the atoms along which a value
    varies at all: fewer than its axes have where it was stretched.
    """

    graph: Graph
    nodes: tuple[Node, ...]
    leaves: tuple[int, ...]
    atoms: Atoms = field(default_factory=Atoms)
    _axes: dict[int, Axes] = field(default_factory=dict)
    _support: dict[int, frozenset[Atom]] = field(default_factory=dict)
    #: The axes and support of values as resolved, and for which version of the atoms.
    _resolved: dict[int, tuple[int, Axes, frozenset[Atom]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for leaf in self.leaves:
            axes = self.atoms.axes(self.graph.types[leaf].shape)
            self._put(leaf, axes, {a for axis in axes for a in axis})
        for node in self.nodes:
            try:
                self._align(node)
            except MisalignedError:
                # Seen by who asks which node it was.
                raise CutError(node) from None
        for value in self._axes:
            try:
                self.atoms.require_distinct(self._axes[value])
            except MisalignedError:
                raise CutError(self.nodes[-1]) from None

    def _put(self, value: int, axes: Axes, support: Iterable[Atom]) -> None:
        self._axes[value] = axes
        self._support[value] = frozenset(support)
        self._resolved.pop(value, None)

    def axes(self, value: int) -> Axes:
        """Return the atoms of each axis of a value."""
        return self._known(value)[1]

    def _known(self, value: int) -> tuple[int, Axes, frozenset[Atom]]:
        found, version = self._resolved.get(value), self.atoms.version
        if found is None or found[0] != version:
            resolved = self.atoms.resolved
            axes = tuple([resolved(axis) for axis in self._axes[value]])
            found = version, axes, frozenset(resolved(self._support[value]))
            self._resolved[value] = found
        return found

    def space(self, value: int) -> tuple[Atom, ...]:
        """Return the atoms of all axes of a value in order."""
        return tuple(a for axis in self.axes(value) for a in axis)

    def support(self, value: int) -> Set[Atom]:
        """Return the atoms along which a value varies."""
        return self._known(value)[2]

    # ---- axes of results ----

    def _align(self, node: Node) -> None:
        if node.op.is_elementwise:
            self._meet(node)
        elif is_fold(node):
            self._fold(node)
        else:
            self._rename(node)

    def _meet(self, node: Node) -> None:
        (type,) = node.types
        support: set[Atom] = set()
        axes: list[tuple[Atom, ...]] = [()] * type.ndim
        for value in node.values:
            support |= self._support[value]
            given = self._axes[value]
            missing = type.ndim - len(given)
            for i, axis in enumerate(given, missing):
                if axis:
                    axes[i] = self.atoms.unify(axes[i], axis) if axes[i] else axis
        # What is made of numbers alone is the same along axes that nobody else gave.
        made = (a or self.atoms.new(n) for a, n in zip(axes, type.shape, strict=True))
        self._put(node.first, tuple(made), support)

    def _fold(self, node: Node) -> None:
        (value,) = node.values
        given, reduced = self._axes[value], reduced_axes(self.graph, node)
        gone = {a for i in reduced for a in self.atoms.resolved(given[i])}
        keeps = node.attrs.get("keepdims", False)
        axes = tuple(
            () if i in reduced else axis for i, axis in enumerate(given)
            if keeps or i not in reduced
        )  # fmt: skip
        for result in node.results:
            self._put(result, axes, self.support(value) - gone)

    def _rename(self, node: Node) -> None:
        (value,) = node.values
        given, (type,) = self._axes[value], node.types
        found = renamed(node, self.graph)
        assert found is not None, "a view that names axes anew"
        if found.axes is None:
            axes = self.atoms.reshaped(given, type.shape)
        else:
            axes = tuple(
                self.atoms.new(size) if axis is None else given[axis]
                for axis, size in zip(found.axes, type.shape, strict=True)
            )
        self._put(node.first, axes, self._support[value])

    # ---- folds ----

    def reduced(self, node: Node) -> tuple[Atom, ...]:
        """Return the atoms over which a fold goes, in the order of its operand's axes."""
        (value,) = node.values
        axes = self.axes(value)
        return tuple(a for i in sorted(reduced_axes(self.graph, node)) for a in axes[i])

    def kept(self, node: Node) -> tuple[Atom, ...]:
        """Return the other atoms of a fold's operand."""
        (value,) = node.values
        gone = set(self.reduced(node))
        return tuple(a for a in self.space(value) if a not in gone)


class CutError(Exception):
    """A node whose operands must lie in memory first, for its axes fit nothing else."""

    def __init__(self, node: Node) -> None:
        super().__init__(node.op.name)
        self.node = node


def ancestors(graph: Graph, wanted: Sequence[int], real: Container[int]) -> list[Node]:
    """Return the nodes of which values are made, as far as they do not lie in memory, in order."""
    found: set[Node] = set()
    left = list(wanted)
    while left:
        value = left.pop()
        node = None if value in real else graph.makers[value]
        if node is not None and node not in found:
            found.add(node)
            left += node.values
    return sorted(found, key=_PLACE)


_PLACE: Final = attrgetter("first")
