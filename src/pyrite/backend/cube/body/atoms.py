"""Axes of many tensors as products of the same few: what a body does along which.

An axis of a value is a row of atoms, each with a size; an axis of size 1 has none.  Ops that meet
element by element make their axes one, a reshape cuts axes where it must, and a reduction drops
some.  So (N, C, H, W) seen as (N, groups, rest) and a weight (C,) are over the atoms N, group,
channel of the group, and place, whatever the shapes were.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from pyrite.types import Shape

Atom = int
#: The atoms of one axis, the last of which varies fastest.
Axis = tuple[Atom, ...]
Axes = tuple[Axis, ...]


class MisalignedError(Exception):
    """Axes that are no products of the same atoms: a value must be in memory first."""


class Atoms:
    """Atoms, some of which turned out to be the same, or products of others."""

    def __init__(self) -> None:
        self._sizes: list[int] = []
        self._parts: dict[Atom, Axis] = {}

    @property
    def version(self) -> int:
        """How many atoms turned out to be made of others: what is `resolved` depends on it."""
        return len(self._parts)

    def new(self, size: int) -> Axis:
        """Return a new axis of a size."""
        if size == 1:
            return ()
        self._sizes.append(size)
        return (len(self._sizes) - 1,)

    def axes(self, shape: Shape) -> Axes:
        """Return new axes of a shape."""
        return tuple(self.new(size) for size in shape)

    def size(self, atom: Atom) -> int:
        """Return the size of an atom."""
        return self._sizes[atom]

    def sizes(self, axis: Iterable[Atom]) -> Shape:
        """Return the sizes of atoms."""
        return tuple(self._sizes[atom] for atom in axis)

    def resolved(self, axis: Iterable[Atom]) -> Axis:
        """Return the atoms of which an axis is made, as far as is known by now."""
        axis = tuple(axis)
        if self._parts.keys().isdisjoint(axis):
            return axis
        found: list[Atom] = []
        for atom in axis:
            parts = self._parts.get(atom)
            found += (atom,) if parts is None else self.resolved(parts)
        return tuple(found)

    def unify(self, x: Axis, y: Axis) -> Axis:
        """Make two axes of one size the same; return it."""
        xs, ys = list(self.resolved(x)), list(self.resolved(y))
        found: list[Atom] = []
        while xs and ys:
            a, b = xs.pop(), ys.pop()
            if a == b:
                found.append(a)
                continue
            small = min(self._sizes[a], self._sizes[b])
            for one, rest in ((a, xs), (b, ys)):
                if self._sizes[one] > small:
                    rest.append(self.cut(one, small))
            a, b = self.resolved((a,))[-1], self.resolved((b,))[-1]
            if a != b:
                self._parts[b] = (a,)
            found.append(a)
        if xs or ys:
            raise MisalignedError
        return self.resolved(reversed(found))

    def cut(self, atom: Atom, size: int) -> Atom:
        """Cut an atom into two, the second of a size; return the first."""
        if self._sizes[atom] % size:
            raise MisalignedError
        first, second = *self.new(self._sizes[atom] // size), *self.new(size)
        self._parts[atom] = (first, second)
        return first

    def reshaped(self, axes: Axes, shape: Shape) -> Axes:
        """Return the axes of the same elements in row-major order as another shape."""
        left = list(self.resolved(atom for axis in axes for atom in axis))
        found: list[Axis] = []
        for size in reversed(shape):
            axis: list[Atom] = []
            while size > 1:
                atom = left.pop()
                if self._sizes[atom] > size:
                    left.append(self.cut(atom, size))
                    atom = self.resolved((atom,))[-1]
                if size % self._sizes[atom]:
                    raise MisalignedError
                size //= self._sizes[atom]
                axis.append(atom)
            found.append(tuple(reversed(axis)))
        return tuple(reversed(found))

    def require_distinct(self, axes: Axes) -> None:
        """Raise MisalignedError where a value would vary twice along one atom: a diagonal."""
        atoms = self.resolved(atom for axis in axes for atom in axis)
        if len(set(atoms)) != len(atoms):
            raise MisalignedError

    def strides(self, axes: Axes, strides: Sequence[int]) -> dict[Atom, int]:
        """Return the stride along each atom of a tensor with these axes and strides."""
        found: dict[Atom, int] = {}
        for axis, stride in zip(axes, strides, strict=True):
            for atom in reversed(self.resolved(axis)):
                found[atom] = stride
                stride *= self._sizes[atom]
        return found

    def count(self, atoms: Iterable[Atom]) -> int:
        """Return how many elements there are along atoms."""
        return prod(self.sizes(atoms))
