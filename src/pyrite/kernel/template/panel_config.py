"""How a matrix product is cut up for a CPU: what `panel_gemm` may be given, and what is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyrite.kernel.machine import Machine
from pyrite.kernel.template.index import rounded_up
from pyrite.kernel.template.product import Product


@dataclass(frozen=True, slots=True)
class PanelConfig:
    """How a product is cut up; see `panel_gemm`.  ``width`` is the lanes of a vector."""

    rows: int
    vectors: int
    width: int
    block_m: int
    block_n: int
    block_k: int
    packs_x: bool = False
    packs_y: bool = False
    unroll: int = 4
    invocations: int = 1

    @property
    def panel(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.width

    def is_legal(self) -> bool:
        """Whether the sizes divide as the schedule needs."""
        return self.block_m % self.rows == 0 and self.block_n % self.panel == 0


def candidates(product: Product, machine: Machine) -> list[PanelConfig]:
    """Return the configs that are right for a product on a CPU."""
    packings = [(x, y) for x in (False, True) for y in (False, True)]
    found = [
        _config(product, machine, shape, share, *packs)
        for shape in _shapes(product, machine)
        for share in _SHARES
        for packs in packings
    ]
    return [*found, streamed(product, machine)] if product.m < _ROWS_FOR_A_PANEL else found


def select(product: Product, machine: Machine) -> PanelConfig:
    """Return the candidate that seems best.

    That is the shape of registers with the least work, blocks of which each core gets a few, and
    copies where operands are not as the inner loop wants them and are read more than once.
    """
    if _is_streamed(product, machine):
        return streamed(product, machine)
    shape = min(_shapes(product, machine), key=lambda s: _cost(product, machine, s))
    rows, share = shape[0], _share(product, machine, shape)
    y = product.y
    width = width_of(product, machine)
    converts = y.dtype is not product.accumulator
    gathers = not y.is_consecutive(y.columns, width)
    # Rows of y on pages of their own: the table of pages is too small for a panel.
    is_apart = product.n * y.dtype.itemsize > _PAGE and product.m > 4 * rows
    # An element of x that is tested, or converted again and again, is dearer than a copy.
    is_tested = any(product.x.needs_test(i) for i in range(len(product.x.windows)))
    packs_x = is_tested or (converts and product.n > shape[1] * width)
    packs_y = gathers or is_apart or (converts and product.m > rows)
    return _config(product, machine, shape, share, packs_x, packs_y)


def streamed(product: Product, machine: Machine) -> PanelConfig:
    """Return the config for a few rows of x, which read y once, from memory: by whole rows of it.

    Panels follow each other along a few rows of y, which come in the order in which they lie, and
    as long as each core has work: 4096 columns at once take two thirds of the time of 1024.
    """
    width, threads = width_of(product, machine), machine.threads
    vectors = min(8 // product.m + 1, 4, -(-product.n // width))
    block_n = min(-(-product.n * product.batch // threads), product.n, _STREAM // product.m)
    block_n = rounded_up(block_n, vectors * width)
    return PanelConfig(product.m, vectors, width, product.m, block_n, 8)


def _is_streamed(product: Product, machine: Machine) -> bool:
    y = product.y
    is_long = y.is_consecutive(y.columns, width_of(product, machine)) and product.k > 8
    return is_long and product.m < _ROWS_FOR_A_PANEL and product.n > _STREAM // 4


#: Rows of x that make a panel of y worth its jumps from row to row.
_ROWS_FOR_A_PANEL: Final = 4
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
#: What a tile is, as parts of 128 x 192 sums: those stay in the second cache with both slabs.
_SHARES: Final = ((1, 1), (2, 2), (4, 4))
_TILE: Final = (128, 192)
#: Bytes of a page of memory.
_PAGE: Final = 4096


def _config(
    product: Product, machine: Machine, shape: tuple[int, int], share: tuple[int, int],
    packs_x: bool, packs_y: bool,
) -> PanelConfig:  # fmt: skip
    rows, vectors = shape
    width = width_of(product, machine)
    block_m, block_n = _blocks(product, rows, vectors * width, share)
    return PanelConfig(rows, vectors, width, block_m, block_n, 256, packs_x, packs_y)


def _blocks(product: Product, rows: int, panel: int, share: tuple[int, int]) -> tuple[int, int]:
    """Whole multiples of what the inner loop makes, so that tiles are about equal."""
    units = zip((rows, panel), (product.m, product.n), _TILE, share, strict=True)
    block_m, block_n = (
        rounded_up(-(-size // max(-(-size * parts // most), 1)), unit)
        for unit, size, most, parts in units
    )
    return block_m, block_n


def _share(product: Product, machine: Machine, shape: tuple[int, int]) -> tuple[int, int]:
    """Return the largest tiles that are many, or the smallest there are."""
    configs = ((s, _config(product, machine, shape, s, False, False)) for s in _SHARES)
    return next((s for s, c in configs if _are_many(workgroups(product, c), machine)), _SHARES[-1])


def _are_many(tiles: int, machine: Machine) -> bool:
    """Whether each core gets a few."""
    return tiles >= 4 * machine.threads


def _shapes(product: Product, machine: Machine) -> list[tuple[int, int]]:
    """Sums that fit in registers beside a row of y and an element of x, no more than needed.

    >>> from pyrite.types import float32
    >>> from pyrite.kernel.template.operand import row_major_map
    >>> square = row_major_map(float32, (), 64, 64)
    >>> _shapes(Product(square, square, square), Machine.cpu(32, 16))
    [(1, 8), (2, 5), (4, 3), (6, 2), (14, 1)]
    """
    width = width_of(product, machine)
    known = _OF_32 if machine.registers >= 32 else _OF_16
    most = -(-product.n // width)
    return sorted({(min(rows, product.m), min(vectors, most)) for rows, vectors in known})


_OF_32: Final = ((1, 12), (2, 8), (4, 6), (6, 4), (8, 2), (8, 3), (14, 1))
_OF_16: Final = ((1, 8), (2, 5), (4, 3), (6, 2), (14, 1))


def _cost(product: Product, machine: Machine, shape: tuple[int, int]) -> tuple[float, int]:
    """Return the estimated cycles of the core that works longest, for each step along K.

    Of many tiles cores get equal shares, of a few whole ones.  Of equals with few tiles the one
    with more is better, so the second number is less.
    """
    config = _config(product, machine, shape, _share(product, machine, shape), False, False)
    tiles = workgroups(product, config)
    if _are_many(tiles, machine):
        sums = _inner_cost(product.m, product.n, config.width, *shape)
        return sums * product.batch / machine.threads, 0
    m, n = min(config.block_m, product.m), min(config.block_n, product.n)
    rounds = -(-tiles // machine.threads)
    return rounds * _inner_cost(m, n, config.width, *shape), -tiles


def _inner_cost(m: int, n: int, width: int, rows: int, vectors: int) -> float:
    """Estimated cycles of the inner loops for m x n sums and each step along K, edges included.

    A step multiplies one vector a cycle, and reads two vectors or elements a cycle, but takes 8
    cycles at least: so long is it until a sum can be added to again, on two pipelines.
    """
    total, lines = 0.0, -(-n // width)
    for height, times_m in ((rows, m // rows), (m % rows, 1)):
        for wide, times_n in ((vectors, lines // vectors), (lines % vectors, 1)):
            if height and wide:
                one = max(height * wide, (height + wide) / 2, 8.0) + 0.5
                total += times_m * times_n * one
    return total


def direct(product: Product, invocations: int = 64) -> PanelConfig:
    """Return the config of the direct schedule of GPUs."""
    rows = min(product.m, 4)
    depth = rounded_up(product.k, 32)
    return PanelConfig(rows, 1, 4, rows, 4, depth, invocations=invocations)


def workgroups(product: Product, config: PanelConfig) -> int:
    """Return how many workgroups run a product."""
    return -(-tile_count(product, config) // config.invocations)


def tile_count(product: Product, config: PanelConfig) -> int:
    """Return how many tiles a product has, one for each invocation."""
    tiles = -(-product.m // config.block_m) * -(-product.n // config.block_n)
    return tiles * product.batch
