"""Where the operands of a body lie by row and by place in the row, and in which pieces.

Rows that lie in one piece have one axis along them.  Where an operand's do not, as the channels of
a batch of images (N, C, H, W), all of them are cut at the same places, so that of each the elements
of a piece are neighbours.  A processor goes over piece by piece; on a GPU, whose lanes share a row,
and in rows of a few vectors, the place in the row is divided by sizes
(`pyrite.backend.cube.frequent`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd

from pyrite.backend.cube.body.atoms import Atom
from pyrite.backend.cube.body.group import Group
from pyrite.backend.cube.body.points import Space
from pyrite.backend.cube.body.region import Region
from pyrite.backend.cube.layout import Strides, merged, row_major
from pyrite.backend.cube.operand import Layout, alignment_of, word_of
from pyrite.backend.cube.skeleton import numbered_rows
from pyrite.backend.cube.skeleton.fold import FoldOrder
from pyrite.backend.cube.skeleton.fold.order import FIRST, STEPS, levels_of
from pyrite.backend.cube.skeleton.row import (
    MOST_TURNS,
    RowsConfig,
    select,
    select_abreast,
    select_in_pieces,
)
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.cached import distinct
from pyrite.kernel.extent import extent
from pyrite.kernel.ir import WIDTHS
from pyrite.kernel.machine import Machine
from pyrite.sized import asked
from pyrite.types import DType, Shape

#: Vectors that are narrower, and pieces that are shorter, are slower than copies.
LEAST_WIDTH = 4

#: The stride along each atom.
Steps = dict[Atom, int]


# ---- what a kernel is for ----


@dataclass(frozen=True, slots=True)
class RowLayout:
    """Where the elements of a tensor lie, by row and by place in the row, as few axes as can be."""

    layout: Layout
    rows: Shape
    length: Shape


@dataclass(frozen=True, slots=True)
class RowLayouts:
    """All sizes and layouts of the rows of a body: of each operand the numbers of its ``shapes``.

    Operands of equal shapes share them, and so coordinates.  ``count`` is how many elements meet in
    a fold of states.  Where rows are gone over in ``pieces`` all shapes along them end in the size
    of one, and so many ``together`` are a segment.
    """

    sources: tuple[Layout, ...]
    targets: tuple[Layout, ...]
    sums: tuple[Layout, ...]
    sides: tuple[tuple[int, int], ...]
    shapes: tuple[Shape, ...] = extent()
    rows: int = extent()
    length: int = extent()
    count: int = extent(default=0)
    pieces: int = extent(default=1)
    together: int = extent(default=1)
    #: How many rows are neighbours of each other on the last axis of all operands.
    line: int = extent(default=1)
    #: Whether the sizes by which a place in the row is divided are built in.
    knows_divisors: bool = False

    @property
    def divisors(self) -> tuple[int, ...]:
        """The sizes by which a place in the row is divided in the innermost loop.

        In rows that are gone over in pieces it is not.
        """
        if self.pieces > 1:
            return ()
        along = sorted({side for _, side in self.sides})
        return tuple([n for side in along for n in self.shapes[side][1:]])

    @classmethod
    def of(
        cls, rows: int, length: int, sources: Sequence[RowLayout], targets: Sequence[RowLayout],
        sums: Sequence[RowLayout] = (), *, count: int = 0, pieces: int = 1, together: int = 1,
        line: int = 1,
    ) -> RowLayouts:  # fmt: skip
        """Return the layouts of operands."""
        operands = [*sources, *targets, *sums]
        # Apart: rows and lengths that happen to be equal are no other kernel.
        of_rows = distinct(p.rows for p in operands)
        along = distinct(p.length for p in operands)
        sides = tuple(
            (of_rows.index(p.rows), len(of_rows) + along.index(p.length)) for p in operands
        )
        of, to, by = (tuple(p.layout for p in group) for group in (sources, targets, sums))
        return cls(
            of, to, by, sides, (*of_rows, *along), rows, length, count, pieces, together, line
        )


# ---- where operands lie ----


@dataclass(frozen=True, slots=True)
class RowSpace:
    """The atoms along which the rows of a group lie, those that number pieces, and the rest."""

    region: Region
    rows: Space
    pieces: Space
    length: Space
    width: int
    machine: Machine
    #: How many pieces are a segment.
    together: int = 1
    #: Whether the row is gone over once, and only read: then elements are read from where they lie
    #: apart, which takes less than a copy.
    is_read_once: bool = False
    #: Whether rows are gone over side by side, wherever their elements are.
    lies_in_any_way: bool = False
    #: How many rows are neighbours on the last axis of all operands.
    line: int = 1

    @property
    def count(self) -> int:
        """How many pieces a row has."""
        return self.region.atoms.count(self.pieces)

    def layout(self, steps: Steps, tensor: CubeTensor) -> RowLayout:
        """Return where a tensor's elements lie by rows and places in a row."""
        rows, of_rows = _side(self.region, steps, self.rows)
        is_number = not any(a in steps for a in (*self.pieces, *self.length))
        length, along = ((), ()) if is_number else self._along(steps)
        strides = (*of_rows, *along)
        word = word_of(self.width, self.machine) if along else 1
        alignment = alignment_of(strides, tensor.offset, word)
        return RowLayout(Layout(tensor.dtype, strides, tensor.offset != 0, alignment), rows, length)

    def _along(self, steps: Steps) -> tuple[Shape, Strides]:
        if not self.pieces:
            return _side(self.region, steps, self.length)
        shape, strides = _side(self.region, steps, self.pieces)
        (size,), (stride,) = _side(self.region, steps, self.length)
        return (*shape, size), (*strides, stride)

    def dense(self, dtype: DType, rows: int) -> RowLayout:
        """Return where so many rows without gaps lie."""
        atoms = self.region.atoms
        size = atoms.count(self.length)
        length = (self.count, size) if self.pieces else (size,)
        return dense_rows(dtype, rows, length, self.width, self.machine)

    def fits(self, steps: Steps) -> bool:
        """Whether the rows of a tensor can be gone over where they lie."""
        if self.lies_in_any_way:
            return True
        _, strides = _side(self.region, steps, self.length)
        if self.is_read_once and len(strides) == 1:
            return True
        if self.pieces:
            return len(strides) == 1 and strides[0] in (0, 1)
        inner = inner_of(self.region, self.length, steps)
        return inner == 0 or inner % max(LEAST_WIDTH, self.width) == 0


def line_of(region: Region, rows: Space, operands: Sequence[Steps]) -> int:
    """Return how many rows are neighbours on the last axis of all operands."""
    found = [_side(region, steps, rows)[0] for steps in operands if any(a in steps for a in rows)]
    return min((shape[-1] for shape in found if shape), default=1)


def _side(region: Region, steps: Steps, atoms: Space) -> tuple[Shape, Strides]:
    """Return shape and strides along atoms, as few axes as say the same."""
    strides = tuple(steps.get(a, 0) for a in atoms)
    ((shape, merged_strides),) = merged(region.atoms.sizes(atoms), [strides])
    return shape, merged_strides


def dense_rows(dtype: DType, rows: int, length: Shape, width: int, machine: Machine) -> RowLayout:
    """Return where rows of a shape lie without gaps."""
    strides = row_major((rows, *length))
    layout = Layout(dtype, strides, False, alignment_of(strides, 0, word_of(width, machine)))
    return RowLayout(layout, (rows,), length)


# ---- pieces ----


def inner_of(region: Region, length: Space, steps: Steps) -> int:
    """Return how many neighbours of a row lie together, 0 where that is all of it, or 1 of them."""
    if not any(a in steps for a in length):
        return 0
    shape, strides = _side(region, steps, tuple(a for a in length if a in steps))
    return 1 if strides[-1] != 1 else 0 if len(shape) == 1 else shape[-1]


def cut_of(region: Region, length: Space, operands: Sequence[Steps]) -> int:
    """Return before which atom rows are cut, so that of all operands pieces are neighbours.

    Operands whose elements are no neighbours at all count as the copies that are made of them.
    """
    cut, atoms = 0, region.atoms
    for steps in operands:
        if not any(a in steps for a in length):
            continue
        if steps.get(length[-1], 0) not in (0, 1):
            own = tuple(a for a in length if a in steps)
            steps = dict(zip(own, row_major(atoms.sizes(own)), strict=True))
        first = len(length) - 1
        while first > cut:
            last = length[first]
            if steps.get(length[first - 1], 0) != steps.get(last, 0) * atoms.size(last):
                break
            first -= 1
        cut = max(cut, first)
    return cut


def row_space(
    region: Region, group: Group, operands: Sequence[Steps], dtype: DType, machine: Machine,
    config: RowsConfig | None,
) -> tuple[RowSpace, RowsConfig]:  # fmt: skip
    """Return how the rows of a group are gone over, and by which config, if none is given."""
    length, atoms = group.length, region.atoms
    if group.order is not None and config is None:
        return _in_order(region, group, operands, group.order, dtype, machine)
    cut = cut_of(region, length, operands)
    size = atoms.count(length[cut:])
    config = config or config_for(region, group, operands, cut, dtype, machine)
    # A size is asked for no more than decides: each answer is a class of sizes.
    is_in_pieces = cut > 0 and config.lanes == 1 and not config.turns and size >= LEAST_WIDTH
    pieces = length[:cut] if is_in_pieces else ()
    rest = length[len(pieces) :]
    return RowSpace(region, group.rows, pieces, rest, config.width, machine), config


def _in_order(
    region: Region, group: Group, operands: Sequence[Steps], order: FoldOrder, dtype: DType,
    machine: Machine,
) -> tuple[RowSpace, RowsConfig]:  # fmt: skip
    """Return how the rows of a group are gone over where their folds have an order.

    Operands that do not lie so are copied.
    """
    length, atoms, adds = group.length, region.atoms, bool(group.sums)
    if group.abreast:
        config = select_abreast(order.size, dtype, group.abreast.width)
        config = replace(config, levels=levels_of(order.size), block=FIRST)
        space = RowSpace(
            region, group.rows, (), length, config.width, machine,
            lies_in_any_way=not group.abreast.is_turned, line=group.abreast.line,
        )  # fmt: skip
        return space, config
    if order.along == "columns":
        chosen = select(order.size, dtype, machine)
        config = replace(chosen, turns=0, levels=levels_of(order.size), block=FIRST)
        return RowSpace(region, group.rows, (), length, config.width, machine), config
    is_read_once = len(group.folds) == 1 and not group.elements and not group.sums
    cut, together, cuts = 0, order.together, order.is_cut
    if order.pieces > 1:
        while atoms.count(length[cut:]) > order.size:
            cut += 1
    else:
        cut, size = _cut_of_whole_turns(region, length, operands, order)
        if cut:
            together, cuts = order.lanes * STEPS // size, False
    size = atoms.count(length[cut:])
    if cut:
        config = select_in_pieces(atoms.count(length[:cut]), size, dtype, machine, adds=adds)
    else:
        config = select(size, dtype, machine, adds=adds)
    levels = levels_of(order.segments) if order.segments > 1 and not group.is_part else 0
    rows = 1 if group.is_part else config.rows
    config = replace(config, levels=levels, cuts=cuts, is_part=group.is_part, rows=rows)
    space = RowSpace(
        region, group.rows, length[:cut], length[cut:], config.width, machine, together,
        is_read_once,
    )  # fmt: skip
    return space, config


def _cut_of_whole_turns(
    region: Region, length: Space, operands: Sequence[Steps], order: FoldOrder
) -> tuple[int, int]:
    """Return before which atom a row may be cut in pieces, and their size.

    They are of whole turns of all lanes, and segments of whole pieces.
    """
    cut = cut_of(region, length, operands)
    size = region.atoms.count(length[cut:])
    most = order.lanes * STEPS
    is_whole = size % order.lanes == 0 and (order.segments == 1 or most % size == 0)
    return (cut, size) if is_whole and size <= most else (0, order.size)


def _width_dividing(*sizes: int) -> int:
    """Return the widest vector that divides some sizes."""
    return gcd(WIDTHS[-1], *sizes)


def config_for(
    region: Region, group: Group, operands: Sequence[Steps], cut: int, dtype: DType,
    machine: Machine,
) -> RowsConfig:  # fmt: skip
    """Return a config: where rows lie in pieces with vectors that fit, if they are not narrow."""
    atoms, length = region.atoms, group.length
    count, size, adds = atoms.count(length), atoms.count(length[cut:]), bool(group.sums)
    is_short = count <= MOST_TURNS["cpu"] * machine.vector
    if machine.kind == "cpu" and cut and size >= LEAST_WIDTH and not is_short:
        return select_in_pieces(count // size, size, dtype, machine, adds=adds)
    inners = [n for steps in operands if (n := inner_of(region, length, steps))]
    divisor = asked(_width_dividing, *inners) if inners else 0
    if divisor and divisor % LEAST_WIDTH == 0:
        return numbered_rows.select(count, dtype, machine, divisor=divisor)
    return select(count, dtype, machine, adds=adds)
