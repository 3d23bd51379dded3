"""The common part of the templates of weight gradients: operands, and numbers of the work.

The gradient (G O, C, *K) is cut into blocks of outputs by channels, and the positions into tiles of
some rows of some images.  A workgroup goes along the tiles of one block: along all of them, or, of
``parts``, along its part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pyrite.kernel.builder import KernelBuilder, Memory, Value
from pyrite.kernel.template.implicit_gemm import OperandLayout, Windows
from pyrite.kernel.template.index import Index, divided, plus, remainder, times
from pyrite.kernel.template.operand import accumulator_of
from pyrite.kernel.template.packed_images import Volume
from pyrite.types import DType


class Cut(Protocol):
    """How a gradient is cut up: what both configs say."""

    @property
    def block_o(self) -> int:
        """Outputs of a block."""

    @property
    def block_c(self) -> int:
        """Channels of a block."""

    @property
    def images(self) -> int:
        """Images of a tile."""

    @property
    def rows(self) -> int:
        """Rows of a tile."""

    @property
    def parts(self) -> int:
        """How many workgroups share the tiles of a block."""


def tiles(w: Windows, cut: Cut) -> int:
    """Return the number of tiles of positions."""
    return -(-w.batch // cut.images) * -(-w.counts[0] // cut.rows)


def blocks(w: Windows, cut: Cut) -> int:
    """Return how many blocks of outputs by channels the gradient has."""
    return w.groups * -(-w.outputs // cut.block_o) * -(-w.channels // cut.block_c)


def workgroups(w: Windows, cut: Cut) -> int:
    """Return how many workgroups run it."""
    return blocks(w, cut) * cut.parts


def declare(
    b: KernelBuilder, x: OperandLayout, g: OperandLayout, out: DType, cut: Cut
) -> tuple[Volume, Volume, Memory]:
    """Return the parameters x, g and the dense result, of which there are ``parts``."""
    volumes = Volume(b, "x", x, "read"), Volume(b, "g", g, "read")
    return *volumes, b.buffer("out", accumulator_of(x.dtype) if cut.parts > 1 else out, "write")


@dataclass(frozen=True, slots=True)
class Block:
    """The block of the gradient that a workgroup makes, of a part of the tiles.

    ``output`` and ``channel`` are its first of a group, ``first_output`` and ``first_channel`` of
    all groups.
    """

    part: Index
    output: Index
    channel: Index
    first_output: Index
    first_channel: Index


def block_of(number: Value, w: Windows, cut: Cut) -> Block:
    """Return the block of the workgroup of that number."""
    outputs, channels = -(-w.outputs // cut.block_o), -(-w.channels // cut.block_c)
    inside = remainder(number, blocks(w, cut))
    group = divided(inside, outputs * channels)
    inside = remainder(inside, outputs * channels)
    output = times(divided(inside, channels), cut.block_o)
    channel = times(remainder(inside, channels), cut.block_c)
    return Block(
        divided(number, blocks(w, cut)), output, channel,
        plus(times(group, w.outputs), output), plus(times(group, w.channels), channel),
    )  # fmt: skip


def each_tile(
    b: KernelBuilder, w: Windows, cut: Cut, part: Index, body: Callable[[Index, Index], None]
) -> None:
    """Run the body on each tile of a part: the first image and the first row."""
    count, across = tiles(w, cut), -(-w.counts[0] // cut.rows)
    each = -(-count // cut.parts)
    first = b.index(times(part, each))
    with b.for_(first, b.min(first + each, count)) as loop:
        row = times(remainder(loop.index, across), cut.rows) if across > 1 else 0
        body(times(divided(loop.index, across), cut.images), row)
