"""Reading through a map of indices, along a row of results, by whole vectors where that is right.

A place in the row is a coordinate of the map, and so are numbers of taps behind it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyrite.backend.cube.operand import Operand
from pyrite.backend.cube.skeleton.along import Lanes
from pyrite.errors import DeviceError
from pyrite.kernel import KernelBuilder, Value
from pyrite.kernel.ir import WIDTHS
from pyrite.op.index import Bound, Form, IndexMap
from pyrite.types import Shape, bool_, int32

Coordinate = Value | int


class Reader:
    """One source inside a kernel, read through a map at the elements of a row.

    The row has the coordinates ``row``, and its elements that on axis number ``last`` of the map.
    """

    def __init__(
        self, b: KernelBuilder, index: IndexMap, source: Operand, row: Sequence[Coordinate],
        last: int,
    ) -> None:  # fmt: skip
        self.b, self.index, self.source = b, index, source
        self.row, self.last = list(row), last

    def at(self, position: Coordinate, taps: Sequence[Coordinate] = ()) -> list[Coordinate]:
        """Return the coordinates of an element of the row, and of taps."""
        return [*self.row, position, *taps] if self.last >= 0 else [*taps]

    def fits(self, first: Value, width: int) -> list[Value | bool]:
        """Return what must hold so that a vector of elements needs no test, whatever the tap."""
        end = first + (width - 1)
        return [test for bound in self.index.bounds for test in self._at_ends(bound, first, end)]

    def _at_ends(self, bound: Bound, first: Value, end: Value) -> list[Value | bool]:
        low = Bound(bound.form, bound.low, None).holds(self._end(bound.form, first, end, 1))
        high = Bound(bound.form, None, bound.high).holds(self._end(bound.form, first, end, -1))
        return [low, high]

    def _end(self, form: Form, first: Value, end: Value, sign: int) -> list[Coordinate]:
        """Return where an affine form is least, or with -1 greatest, over a vector and all taps."""
        sizes = self.index.shape[self.last + 1 :]
        taps = [
            0 if form.factor(axis) * sign >= 0 else size - 1
            for axis, size in enumerate(sizes, start=self.last + 1)
        ]
        return self.at(first if form.factor(self.last) * sign >= 0 else end, taps)

    def tests(
        self, lanes: Lanes, taps: Sequence[Coordinate] = ()
    ) -> tuple[Value | None, Value | None]:
        """Return whether bounds hold that do not depend on the place in the row, and the others."""
        outer = [bound for bound in self.index.bounds if self.last not in bound.form.axes]
        inner = [bound for bound in self.index.bounds if self.last in bound.form.axes]
        exists = all_of(self.b, [bound.holds(self.at(lanes.first, taps)) for bound in outer])
        within = all_of(self.b, [bound.holds(self.at(lanes.positions, taps)) for bound in inner])
        if lanes.mask is not None:
            within = lanes.mask if within is None else within & lanes.mask
        return exists, within

    def read(
        self, lanes: Lanes, exists: Value | None, within: Value | None,
        taps: Sequence[Coordinate] = (),
    ) -> Value:  # fmt: skip
        """Return the elements at the places of a vector; 0 where one is masked."""
        b, index, source = self.b, self.index, self.source
        along = [a for a, place in enumerate(index.places) if self.last in place.axes]
        if lanes.width == 1 or len(along) > 1:
            places = source.at(index.at(self.at(lanes.positions, taps)))
            return source.load(places, mask=both(b, exists, within, lanes.width))
        first = source.at(index.at(self.at(lanes.first, taps)))
        if not along:
            x = spread(b, source.load(first, mask=exists), lanes.width)
            return x if within is None else b.select(within, x, 0)
        (axis,) = along
        step = index.places[axis].factor(self.last)
        return source.load_along(
            first, lanes.width, axis=axis, step=step, mask=within, exists=exists
        )  # fmt: skip


def widest(maps: Sequence[IndexMap], last: int) -> int:
    """Return how many elements of a row may be read together: one where the maps divide it."""
    forms = [form for index in maps for form in (*index.places, *(b.form for b in index.bounds))]
    return WIDTHS[-1] if all(f.is_affine or last not in f.axes for f in forms) else 1


def require_counted(what: str, maps: Sequence[IndexMap]) -> None:
    """Raise DeviceError for maps that are not computed in int32, as indices of kernels are."""
    most = max((index.most for index in maps), default=0)
    if most > int(int32.highest):
        raise DeviceError(
            f"{what} requires indices computed from numbers <= {int32.highest} on this device, got "
            f"{most}; split it"
        )


def both(b: KernelBuilder, exists: Value | None, within: Value | None, width: int) -> Value | None:
    """Return a test of a row and one of its elements as one."""
    if exists is None or within is None:
        return exists if within is None else within
    return within & spread(b, exists, width)


def spread(b: KernelBuilder, x: Value, width: int) -> Value:
    """Return a scalar as a vector."""
    return x if x.width == width else b.splat(x, width)


def all_of(b: KernelBuilder, tests: Sequence[Value | bool]) -> Value | None:
    """Return whether all tests hold, None if they are known to."""
    found: Value | None = None
    for test in tests:
        if isinstance(test, Value):
            found = test if found is None else found & test
        elif not test:
            return b.const(False, bool_)
    return found


def row_shape(shape: Shape) -> Shape:
    """Return the shape of a result with rows, which a zero-d one has not."""
    return shape or (1,)
