"""How a matrix product is cut up for a CPU: what `panel_gemm` may be given, and what is chosen.

What is chosen is the same for most sizes, so that they share a kernel: but for the blocks, which
are numbers of the launch.  Kernels of their own have products of fewer rows than the registers
have sums for, of each count; those whose rows of y lie on pages of their own; and, as operands need
copies, narrow dtypes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pyrite.kernel.extent import extent
from pyrite.kernel.machine import Machine
from pyrite.kernel.template.index import pieces, rounded_up
from pyrite.kernel.template.operand import Axis, OperandMap
from pyrite.kernel.template.product import Product
from pyrite.symbol import require_known


@dataclass(frozen=True, slots=True)
class PanelConfig:
    """How a product is cut up; see `panel_gemm`.  ``width`` is the lanes of a vector.

    A product has at least ``rows`` rows.  ``most_m`` and ``most_n`` are the largest blocks that the
    kernel has memory for, by default these.
    """

    rows: int
    vectors: int
    width: int
    block_m: int = extent()
    block_n: int = extent()
    block_k: int = 256
    packs_x: bool = False
    packs_y: bool = False
    invocations: int = 1
    most_m: int = 0
    most_n: int = 0

    @property
    def panel(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.width

    @property
    def steps(self) -> int:
        """How many steps along K a turn of the inner loop takes, where registers are full of sums.

        Else a loop's own instructions take up to a tenth of the time.
        """
        sums = self.rows * self.vectors
        if self.rows < _ROWS_FOR_A_PANEL or sums < _FULL:
            return 1
        return 4

    @property
    def room(self) -> tuple[int, int]:
        """Rows and columns for which there is private memory."""
        return (
            self.most_m or require_known(self.block_m), self.most_n or require_known(self.block_n)
        )  # fmt: skip

    @property
    def aligns(self) -> bool:
        """Whether it matters where vectors begin: to GPUs, which run the direct schedule."""
        return self.invocations > 1

    def is_legal(self) -> bool:
        """Whether the sizes divide as the schedule needs."""
        return bool(self.block_m % self.rows == 0 and self.block_n % self.width == 0)


def candidates(product: Product, machine: Machine) -> list[PanelConfig]:
    """Return the configs that are right for a product on a CPU."""
    packings = [(x, y) for x in (False, True) for y in (False, True)]
    found = [
        _config(product, machine, shape, tile, *packs)
        for shape in _shapes(product, machine)
        for tile in _tiles(product, machine)
        for packs in packings
    ]
    return [*found, streamed(product, machine)] if product.m < _ROWS_FOR_A_PANEL else found


def select(product: Product, machine: Machine) -> PanelConfig:
    """Return the candidate that seems best.

    That is the most sums that registers hold, blocks of which each core gets a few, and copies
    where operands are not as the inner loop wants them and are read more than once.
    """
    if _is_streamed(product, machine):
        return streamed(product, machine)
    shape = _shape(product, machine)
    rows, tile = shape[0], _tile(product, machine, shape)
    x, y, width = product.x, product.y, width_of(product, machine)
    converts = y.dtype is not product.accumulator
    gathers = not y.is_consecutive(y.columns, width)
    # An element of x that is tested, or converted again and again, is dearer than a copy; and each
    # step down a column of x is another line, and often another page, for every panel.
    is_tested = any(x.needs_test(i) for i in range(len(x.windows)))
    is_high = not x.windows and is_turned(x, width) and _stride(x, x.columns) > _APART
    packs_x = is_tested or is_high or (converts and product.n > shape[1] * width)
    shares = product.m > 4 * rows and _packs_rows(product, machine, is_packed=packs_x)
    packs_y = gathers or shares or (converts and product.m > rows)
    return _config(product, machine, shape, tile, packs_x, packs_y)


def is_turned(x: OperandMap, width: int) -> bool:
    """Whether columns of x are dense and rows are not: the transposed of a matrix by rows."""
    return (
        x.lane_stride(x.columns) != 1 and len(x.rows) == 1 and x.is_consecutive(x.rows, width)
    )  # fmt: skip


def _packs_rows(product: Product, machine: Machine, *, is_packed: bool) -> bool:
    """Whether a panel of y that many rows of x share is copied though its rows are dense.

    Rows far apart meet in the same sets of the first cache, a copied panel stays in it.  With
    vectors of 512 bits it is too large for that: a copy takes 1.1 of the time, where rows of x are
    few 1.2, unless each row of y is on a page of its own, and then one of x is enough.  Windows are
    copied where the table of pages is too small for the rows of a panel.
    """
    y, apart = product.y, product.n * product.y.dtype.itemsize
    if y.windows:
        return bool(apart > _PAGE)
    far = _PAGE if machine.vector_bytes == _WIDE else _APART
    return bool((machine.registers < 32 or not is_packed) and apart > far)


def _stride(x: OperandMap, axis: Axis) -> int:
    """Return how many bytes neighbours on an axis lie apart."""
    return x.lane_stride(axis) * x.dtype.itemsize


def streamed(product: Product, machine: Machine) -> PanelConfig:
    """Return the config for a few rows of x, which read y once, from memory: by whole rows of it.

    Panels follow each other along a few rows of y, which come in the order in which they lie, and
    as long as each core has work: 4096 columns at once take two thirds of the time of 1024.
    """
    width, threads = width_of(product, machine), machine.threads
    m, vectors = product.m, min(8 // product.m + 1, 4)
    most = rounded_up(_STREAM // m, vectors * width)
    block_n = min(pieces(product.n * product.batch, threads), product.n, _STREAM // m)
    block_n = rounded_up(block_n, vectors * width)
    return PanelConfig(m, vectors, width, m, block_n, 8, most_m=m, most_n=most)


def _is_streamed(product: Product, machine: Machine) -> bool:
    y = product.y
    is_long = y.is_consecutive(y.columns, width_of(product, machine)) and product.k > 8
    return is_long and product.m < _ROWS_FOR_A_PANEL and product.n > _STREAM // 4


#: Rows of x that make a panel of y worth its jumps from row to row.
_ROWS_FOR_A_PANEL: Final = 4
#: Vectors of sums that fill 16 registers, nearly.
_FULL: Final = 10
#: Sums of streamed rows that stay in the first cache.
_STREAM: Final = 4096


def width_of(product: Product, machine: Machine) -> int:
    """Return the lanes of a vector: fewer than fit in a register where rows of y are short.

    That is for few rows of x: for more, a copy of y is joined from its short rows.
    """
    full = machine.vector_bytes // product.accumulator.itemsize
    if product.m >= _ROWS_FOR_A_COPY:
        return full
    return product.y.reach(product.y.columns, full) or full


#: Rows of x that share a copy of y, at least.
_ROWS_FOR_A_COPY: Final = 6
#: The most sums of a tile, the largest first: those stay in the second cache with both slabs.  Rows
#: of sums that wait are no power of two apart, or they would meet in the same sets of the first.
_TILES: Final = ((128, 240), (64, 96), (32, 48))
#: The same with vectors of 64 bytes, of which a panel has 64 columns: whole panels of most sizes
#: that people choose, which three tiles would share unequally.
_TILES_OF_WIDE: Final = ((128, 256), (64, 128), (32, 64))
#: The same where panels of y have to be turned, which is dear: more rows share them.
_TILES_OF_TURNED: Final = ((256, 96), (128, 48), (64, 96))
#: Bytes of the widest vectors, a whole line of a cache.
_WIDE: Final = 64
#: Bytes of a page of memory, and between lines of which a panel does not stay in the first cache.
_PAGE: Final = 4096
_APART: Final = 512


def _config(
    product: Product, machine: Machine, shape: tuple[int, int], tile: tuple[int, int],
    packs_x: bool, packs_y: bool,
) -> PanelConfig:  # fmt: skip
    rows, vectors = shape
    width = width_of(product, machine)
    panel = vectors * width
    block_m, block_n = _blocks(product, machine, (rows, panel, width), tile)
    largest_m, largest_n = _tiles(product, machine)[0]
    # A block of one piece is a kernel of its own, for products of few rows.
    most_m = rows if product.m <= rows else rounded_up(largest_m, rows)
    return PanelConfig(
        rows, vectors, width, block_m, block_n, 256, packs_x, packs_y,
        most_m=most_m, most_n=rounded_up(largest_n, panel),
    )  # fmt: skip


def _blocks(
    product: Product, machine: Machine, units: tuple[int, int, int], tile: tuple[int, int]
) -> tuple[int, int]:
    """Whole multiples of what the inner loop makes, so that tiles are about equal.

    ``units`` are the rows and columns of a panel, and the lanes of a vector.  A few columns stay
    together, since their last panel may be narrower; and of few tiles each core gets as many.
    """
    rows, panel, width = units
    m, n, batch = product.m, product.n, product.batch
    down, across = pieces(m, tile[0]), pieces(n, tile[1])
    block_n = rounded_up(pieces(n, across), panel)
    if n <= 2 * panel:
        across, block_n = 1, rounded_up(n, width)
    if m <= rows:
        return rows, block_n
    if not _are_many(across * down * batch, machine):
        # Not a range from a size on: that would ask which number it is.
        more = (down + n for n in range(machine.threads))
        down = next((d for d in more if across * d * batch % machine.threads == 0), down)
    block_m = rounded_up(pieces(m, down), rows)
    # The last block has the rows of a piece, if one can be found, so that no rows are shared.
    near = _near(block_m, rows, range(2 * rows, rounded_up(tile[0], rows) + 1))
    block_m = next((n for n in near if (m - 1) % n + 1 >= rows), block_m)
    return max(block_m, 2 * rows), block_n


def _near(size: int, step: int, within: range) -> Iterator[int]:
    """Give multiples of a step within a range, the nearest to a size, which is one, first.

    >>> list(_near(6, 2, range(4, 11)))
    [6, 4, 8, 10]
    """
    low, high = within.start, within.stop - 1
    if low <= size <= high:
        yield size
    below, above = min(size - step, high), max(size + step, low)
    while below >= low or above <= high:
        if above > high or (below >= low and size - below <= above - size):
            yield below
            below -= step
        else:
            yield above
            above += step


def _tile(product: Product, machine: Machine, shape: tuple[int, int]) -> tuple[int, int]:
    """Return the largest tiles that are many, or the smallest there are."""
    rows, vectors = shape
    width, tiles = width_of(product, machine), _tiles(product, machine)
    units = rows, vectors * width, width
    blocks = ((tile, _blocks(product, machine, units, tile)) for tile in tiles[:-1])
    return next((t for t, of in blocks if _are_many(_tile_count(product, *of), machine)), tiles[-1])


def _tiles(product: Product, machine: Machine) -> tuple[tuple[int, int], ...]:
    y = product.y
    is_dense = y.is_consecutive(y.columns, width_of(product, machine))
    if not is_dense:
        return _TILES_OF_TURNED
    return _TILES_OF_WIDE if machine.vector_bytes == _WIDE else _TILES


def _are_many(tiles: int, machine: Machine) -> bool:
    """Whether each core gets a few."""
    return tiles >= 4 * machine.threads


def _shapes(product: Product, machine: Machine) -> list[tuple[int, int]]:
    """Sums that fit in registers beside a row of y and an element of x, of no more rows than are.

    >>> from pyrite.types import float32
    >>> from pyrite.kernel.template.operand import row_major_map
    >>> square = row_major_map(float32, (), 4, 4)
    >>> _shapes(Product(square, square, square), Machine.cpu(32, 16))
    [(1, 8), (2, 5), (3, 3), (4, 3)]
    """
    return [(rows, vectors) for rows, vectors in _known(machine) if rows <= product.m]


def _shape(product: Product, machine: Machine) -> tuple[int, int]:
    """Return the most rows, which each has the most vectors.

    Others would be faster for some sizes, by a few percent where edges are, and would be compiled
    for them.
    """
    return _shapes(product, machine)[-1]


def _known(machine: Machine) -> tuple[tuple[int, int], ...]:
    return _OF_32 if machine.registers >= 32 else _OF_16


_OF_32: Final = ((1, 8), (2, 8), (3, 6), (4, 6), (5, 4), (6, 4))
_OF_16: Final = ((1, 8), (2, 5), (3, 3), (4, 3), (5, 2), (6, 2))


def direct(product: Product, invocations: int = 64) -> PanelConfig:
    """Return the config of the direct schedule of GPUs."""
    rows = min(product.m, 4)
    return PanelConfig(rows, 1, 4, rows, 4, _ALL, invocations=invocations)


#: More terms than any sum has that is not cut in parts.
_ALL: Final = 1 << 30


def workgroups(product: Product, config: PanelConfig) -> int:
    """Return how many workgroups run a product."""
    return pieces(tile_count(product, config), config.invocations)


def tile_count(product: Product, config: PanelConfig) -> int:
    """Return how many tiles a product has, one for each invocation."""
    return _tile_count(product, config.block_m, config.block_n)


def _tile_count(product: Product, block_m: int, block_n: int) -> int:
    return pieces(product.m, block_m) * pieces(product.n, block_n) * product.batch
