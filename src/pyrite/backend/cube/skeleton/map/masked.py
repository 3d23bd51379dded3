"""Moves by one kernel that tests, for each element, which piece it is of.

Along a row of the result the first piece is read by whole vectors where all of its bounds hold at
both ends of a vector, and so between them; elsewhere each element is tested.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.skeleton.along import Along, AlongConfig, Lanes, along_rows
from pyrite.backend.cube.skeleton.map.numbers import Maps
from pyrite.backend.cube.skeleton.map.reader import (
    Reader,
    all_of,
    both,
    require_counted,
    row_shape,
    widest,
)
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Value
from pyrite.op.index import IndexMap
from pyrite.types import Number


def move_masked(
    launcher: Launcher, maps: tuple[IndexMap, ...], sources: Sequence[CubeTensor], fill: Number,
    target: CubeTensor, config: AlongConfig | None = None,
) -> None:  # fmt: skip
    """Write to each element what the first map whose bounds hold reads, else the fill."""
    whole = target.reshaped(row_shape(maps[0].shape))
    assert whole is not None, "a dense tensor takes any shape"

    def body(along: Along, problem: tuple[Maps, Number]) -> None:
        numbered, fill = problem
        _Row(along, numbered.maps, fill).write()

    require_counted("a move", maps)
    most = widest(maps, len(maps[0].shape) - 1)
    along_rows(
        launcher,
        "move",
        (Maps.of(maps), fill),
        sources,
        [whole],
        body,
        config,
        widest=most,
        knows_first=True,
    )


class _Row:
    """The kernel of one row of the result, while it is being written."""

    def __init__(self, along: Along, maps: Sequence[IndexMap], fill: Number) -> None:
        self.along, self.b, self.fill = along, along.b, fill
        last = len(maps[0].shape) - 1
        self.readers = [
            Reader(along.b, index, source, along.row, last)
            for index, source in zip(maps, along.sources, strict=True)
        ]

    def write(self) -> None:
        """Write the elements of the row."""
        self.along.write(self.vector, self.fits)

    def fits(self, first: Value) -> Value | None:
        return all_of(self.b, self.readers[0].fits(first, self.along.width))

    def vector(self, lanes: Lanes) -> None:
        (target,) = self.along.targets
        place = target.at([*self.along.row, lanes.first])
        target.store_along(place, self.found(lanes), mask=lanes.mask)

    def found(self, lanes: Lanes) -> Value:
        """Return a vector of elements."""
        if lanes.width > 1 and lanes.mask is None:
            return self.readers[0].read(lanes, None, None)
        found: Value | Number = self.fill
        for reader in reversed(self.readers):
            exists, within = reader.tests(lanes)
            read = reader.read(lanes, exists, within)
            holds = both(self.b, exists, within, lanes.width)
            # What is masked is read as 0.
            is_filled = isinstance(found, int | float) and found == 0
            found = read if holds is None or is_filled else self.b.select(holds, read, found)
        assert isinstance(found, Value)
        return found
