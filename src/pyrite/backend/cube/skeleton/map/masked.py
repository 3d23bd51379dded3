"""Moves by one kernel that tests, for each element, which piece it is of.

Along a row of the result the first piece is read by whole vectors where all of its bounds hold at
both ends of a vector, and so between them; elsewhere each element is tested.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.operand import Operand
from pyrite.backend.cube.skeleton.along import Along, AlongConfig, Lanes, along_rows
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import KernelBuilder, Value
from pyrite.kernel.ir import WIDTHS
from pyrite.op.index import Bound, IndexMap
from pyrite.types import Number, bool_

At = Sequence[Value | int]


def move_masked(
    launcher: Launcher, maps: tuple[IndexMap, ...], sources: Sequence[CubeTensor], fill: Number,
    target: CubeTensor, config: AlongConfig | None = None,
) -> None:  # fmt: skip
    """Write to each element what the first map whose bounds hold reads, else the fill."""
    shape = maps[0].shape or (1,)
    whole = target.reshaped(shape)
    assert whole is not None, "a dense tensor takes any shape"

    def body(along: Along) -> None:
        _Row(along, maps, fill).write()

    along_rows(
        launcher, "move", (maps, fill), sources, [whole], body, config, widest=widest(maps)
    )  # fmt: skip


def widest(maps: Sequence[IndexMap]) -> int:
    """Return how many elements of a row may be moved together: one where bounds divide it."""
    last = len(maps[0].shape) - 1
    forms = [form for index in maps for form in (*index.places, *(b.form for b in index.bounds))]
    return WIDTHS[-1] if all(f.is_affine or last not in f.axes for f in forms) else 1


class _Row:
    """The kernel of one row of the result, while it is being written."""

    def __init__(self, along: Along, maps: Sequence[IndexMap], fill: Number) -> None:
        self.along, self.b, self.maps, self.fill = along, along.b, maps, fill
        self.last = len(maps[0].shape) - 1

    def write(self) -> None:
        """Write the elements of the row."""
        self.along.write(self.vector, self.fits)

    def fits(self, first: Value) -> Value | None:
        """Return whether all bounds of the first piece hold for a vector of elements."""
        end = first + (self.along.width - 1)
        tests = [t for bound in self.maps[0].bounds for t in self.at_ends(bound, first, end)]
        return all_of(self.b, tests)

    def at_ends(self, bound: Bound, first: Value, end: Value) -> list[Value | bool]:
        """Return a bound at both ends of a vector: an affine form lies between them."""
        factor = bound.form.factor(self.last)
        if factor == 0:
            return [bound.holds(self.at(first))]
        low, high = (first, end) if factor > 0 else (end, first)
        sides = [
            (low, Bound(bound.form, bound.low, None)),
            (high, Bound(bound.form, None, bound.high)),
        ]
        return [side.holds(self.at(at)) for at, side in sides]

    def at(self, position: Value) -> At:
        """Return the coordinates of an element of the row."""
        return [*self.along.row, position][: self.last + 1]

    def vector(self, lanes: Lanes) -> None:
        (target,) = self.along.targets
        place = target.at([*self.along.row, lanes.first])
        target.store_along(place, self.found(lanes), mask=lanes.mask)

    def found(self, lanes: Lanes) -> Value:
        """Return a vector of elements."""
        pieces = list(zip(self.maps, self.along.sources, strict=True))
        if lanes.width > 1 and lanes.mask is None:
            return self.read(*pieces[0], lanes, None, None)
        found: Value | Number = self.fill
        for index, source in reversed(pieces):
            exists, within = self.tests(index, lanes)
            read = self.read(index, source, lanes, exists, within)
            holds = self.both(exists, within, lanes)
            # What is masked is read as 0.
            is_filled = isinstance(found, int | float) and found == 0
            found = read if holds is None or is_filled else self.b.select(holds, read, found)
        assert isinstance(found, Value)
        return found

    def tests(self, index: IndexMap, lanes: Lanes) -> tuple[Value | None, Value | None]:
        """Return whether bounds hold that do not depend on the place in the row, and the others."""
        outer = [b for b in index.bounds if self.last not in b.form.axes]
        inner = [b for b in index.bounds if self.last in b.form.axes]
        exists = all_of(self.b, [b.holds(self.at(lanes.first)) for b in outer])
        within = all_of(self.b, [b.holds(self.at(lanes.positions)) for b in inner])
        if lanes.mask is not None:
            within = lanes.mask if within is None else within & lanes.mask
        return exists, within

    def both(self, exists: Value | None, within: Value | None, lanes: Lanes) -> Value | None:
        if exists is None or within is None:
            return exists if within is None else within
        return within & self.spread(exists, lanes)

    def spread(self, x: Value, lanes: Lanes) -> Value:
        return x if x.width == lanes.width else self.b.splat(x, lanes.width)

    def read(
        self, index: IndexMap, source: Operand, lanes: Lanes, exists: Value | None,
        within: Value | None,
    ) -> Value:  # fmt: skip
        """Return the elements of a source at the places of a vector; 0 where one is masked."""
        along = [a for a, place in enumerate(index.places) if self.last in place.axes]
        if lanes.width == 1 or len(along) > 1:
            at = index.at(self.at(lanes.positions))
            mask = self.both(exists, within, lanes)
            return source.load(source.at(at), mask=mask)
        first = source.at(index.at(self.at(lanes.first)))
        if not along:
            x = self.spread(source.load(first, mask=exists), lanes)
            return x if within is None else self.b.select(within, x, 0)
        (axis,) = along
        step = index.places[axis].factor(self.last)
        return source.load_along(
            first, lanes.width, axis=axis, step=step, mask=within, exists=exists
        )  # fmt: skip


def all_of(b: KernelBuilder, tests: Sequence[Value | bool]) -> Value | None:
    """Return whether all tests hold, None if they are known to."""
    found: Value | None = None
    for test in tests:
        if isinstance(test, Value):
            found = test if found is None else found & test
        elif not test:
            return b.const(False, bool_)
    return found
