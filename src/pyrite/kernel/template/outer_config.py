"""How the gradient of a weight is cut up into sums of outer products, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product as combinations
from math import prod
from typing import Final, NamedTuple

from pyrite.cached import cached
from pyrite.kernel.extent import EXTENT
from pyrite.kernel.machine import Machine
from pyrite.kernel.template.gradient_blocks import blocks, tiles, workgroups
from pyrite.kernel.template.implicit_gemm import Windows
from pyrite.kernel.template.index import rounded_up
from pyrite.kernel.template.operand import accumulator_of
from pyrite.kernel.template.packed_images import ample_room, within
from pyrite.kernel.template.size_class import class_of, half, least, most_images, odd_half
from pyrite.symbol import require_known
from pyrite.types import DType


@dataclass(frozen=True, slots=True)
class OuterConfig:
    """How the work is cut up; see `outer_products`.  ``width`` is the lanes of a vector.

    A panel has ``vectors`` of outputs, and with ``has_half`` half of one more.  A channel of the
    copy of x has ``room`` elements of memory, and a panel of g as many positions as ``turned``.
    """

    vectors: int
    channels: int
    taps: int
    width: int
    block_o: int
    block_c: int
    room: int
    turned: int
    images: int = field(metadata=EXTENT)
    rows: int = field(metadata=EXTENT)
    parts: int = field(metadata=EXTENT)
    has_half: bool = False

    @property
    def lanes(self) -> tuple[int, ...]:
        """How many outputs each vector of a panel has."""
        half = (self.width // 2,) if self.has_half else ()
        return (*(self.width,) * self.vectors, *half)

    @property
    def panel(self) -> int:
        """Outputs that are read together."""
        return sum(self.lanes)

    @property
    def work(self) -> float:
        """How many vectors' work a panel is."""
        return self.panel / self.width

    def is_legal(self) -> bool:
        """Whether the sizes divide as the schedule needs."""
        return self.block_o % self.panel == 0 and self.block_c % self.channels == 0


#: Sides of the blocks of g that are turned in registers.
SQUARE: Final = 4
#: Positions of a tile, roughly, where there are as many: turned they stay near.
_LENGTHS: Final = (128, 256, 512)
#: Elements of the copy of x, of g, and of the sums, each at most: they stay in the second cache.
_ROOM: Final = 64 << 10
#: The most outputs that share a copy of x, and into how many blocks the channels may be cut.
_OUTPUTS: Final = (64, 128)
_CUTS: Final = (1, 2, 4)
#: Workgroups that each core should have at least; with 0 the batch stays whole.
_SHARES: Final = (0, 1, 4)
#: Elements of both copies that stay in the nearer caches.
_NEAR: Final = 24 << 10
#: Bytes of the vectors of which halves are worth while.
_WIDE: Final = 64
#: Cycles that it takes to start a kernel.
_START: Final = 8000


def candidates(w: Windows, dtype: DType, machine: Machine) -> list[OuterConfig]:
    """Return the configs that are right for a convolution on a CPU."""
    return [config for config, _ in _candidates(w, dtype, machine)]


def _candidates(w: Windows, dtype: DType, machine: Machine) -> list[tuple[OuterConfig, int]]:
    """Return the configs, each with how long its tiles are to be."""
    cuts = combinations(_shapes(w, dtype, machine), _LENGTHS, _OUTPUTS, _CUTS, _SHARES)
    width = machine.vector_bytes // accumulator_of(dtype).itemsize
    measured = {length: _Tile.near(w, length, width) for length in _LENGTHS}
    found = {_config(w, machine, width, shape, measured[n], *cut): n for shape, n, *cut in cuts}
    return list(found.items())


def select(w: Windows, dtype: DType, machine: Machine) -> OuterConfig:
    """Return the candidate with the least estimated time for the class of sizes."""
    return fitted(*select_for_class(class_of(w), dtype, machine), w)


@cached(4096)
def select_for_class(w: Windows, dtype: DType, machine: Machine) -> tuple[OuterConfig, int]:
    """Return the candidate with the least estimated time, and the length of its tiles."""
    return min(_candidates(w, dtype, machine), key=lambda pair: cost(w, pair[0], machine))


def fitted(config: OuterConfig, length: int, w: Windows) -> OuterConfig:
    """Return a config that was chosen for a class of sizes, for some of them."""
    images, rows = _tile(replace(w, batch=most_images(w.batch)), length)
    return with_room(replace(config, images=images, rows=rows), w)


def shared(config: OuterConfig, length: int, w: Windows) -> OuterConfig:
    """Return `fitted`, with memory for the tiles of most sizes: they share a kernel."""
    found = fitted(config, length, w)
    # A position reads as many elements as the stride leaves between two.
    ample = ample_room(length * -(-prod(w.stride) // 2), found.width)
    room = require_known(max(found.room, ample))
    turned = require_known(max(found.turned, half(2 * length + SQUARE)))
    return replace(
        found, room=room, turned=turned,
        block_c=within(w.channels, found.block_c, _ROOM // room, found.channels),
        block_o=within(w.outputs, found.block_o, _ROOM // turned, found.panel),
    )  # fmt: skip


def _tile(w: Windows, length: int) -> tuple[int, int]:
    """Return the images, or rows of one, that have about so many positions."""
    row = prod(w.counts[1:])
    rows = -(-w.counts[0] // max(-(-w.counts[0] * row // length), 1))
    images = max(least(w.batch, length // (rows * row)), 1) if rows == w.counts[0] else 1
    return images, rows


def with_room(config: OuterConfig, w: Windows) -> OuterConfig:
    """Return a config with the memory that its tiles take: of few sizes.

    An odd number of lines, so that channels do not meet in the same sets of the cache.
    """
    tile = _Tile.of(w, config.images, config.rows, config.width)
    return replace(config, room=tile.room, turned=tile.turned)


class _Tile(NamedTuple):
    """Images, or rows of one, their elements and positions, and the memory that these take."""

    images: int
    rows: int
    size: int
    positions: int
    room: int
    turned: int

    @classmethod
    def of(cls, w: Windows, images: int, rows: int, width: int) -> _Tile:
        size = images * prod(extents_of(w, rows))
        positions = images * rows * prod(w.counts[1:])
        room = odd_half(-(-(size + width) // width)) * width
        return cls(images, rows, size, positions, room, half(positions + SQUARE))

    @classmethod
    def near(cls, w: Windows, length: int, width: int) -> _Tile:
        return cls.of(w, *_tile(w, length), width)


class _Shape(NamedTuple):
    """Vectors of outputs, channels and taps, whose sums are in registers; see `OuterConfig`."""

    vectors: int
    channels: int
    taps: int
    has_half: bool = False


def _shapes(w: Windows, dtype: DType, machine: Machine) -> list[_Shape]:
    """Return those whose sums fit in registers beside a panel of g and one element of x.

    Half of a vector of 64 bytes takes half of its time, where that is what outputs have over.

    >>> from pyrite.types import float32
    >>> w = Windows(8, 1, 64, 64, (56, 56), (3, 3), (56, 56), (1, 1), (1, 1), (1, 1))
    >>> [shape[:3] for shape in _shapes(w, float32, Machine.cpu(64, 32))]
    [(1, 16, 1), (1, 30, 1), (1, 8, 3), (1, 10, 3), (1, 2, 9), (1, 3, 9), (2, 8, 1), (2, 14, 1), \
(2, 4, 3), (2, 1, 9), (3, 8, 1), (3, 9, 1), (3, 2, 3), (3, 3, 3), (3, 1, 9), (4, 4, 1), (4, 6, 1), \
(4, 2, 3)]
    """
    width = machine.vector_bytes // accumulator_of(dtype).itemsize
    size = prod(w.kernel_size)
    panels = [(n, False) for n in range(1, min(-(-w.outputs // width), 4) + 1)]
    whole, over = divmod(w.outputs, width)
    if machine.vector_bytes == _WIDE and 0 < over <= width // 2 and 0 < whole < 4:
        panels.append((whole, True))
    found = []
    for vectors, has_half in panels:
        room = (machine.registers - 1) // (vectors + has_half) - 1
        for taps in (t for t in range(1, size + 1) if size % t == 0 and t <= room):
            most = min(room // taps, w.channels)
            equal = next(c for c in range(most, 0, -1) if w.channels % c == 0)
            found += [_Shape(vectors, c, taps, has_half) for c in sorted({equal, most})]
    return found


def _config(
    w: Windows, machine: Machine, width: int, shape: _Shape, tile: _Tile,
    outputs: int, cuts: int, shares: int,
) -> OuterConfig:  # fmt: skip
    """Return a config of some positions, then outputs and channels as find room."""
    vectors, channels, taps, has_half = shape
    panel = vectors * width + (width // 2 if has_half else 0)
    most = min(outputs, _ROOM // tile.positions)
    block_o = _equal(w.outputs, max(most, 1), panel)
    most = min(_ROOM // tile.size, _ROOM // (block_o * prod(w.kernel_size)), -(-w.channels // cuts))
    block_c = _equal(w.channels, max(most, 1), channels)
    config = OuterConfig(
        vectors, channels, taps, width, block_o, block_c, tile.room, tile.turned, tile.images,
        tile.rows, 1, has_half,
    )  # fmt: skip
    if not shares:
        return config
    wanted = -(-shares * machine.threads // blocks(w, config))
    parts = max(1, min(wanted, tiles(w, config)))
    return config if parts == 1 else replace(config, parts=parts)


def _equal(size: int, most: int, unit: int) -> int:
    """Return about equal parts of a size, whole units and at most ``most`` of elements."""
    return rounded_up(-(-size // -(-size // min(size, most))), unit)


def extents_of(w: Windows, rows: int) -> tuple[int, ...]:
    """Elements of an image on each axis that ``rows`` rows of windows meet."""
    axes = zip((rows, *w.counts[1:]), w.stride, w.kernel_size, w.dilation, strict=True)
    return tuple((n - 1) * s + (k - 1) * abs(d) + 1 for n, s, k, d in axes)


def cost(w: Windows, config: OuterConfig, machine: Machine) -> float:
    """Return the estimated cycles: of products at each position, or of reads.

    Each line of positions, and each block of sums that waits, costs some more; then the copies.
    """
    c = config
    places, kernel_size = c.channels * c.taps, prod(w.kernel_size)
    lines = c.images * c.rows * prod(w.counts[1:-1])
    positions = lines * w.counts[-1]
    step = max(c.work * places / machine.products, (c.work + 1.5 * places) / 2, 4)
    block = positions * step + lines * 4 + 8 * c.work * places
    count = (c.block_o // c.panel) * (c.block_c // c.channels) * (kernel_size // c.taps)
    *outer, row = extents_of(w, c.rows)
    copied = c.block_c * c.images * prod(outer) * (4 + 8 * -(-row // c.width))
    turned = c.block_o * positions * 0.6
    # What does not stay in the first cache beside the rest is read from the second.
    far = c.block_c * c.images * prod((*outer, row)) + c.block_o * positions > _NEAR
    block *= 1.1 if far else 1
    sums = c.block_o * c.block_c * kernel_size
    rounds = -(-workgroups(w, c) // machine.threads)
    each = -(-tiles(w, c) // c.parts) * (count * block + copied + turned) + 2 * sums
    every = w.groups * w.outputs * w.channels * kernel_size
    joined = _START + c.parts * every / machine.threads if c.parts > 1 else 0
    return rounds * each + joined
