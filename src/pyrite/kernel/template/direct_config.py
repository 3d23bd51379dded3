"""Configs of direct convolutions on CPUs: those that are right, and the choice of one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product as combinations
from math import prod
from typing import Final

from pyrite.cached import cached
from pyrite.kernel.choice import chosen, kept
from pyrite.kernel.extent import EXTENT
from pyrite.kernel.machine import Machine
from pyrite.kernel.template.implicit_gemm import Windows
from pyrite.kernel.template.operand import accumulator_of
from pyrite.kernel.template.packed_images import PackedImages, ample_room, within
from pyrite.kernel.template.polyphase import Polyphase
from pyrite.kernel.template.size_class import class_of, most_images
from pyrite.symbol import require_known
from pyrite.types import DType


@dataclass(frozen=True, slots=True)
class DirectConfig:
    """How the work is cut up; see `direct_convolution`.  ``width`` is the lanes of a vector.

    A phase of one channel of the copy, and one output's sums of a part, have ``room`` elements of
    memory.
    """

    outputs: int
    vectors: int
    width: int
    block_o: int
    block_c: int
    room: int
    images: int = field(metadata=EXTENT)
    rows: int = field(metadata=EXTENT)

    def is_legal(self) -> bool:
        """Whether the sizes divide as the schedule needs."""
        return self.block_o % self.outputs == 0


#: All taps are written out.  Of 4x4x4 and 8x8 taps with windows that overlap this took 0.3 to 0.7
#: of the time of products; of windows that share nothing it took as long, and 5 times to compile.
_MOST_TAPS: Final = 64
_MOST_TAPS_APART: Final = 49
#: Positions of a tile, roughly, where there are as many.
_LENGTHS: Final = (256, 1024, 4096)
_SHARED_LENGTH: Final = 1024
#: Elements of the copy of x at most: every block of outputs reads it, from the second cache.
_ROOM: Final = 40 << 10
#: The most outputs that share a copy, and elements of their sums, which are read once for a copy.
_SHARES: Final = ((64, 40 << 10), (128, 128 << 10))


def candidates(p: Polyphase, dtype: DType, machine: Machine) -> list[DirectConfig]:
    """Return the configs that are right for a convolution on a CPU; none for large windows."""
    if not is_written_out(p):
        return []
    return [_config(p, dtype, machine, cut) for cut in _cuts(p, machine)]


def is_written_out(p: Polyphase) -> bool:
    """Whether the window is small enough."""
    w = p.windows
    overlap = any(k > step for k, step in zip(w.kernel_size, w.stride, strict=True))
    return p.taps <= (_MOST_TAPS if overlap else _MOST_TAPS_APART)


def writes_patches_out(w: Windows) -> bool:
    """Whether the phases of windows that do not overlap are few enough: they share no tap."""
    return prod(w.kernel_size) <= _MOST_TAPS_APART


def select(p: Polyphase, dtype: DType, machine: Machine) -> DirectConfig:
    """Return the candidate with the least estimated time for the class of sizes; see `cost`."""
    return _fitted(*_select_for(p, dtype, machine), p)


def select_shared(p: Polyphase, first: Polyphase, dtype: DType, machine: Machine) -> DirectConfig:
    """Return the config of a kernel that serves many sizes: it is cut as for the first of them.

    It has memory for all tiles but those of very long rows, and tiles are not short, whatever the
    first images were.  All in all it takes no more than configs in float64 may: it is on the stack.
    """
    config, length = _select_for(first, dtype, machine)
    length = max(length, _SHARED_LENGTH)
    found = _fitted(config, length, p)
    room = require_known(max(found.room, ample_room(length, found.width)))
    phases = len(PackedImages(p.windows, 1, 1, found.width).phases)
    w, lanes = p.windows, 8 // accumulator_of(dtype).itemsize
    channels = lanes * _ROOM // (room * phases)
    outputs = lanes * _SHARES[-1][1] // (room * len(p.parts))
    return replace(
        found, room=room, block_c=within(w.channels, found.block_c, channels),
        block_o=within(w.outputs, found.block_o, outputs, found.outputs),
    )  # fmt: skip


def other_cuts(p: Polyphase, config: DirectConfig) -> list[DirectConfig]:
    """Return a config, and those that share its kernels' form where images have other sizes.

    Small images go together, large ones are cut: each is another kernel.
    """
    whole = p.windows.counts[0]
    cuts = [(config.images, config.rows), (1, whole), (1, -(-whole // 2))]
    cuts += [(2, whole)] if p.windows.batch > 1 else []
    found = [replace(config, images=images, rows=rows) for images, rows in cuts]
    return list(dict.fromkeys(found))


@chosen(4096)
def _select_for(p: Polyphase, dtype: DType, machine: Machine) -> tuple[DirectConfig, int]:
    return _select(replace(p, windows=class_of(p.windows)), dtype, machine)


def _fitted(config: DirectConfig, length: int, p: Polyphase) -> DirectConfig:
    # As many images as the greatest batch of the class has: fewer take no more time.
    w = replace(p.windows, batch=most_images(p.windows.batch))
    packed = PackedImages.near(w, length, config.width)
    return replace(config, room=packed.room, images=packed.images, rows=packed.rows)


@cached(4096)
@kept
def _select(p: Polyphase, dtype: DType, machine: Machine) -> tuple[DirectConfig, int]:
    found = ((_config(p, dtype, machine, cut), cut[1]) for cut in _cuts(p, machine))
    return min(found, key=lambda pair: cost(p, pair[0], machine))


#: (outputs, vectors), positions of a tile, and what shares a copy.
_Cut = tuple[tuple[int, int], int, tuple[int, int]]


def _cuts(p: Polyphase, machine: Machine) -> list[_Cut]:
    return list(combinations(_shapes(p, machine), _LENGTHS, _SHARES))


def _shapes(p: Polyphase, machine: Machine) -> list[tuple[int, int]]:
    """Return (outputs, vectors) whose sums fit in registers beside the vectors of a tap."""
    room = machine.registers - 1
    known = [(rows, room // (rows + 1)) for rows in (1, 2, 3, 4, 6, 8, 14)]
    return sorted({(min(rows, p.windows.outputs), min(v, 8)) for rows, v in known if v > 0})


def _config(p: Polyphase, dtype: DType, machine: Machine, cut: _Cut) -> DirectConfig:
    """Return a config with as many positions as wanted, then outputs and channels as find room."""
    w, ((outputs, vectors), length, (most, room)) = p.windows, cut
    width = machine.vector_bytes // accumulator_of(dtype).itemsize
    packed = PackedImages.near(w, length, width)
    block_c = min(w.channels, max(_ROOM // (packed.size * len(packed.phases)), 1))
    block_o = min(w.outputs, most, max(room // (packed.size * len(p.parts)), 1))
    parts = -(-w.outputs // block_o)
    block_o = -(-w.outputs // (parts * outputs)) * outputs
    return DirectConfig(
        outputs, vectors, width, block_o, block_c, packed.room, packed.images, packed.rows
    )


def cost(p: Polyphase, config: DirectConfig, machine: Machine) -> float:
    """Return the estimated cycles: of products or reads at each tap, and of the copies."""
    c, w = config, p.windows
    packed = PackedImages(w, c.images, c.rows, c.width)
    whole, rest = blocks(packed, c)
    summed = whole * _block_cost(p, c.outputs, c.vectors, machine)
    if rest:
        summed += _block_cost(p, c.outputs, rest, machine)
    vectors = packed.length / c.width
    copied = (w.channels * len(packed.phases) * 6 + c.block_o * len(p.parts) * 8) * vectors
    each = c.block_o // c.outputs * summed + copied
    return -(-workgroups(p, c) // machine.threads) * each


def _block_cost(p: Polyphase, outputs: int, vectors: int, machine: Machine) -> float:
    # Vectors of the copy lie in two lines of the first cache, mostly.
    reads = 1.8 * vectors / machine.products + outputs / 2
    tap = max(outputs * vectors / machine.products, reads, 6) + 0.2 * outputs
    return p.windows.channels * p.taps * tap + 10 * len(p.parts)


def blocks(packed: PackedImages, config: DirectConfig) -> tuple[int, int]:
    """Return how many blocks the positions are cut into, and the vectors that are left."""
    vectors = -(-packed.length // config.width)
    return vectors // config.vectors, vectors % config.vectors


def workgroups(p: Polyphase, config: DirectConfig) -> int:
    """Return how many workgroups run it."""
    w = p.windows
    tiles = -(-w.batch // config.images) * -(-w.counts[0] // config.rows)
    return tiles * w.groups * -(-w.outputs // config.block_o)
