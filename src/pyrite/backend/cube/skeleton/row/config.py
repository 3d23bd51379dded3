"""How rows are shared out: the configs that are right for a length, and the choice of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyrite.kernel.choice import chosen
from pyrite.kernel.extent import VARYING, extent, varying
from pyrite.kernel.ir import WIDTHS
from pyrite.kernel.machine import Machine
from pyrite.types import DType, float32

#: The most bytes of a row's values that an invocation keeps: they and the row fit in a first cache.
MOST_KEPT = 1 << 15

#: How many vectors of a row an invocation may keep in registers.  On a CPU rows of 50 take 0.94 of
#: the time that they take by a loop over private memory.
MOST_TURNS = {"cpu": 4, "gpu": 8}


@dataclass(frozen=True, slots=True)
class RowsConfig:
    """``lanes`` invocations share a row, ``width`` neighbours together.

    Where several do, a workgroup has as many rows as it has times so many invocations.
    Totals are taken of ``vectors`` at a time, each into one of its own.  ``keeps`` says whether
    values that are wanted twice are kept in private memory, rather than made again, and the next
    row is fetched while this one is worked on; with ``turns``, the most vectors that a lane has of
    a row, what is read is kept too, in registers, and loops are written out.  An invocation takes
    ``rows`` one after another, and adds up what is wanted summed over all of them.
    """

    workgroup_size: int = field(metadata=VARYING)
    lanes: int = field(metadata=VARYING)
    width: int
    vectors: int = field(metadata=VARYING)
    keeps: bool = field(metadata=VARYING)
    rows: int = 1
    turns: int = varying(default=0)
    #: Loops, one inside another, that join the segments of a row in the order of a processor
    #: (`fold/order.py`); 0 where a row is one.
    levels: int = 0
    #: Whether a segment is part of a piece, rather than some pieces.
    cuts: bool = False
    #: Whether an invocation has one segment of a row, of which it writes the states.
    is_part: bool = False
    #: How many elements, one after another, are a segment in the order of columns; 0 in that of
    #: rows.
    block: int = 0
    #: How many rows an invocation has side by side, of which a vector has an element each; or 0.
    abreast: int = 0

    @property
    def slots(self) -> int:
        """How many rows a workgroup has, the rows of an invocation counted as one."""
        return self.workgroup_size // self.lanes


#: How many invocations may share a short row, of which a workgroup has several.
LANES = (4, 8, 16, 32)


def candidates(
    length: int, dtype: DType, machine: Machine, *, adds: bool = False,
    widths: Sequence[int] = WIDTHS,
) -> tuple[RowsConfig, ...]:  # fmt: skip
    """Return the configs for rows of so many elements, computed in a dtype.

    ``adds`` says that something is summed over the rows; others than ``widths`` are left out.
    """
    sizes = machine.workgroup_sizes
    small = min(64, sizes[0])
    shared = [(s, s) for s in sizes if s >= 64]
    shared += [(small, lanes) for lanes in LANES if lanes < small]
    fits = machine.kind == "cpu" and length * dtype.itemsize <= MOST_KEPT
    most = MOST_TURNS[machine.kind]

    def ways(lanes: int, width: int, vectors: int) -> list[tuple[bool, int]]:
        """Return what may be kept, and in how many registers."""
        found = [(False, 0)]
        if lanes == 1:
            found += [(True, 0)] * fits
        is_few = vectors == 1 and length <= most * lanes * width
        if is_few and (fits if lanes == 1 else length % width == 0):
            found.append((True, turns_of(length, lanes * width)))
        return found

    return tuple(
        RowsConfig(size, lanes, width, vectors, keeps, rows, turns)
        for size, lanes in [(small, 1), *shared]
        for width in widths
        for vectors in (1, 4)
        for keeps, turns in ways(lanes, width, vectors)
        for rows in ((1, 32) if adds and fits and lanes == 1 else (1,))
    )


def turns_of(length: int, step: int) -> int:
    """Return how many vectors of a row a lane has at most, if all lanes have a step at a time."""
    return 1 << (-(-length // step) - 1).bit_length()


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of so many elements, computed in a dtype."""

    length: int = extent()
    dtype: DType = float32


def select(length: int, dtype: DType, machine: Machine, *, adds: bool = False) -> RowsConfig:
    """Return a config: vectors no wider than a row on a CPU; on a GPU four or so for each lane.

    On an H200 two to eight vectors a lane are as fast as a copy, and one less so.
    """
    # On a GPU what leads there compares a length with some thirty numbers.
    return (_select if machine.kind == "cpu" else _chosen)(Rows(length, dtype), machine, adds=adds)


def _select(rows: Rows, machine: Machine, *, adds: bool) -> RowsConfig:
    widths = [w for w in WIDTHS if w <= machine.vector]
    length, dtype = rows.length, rows.dtype
    if machine.kind == "cpu":
        lanes, width = 1, _width_of(length, widths)
        found = candidates(length, dtype, machine, adds=adds, widths=(width,))
    else:
        width = max(w for w in widths if length % w == 0)
        found = candidates(length, dtype, machine, adds=adds, widths=(width,))
        vectors = length // width
        most = max(vectors // 4, min(vectors, 4), min(vectors // 2, 8))
        lanes = max(c.lanes for c in found if c.lanes <= most)
    return best([c for c in found if c.lanes == lanes])


_chosen = chosen(4096)(_select)


def _width_of(length: int, widths: Sequence[int]) -> int:
    """Return the least width with room for a row, or the greatest."""
    # Most rows are long: of these it is one question, not whether each is too narrow.
    if len(widths) == 1 or length > widths[-2]:
        return widths[-1]
    return next(w for w in widths if w >= length)


def select_abreast(length: int, dtype: DType, abreast: int) -> RowsConfig:
    """Return a config for so many rows of a processor side by side in an invocation."""
    keeps = length * abreast * dtype.itemsize <= MOST_KEPT
    return RowsConfig(1, 1, 1, 1, keeps, abreast=abreast)


def select_in_pieces(
    pieces: int, size: int, dtype: DType, machine: Machine, *, adds: bool = False
) -> RowsConfig:
    """Return a config for rows of so many pieces of a size, which a CPU goes over one by one."""
    widths = [w for w in WIDTHS if w <= machine.vector]
    width = _width_of(size, widths)
    length = pieces * padded(size, width)
    found = candidates(length, dtype, machine, adds=adds, widths=(width,))
    vectors = 4 if size >= 4 * width else 1
    return best([c for c in found if (c.lanes, c.vectors, c.turns) == (1, vectors, 0)])


def best(found: Sequence[RowsConfig]) -> RowsConfig:
    """Return the one of configs of the same lanes and widths that keeps the most."""
    return max(found, key=lambda c: (c.keeps, c.turns, c.vectors, c.rows))


def groups_of(rows: int, config: RowsConfig) -> int:
    """Return how many invocations, or workgroups that share a row, take so many rows."""
    return -(-rows // config.rows)


def workgroups_of(rows: int, config: RowsConfig) -> int:
    """Return how many workgroups take so many rows."""
    return -(-groups_of(rows, config) // config.slots)


def padded(size: int, width: int) -> int:
    """Return the least multiple of a width that is no less than a size."""
    return -(-size // width) * width
