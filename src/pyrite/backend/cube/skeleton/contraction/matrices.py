"""Contractions as products of matrices, where places are sums of coordinates.

Coordinates of the result that both operands have are the batch, those that one has its rows or
columns; what is summed is K.  A place that has bounds is a window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyrite.backend.cube.layout import merged
from pyrite.kernel.machine import Machine
from pyrite.kernel.template.implicit_gemm import OperandLayout, operand_map
from pyrite.kernel.template.operand import Axis, Digit, OperandMap, Window
from pyrite.kernel.template.product import Product
from pyrite.op.index import Bound, Form, IndexMap
from pyrite.op.rule import Terms


@dataclass(frozen=True, slots=True)
class Matrices:
    """A contraction as a product: which axes of its points are which of the product's.

    ``is_swapped`` says that the right operand is the product's x.
    """

    terms: Terms
    batch: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    is_swapped: bool

    @property
    def summed(self) -> tuple[int, ...]:
        """The axes of K."""
        return tuple(range(self.terms.kept, len(self.terms.left.shape)))

    def split(self, left: OperandLayout, right: OperandLayout, out: OperandLayout) -> Matrices:
        """Return it with what lies apart as more matrices: rows or columns that are no one digit.

        To find the place of a row by division is dearer than a batch.  A contraction with windows
        stays as it is: there it is shared what they read.
        """
        if self.terms.left.bounds or self.terms.right.bounds:
            return self
        x, y = (right, left) if self.is_swapped else (left, right)
        of_x, of_y = self.terms.left, self.terms.right
        of_x, of_y = (of_y, of_x) if self.is_swapped else (of_x, of_y)
        apart, rows = _joined(self.rows, of_x, x, out)
        more, columns = _joined(self.columns, of_y, y, out)
        batch = tuple(sorted((*self.batch, *apart, *more)))
        return replace(self, batch=batch, rows=rows, columns=columns)

    def product(
        self, left: OperandLayout, right: OperandLayout, out: OperandLayout, machine: Machine
    ) -> Product:
        """Return the product, of operands and a result that lie so.

        ``out`` has the axes of the terms.  Rows of images are filled up in thought to whole
        vectors, so that none goes over the end of one.
        """
        maps = (self.terms.left, left), (self.terms.right, right)
        (x, of_x), (y, of_y) = reversed(maps) if self.is_swapped else maps
        lanes = self.lanes(left, right, machine)
        return Product(
            self._map(x, of_x, self.rows, self.summed, 1),
            self._map(y, of_y, self.summed, self.columns, lanes),
            self.result(out, lanes),
        )

    def result(self, out: OperandLayout, lanes: int) -> OperandMap:
        """Return where the result lies, or what has its axes."""
        shape = self.terms.left.shape

        def axis(of: Sequence[int]) -> Axis:
            return tuple(Digit(shape[a], out.strides[a]) for a in of)

        return operand_map(out, axis(self.batch), axis(self.rows), axis(self.columns), [], lanes)

    def lanes(self, left: OperandLayout, right: OperandLayout, machine: Machine) -> int:
        """Return the lanes to which rows of images are filled up in thought."""
        y, layout = (self.terms.left, left) if self.is_swapped else (self.terms.right, right)
        if not self.columns or not y.bounds:
            return 1
        shape = y.shape
        rows = 1
        for a in self.rows:
            rows *= shape[a]
        return lanes_of(machine, rows, shape[self.columns[-1]], layout.dtype.compute.itemsize)

    def _map(
        self, index: IndexMap, layout: OperandLayout, rows: Sequence[int], columns: Sequence[int],
        lanes: int,
    ) -> OperandMap:  # fmt: skip
        windows, moves = _windows(index, layout.strides)

        def axis(of: Sequence[int]) -> Axis:
            return tuple(Digit(index.shape[a], *moves[a]) for a in of)

        return operand_map(layout, axis(self.batch), axis(rows), axis(columns), windows, lanes)


def _joined(
    axes: tuple[int, ...], index: IndexMap, operand: OperandLayout, out: OperandLayout
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return axes as those that lie apart, and the last of them, which are one in memory."""
    _, moves = _windows(index, operand.strides)
    strides = tuple(stride for stride, _ in moves)
    for first in range(len(axes)):
        rest = axes[first:]
        shape = tuple(index.shape[a] for a in rest)
        steps = [tuple(of[a] for a in rest) for of in (strides, out.strides)]
        if len(merged(shape, steps)[0][0]) <= 1:
            return axes[:first], rest
    return axes, ()


def matrices_of(terms: Terms) -> Matrices | None:
    """Return a contraction as a product of matrices; None where places are divided."""
    maps = terms.left, terms.right
    if not all(form.is_affine for m in maps for form in _forms(m)):
        return None
    left, right = (_axes(m) for m in maps)
    kept = range(terms.kept)
    batch = tuple(a for a in kept if a in left and a in right)
    columns = tuple(a for a in kept if a in right and a not in left)
    rows = tuple(a for a in kept if a not in batch and a not in columns)
    # Windows are columns, where vectors lie along them.
    is_swapped = bool(terms.left.bounds) and not terms.right.bounds
    rows, columns = (columns, rows) if is_swapped else (rows, columns)
    return Matrices(terms, batch, rows, columns, is_swapped)


def lanes_of(machine: Machine, rows: int, size: int, itemsize: int) -> int:
    """Return the lanes to which rows of images are filled up: few are in vain.

    Where many rows share what is read, a copy is joined from short pieces.
    """
    width = 4
    if machine.kind == "cpu" and rows < 6:
        width = machine.vector_bytes // itemsize
    while width > 1 and -(-size // width) * width > 1.34 * size:
        width //= 2
    return width


def _forms(index: IndexMap) -> list[Form]:
    return [*index.places, *(bound.form for bound in index.bounds)]


def _axes(index: IndexMap) -> frozenset[int]:
    return frozenset[int]().union(*(form.axes for form in _forms(index)))


#: How far each axis moves in memory, and in which windows.
Moves = list[tuple[int, tuple[tuple[int, int], ...]]]


def _windows(index: IndexMap, strides: Sequence[int]) -> tuple[list[Window], Moves]:
    """Return the windows of a map, of an operand with such strides, and what axes move."""
    bounded = {bound.form: bound for bound in index.bounds}
    windows: list[Window] = []
    forms: list[Form] = []
    plain: list[tuple[Form, int]] = []
    for place, size, stride in zip(index.places, index.source, strides, strict=True):
        if place in bounded or place.offset:
            windows.append(Window(size, stride, place.offset))
            forms.append(place)
            bounded.pop(place, None)
        else:
            plain.append((place, stride))
    for form, bound in bounded.items():
        low, high = _limits(bound, index)
        windows.append(Window(high - low, 0, form.offset - low))
        forms.append(form)
    moves: Moves = []
    for axis in range(len(index.shape)):
        steps = [(n, form.factor(axis)) for n, form in enumerate(forms)]
        stride = sum(form.factor(axis) * s for form, s in plain)
        moves.append((stride, tuple((n, factor) for n, factor in steps if factor)))
    return windows, moves


def _limits(bound: Bound, index: IndexMap) -> tuple[int, int]:
    first, last = bound.form.range(index.shape)
    low = first if bound.low is None else bound.low
    return low, last + 1 if bound.high is None else bound.high
