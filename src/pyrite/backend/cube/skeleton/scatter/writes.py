"""The writes of a scatter in one form: numbered on lines that do not touch each other.

Points whose coordinates go to the same coordinates of the target are on a line of their own; along
the other axes of the points the writes of a line are numbered, in row-major order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.operand import Operand
from pyrite.backend.cube.skeleton.copy import flattened
from pyrite.backend.cube.skeleton.each import Each
from pyrite.backend.cube.skeleton.place import strides_along
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Value
from pyrite.op.rule import ASSIGN, Collision, Coordinate, IndexRead, Place
from pyrite.types import Number, Shape, bool_, element_count

#: The operand that holds the indices of an axis, and where they are in a vector of them.
Read = tuple[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Writes:
    """K writes on each of some lines: views of one form.

    Each of ``indices`` has shape (K, *lines, ...), ``updates`` (K, *lines) or is a number, or
    "number" to write the number of the write.  The target has an axis for each of ``reads``, and
    then the lines.  Without a ``fault`` writes outside are dropped in silence.

    ``index_of`` makes an index of what a read gives, with ``tables``, operands that all writes
    have: it returns whether there is one, and the index.
    """

    count: int
    lines: Shape
    indices: Sequence[CubeTensor]
    reads: Sequence[Read]
    updates: CubeTensor | Number | Literal["number"]
    collision: Collision = ASSIGN
    fault: str | None = None
    counts_from_end: bool = True
    index_of: Callable[[Each, Value, Sequence[Operand], int], tuple[Value, Value]] | None = None
    tables: Sequence[CubeTensor] = ()

    @property
    def sources(self) -> list[CubeTensor]:
        """The operands of a kernel before the target."""
        return [*self.indices, *self.tables, *self.values]

    @property
    def position(self) -> int:
        """Which of the operands are the updates, if they are a tensor."""
        return len(self.indices) + len(self.tables)

    @property
    def values(self) -> list[CubeTensor]:
        """The updates, if they are a tensor."""
        return [self.updates] if isinstance(self.updates, CubeTensor) else []

    @property
    def variant(self) -> tuple[Any, ...]:
        """What a kernel depends on besides its operands and their sizes."""
        updates = None if isinstance(self.updates, CubeTensor) else self.updates
        can_fail = self.fault is not None
        return (
            tuple(self.reads), updates, self.collision.join, can_fail, self.counts_from_end,
            self.index_of, len(self.tables),
        )  # fmt: skip

    def place(
        self, each: Each, number: Value, line: Sequence[Value | int], sizes: Shape
    ) -> tuple[Value, list[Value]]:
        """Return what `find` does, and have reads raise where a write is outside."""
        inside, found = self.find(each, number, line, sizes)
        if self.fault is not None:
            each.fail(~inside)
        return inside, found

    def find(
        self, each: Each, number: Value, line: Sequence[Value | int], sizes: Shape
    ) -> tuple[Value, list[Value]]:
        """Return whether a write is inside, and where it goes along the axes of those sizes."""
        inside, found = each.b.const(True, bool_), []
        for (operand, vector), size in zip(self.reads, sizes, strict=True):
            given = each.operands[operand][[number, *line, *vector]]
            if self.index_of is None:
                is_inside, index = each.as_index(given, size, from_end=self.counts_from_end)
            else:
                tables = each.operands[len(self.indices) : self.position]
                is_inside, index = self.index_of(each, given, tables, size)
            inside = inside & is_inside
            found.append(index)
        return inside, found

    def update(self, each: Each, operand: int, number: Value, line: Sequence[Value | int]) -> Value:
        """Return what a write writes, of updates that are that operand, as the target computes."""
        wanted = each.operands[-1].layout.dtype.compute
        if self.updates == "number":
            return each.b.cast(number, wanted)
        if isinstance(self.updates, CubeTensor):
            return each.k.cast(each.operands[operand][[number, *line]], wanted)
        return each.operands[-1].const(self.updates)


def number_of(index: Sequence[Value | int], sizes: Sequence[int]) -> Any:
    """Return the number of a place in row-major order."""
    found: Any = index[0]
    for size, further in zip(sizes[1:], index[1:], strict=True):
        found = found * size + further
    return found


@dataclass(frozen=True, slots=True)
class Form:
    """The axes of the points that number the writes, and those of the lines."""

    place: Place
    points: Shape

    @property
    def lines(self) -> tuple[int, ...]:
        """The axes of the lines, in the order of the target's."""
        return tuple(dict.fromkeys(e.axis for e in self.place if isinstance(e, Coordinate)))

    @property
    def numbered(self) -> tuple[int, ...]:
        """The axes along which writes are numbered."""
        return tuple(a for a in range(len(self.points)) if a not in self.lines)

    def sizes(self, axes: Sequence[int]) -> Shape:
        """Return the number of points along axes."""
        return tuple(self.points[a] for a in axes)

    @property
    def count(self) -> int:
        """The number of writes on each line."""
        return element_count(self.sizes(self.numbered))

    def on_lines(self, launcher: Launcher, x: CubeTensor, entries: Sequence[Any]) -> CubeTensor:
        """Return what x holds at a place of each point: (K, *lines, *rest).

        The rest are the axes of which the place has a number.
        """
        rest = [n for n, entry in enumerate(entries) if not isinstance(entry, Coordinate)]
        own_sizes = tuple(x.shape[n] for n in rest)
        numbered = strides_along(x, entries, self.numbered)
        lines = strides_along(x, entries, self.lines)
        # A line along which nothing changes is stretched behind, so that no copy has it.
        kept = tuple(
            n if stride else 1 for n, stride in zip(self.sizes(self.lines), lines, strict=True)
        )
        view = x.strided(
            (*self.sizes(self.numbered), *kept, *own_sizes),
            (*numbered, *lines, *(x.strides[n] for n in rest)),
        )
        rows = flattened(launcher, view, (self.count, *kept, *own_sizes))
        return rows.broadcast_to((self.count, *self.sizes(self.lines), *own_sizes))

    @property
    def read_axes(self) -> tuple[int, ...]:
        """The axes of the target on which writes are by index."""
        return tuple(n for n, entry in enumerate(self.place) if isinstance(entry, IndexRead))

    def of_target(self, x: CubeTensor) -> CubeTensor:
        """Return what is written to, of (*the place's shape): its read axes, and then the lines."""
        read = self.read_axes
        offset = x.offset + sum(
            entry * stride for entry, stride in zip(self.place, x.strides, strict=True)
            if isinstance(entry, int)
        )  # fmt: skip
        shape = (*(x.shape[n] for n in read), *self.sizes(self.lines))
        strides = (*(x.strides[n] for n in read), *strides_along(x, self.place, self.lines))
        return x.strided(shape, strides, offset)

    def indices(
        self, launcher: Launcher, inputs: Sequence[Any]
    ) -> tuple[list[CubeTensor], list[Read]]:
        """Return the index tensors on lines, and which of them each read axis reads."""
        found: dict[Any, CubeTensor] = {}
        reads: list[Read] = []
        for entry in self.place:
            if isinstance(entry, IndexRead):
                form = tuple(e if isinstance(e, Coordinate) else None for e in entry.at)
                if (entry.input, form) not in found:
                    tensor = self.on_lines(launcher, inputs[entry.input], entry.at)
                    found[entry.input, form] = tensor
                vector = tuple(e for e in entry.at if isinstance(e, int))
                reads.append((list(found).index((entry.input, form)), vector))
        return list(found.values()), reads
