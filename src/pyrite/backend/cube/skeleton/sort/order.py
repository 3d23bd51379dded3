"""Sorted rows: the ways of sorting them, and the choice of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.operand import bindings_of
from pyrite.backend.cube.skeleton.elementwise import map_elements
from pyrite.backend.cube.skeleton.protocol import Fused, launch
from pyrite.backend.cube.skeleton.sort.bitonic import bitonic_kernel, padded
from pyrite.backend.cube.skeleton.sort.key import Key
from pyrite.backend.cube.skeleton.sort.radix_blocks import sort_blocks
from pyrite.backend.cube.skeleton.sort.radix_sort import most_elements, radix_kernel
from pyrite.backend.cube.skeleton.sort.radix_tiles import Blocks, shared_bytes
from pyrite.backend.cube.skeleton.sort.rank import rank_kernel
from pyrite.backend.cube.skeleton.sort.row import Rows, room_of, rows_of
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.content import content_of
from pyrite.kernel import Kernel
from pyrite.types import TensorType, int32


@dataclass(frozen=True, slots=True)
class SortConfig:
    """The unit that sorts a row, with ``workgroup_size`` invocations together.

    - "rank": an invocation, which compares ``width`` keys at once;
    - "bitonic": a workgroup, which has ``width`` elements of one or more rows in its memory;
    - "radix": an invocation, by digits of at most ``digit_bits``;
    - "radix blocks": all, in blocks of ``width`` elements, by digits of at most ``digit_bits``.

    Memory for a row has ``room`` for so many elements; for a bitonic sort a power of two.
    """

    by: Literal["rank", "bitonic", "radix", "radix blocks"]
    workgroup_size: int
    width: int = 1
    digit_bits: int = 0
    room: int = 0


@dataclass(frozen=True, slots=True)
class SortedRows:
    """The positions of rows in the order of their keys."""

    rows: Rows
    key: Key


#: Bytes of a tile: every WebGPU device has them, and no more was measured.
_SHARED_BYTES = 1 << 14
#: The longest rows of which all pairs are compared.
_RANKED = 128


class SortSkeleton:
    """Kernels that sort rows; "radix blocks" are several launches, which `sort_blocks` makes."""

    name = "sort"

    def candidates(self, problem: SortedRows, machine: Machine) -> tuple[SortConfig, ...]:
        """Return the configs that are right for rows."""
        return candidates(problem.rows, problem.key, machine)

    def select(self, problem: SortedRows, machine: Machine) -> SortConfig:
        """Return the config that touches least memory for the length of the rows."""
        return select(problem.rows, problem.key, machine)

    def workgroups(self, problem: SortedRows, config: SortConfig) -> int:
        """Return how many workgroups have rows."""
        rows, together = problem.rows, config.workgroup_size
        if config.by == "bitonic":
            together = config.width // config.room
        return -(-rows.count // together)

    def build(self, problem: SortedRows, config: SortConfig, fused: Fused, grid: int) -> Kernel:
        """Return the kernel of one launch.  Parameters: what is sorted, out."""
        assert config.by != "radix blocks", config
        rows, key = problem.rows, problem.key
        size, width = config.workgroup_size, config.width
        if config.by == "rank":
            return rank_kernel(rows, key, size, width, config.room, grid)
        if config.by == "bitonic":
            return bitonic_kernel(rows, key, size, width, config.room, grid)
        return radix_kernel(rows, key, size, config.digit_bits, config.room, grid)


SORT: Final = SortSkeleton()


def candidates(rows: Rows, key: Key, machine: Machine) -> tuple[SortConfig, ...]:
    """Return the configs that are right for rows."""
    sizes = machine.workgroup_sizes
    small = min(64, sizes[0])
    found = []
    if rows.size <= _RANKED:
        found += [SortConfig("rank", small, width, room=_RANKED) for width in (16, 8, 4, 1)]
    tile = _SHARED_BYTES // (key.dtype.itemsize + int32.itemsize)
    found += [
        SortConfig("bitonic", size, max(padded(rows.size), 2 * size), room=padded(rows.size))
        for size in sizes
        if size > 1 and padded(rows.size) <= tile
    ]
    found += [
        SortConfig("radix", 1, digit_bits=bits, room=room_of(rows.size, most))
        for bits in (8, 4)
        if rows.size <= (most := most_elements(machine.private_bytes, key, bits))
    ]
    found += [SortConfig("radix blocks", 1, 1 << 16, bits) for bits in (8, 11)]
    found += [
        SortConfig("radix blocks", size, size * items, 4)
        for size in (64, 128)
        for items in (16, 8)
        if size in sizes and shared_bytes(key.dtype, size, items, 4) <= _SHARED_BYTES
    ]
    return tuple(found)


def select(rows: Rows, key: Key, machine: Machine) -> SortConfig:
    """Return a config: what touches least memory for the length of the rows."""
    found = candidates(rows, key, machine)
    if machine.kind == "cpu":
        wide = machine.vector * 4 // key.dtype.itemsize
        ranked = [c for c in found if c.by == "rank" and c.width <= wide]
        # A digit of 8 bits costs as much as to compare some 50 keys with vectors of others.
        if ranked and rows.size <= 4 * wide:
            return ranked[0]
        return next(
            c for c in found
            if c.workgroup_size == 1 and c.digit_bits == 8 and c.by in ("radix", "radix blocks")
        )  # fmt: skip
    fitting = [c for c in found if c.by == "bitonic"]
    if fitting:
        # Two elements for each invocation, and no more invocations than that needs.
        return min(fitting, key=lambda c: (c.width, -c.workgroup_size))
    return next(c for c in found if c.by == "radix blocks" and c.workgroup_size > 1)


def argsort_axis(
    launcher: Launcher,
    x: CubeTensor,
    axis: int,
    *,
    descending: bool = False,
    limit: int | None = None,
    config: SortConfig | None = None,
) -> CubeTensor:
    """Return the positions that sort an axis of a tensor, int32, of the same shape.

    ``limit`` says that the elements are unsigned and below it, which saves passes.
    """
    others = tuple(a for a in range(len(x.shape)) if a != axis)
    last = x.permuted((*others, axis))
    # Limits of as many bits share their kernels.
    limit = None if limit is None else 1 << max(limit - 1, 1).bit_length()
    found = _argsort_rows(launcher, last, Key(x.dtype, descending, limit), config)
    order = (*others, axis)
    return found.permuted(tuple(order.index(a) for a in range(len(order))))


def _argsort_rows(
    launcher: Launcher, x: CubeTensor, key: Key, config: SortConfig | None
) -> CubeTensor:
    type = TensorType(x.shape, int32)
    if type.size == 0:
        return launcher.empty(type)
    rows = rows_of(x)
    problem = SortedRows(rows, key)
    config = config or SORT.select(problem, launcher.machine)
    if config.by == "radix blocks":
        return _sorted_in_blocks(launcher, x, rows, key, config)
    target = launcher.empty(type)
    launch(launcher, SORT, problem, [*bindings_of(x), target.buffer], config=config)
    return target


def _sorted_in_blocks(
    launcher: Launcher, x: CubeTensor, rows: Rows, key: Key, config: SortConfig
) -> CubeTensor:
    keys = launcher.empty(TensorType(x.shape, key.dtype))
    map_elements(
        launcher, "sort_key", content_of(key), lambda k, v: key.of(k.builder, v), [x], keys
    )
    lanes = config.workgroup_size
    blocks = Blocks(rows.count, rows.size, key.dtype, lanes, config.width // lanes)
    found = sort_blocks(launcher, keys, key.bits, config.digit_bits, blocks)
    shaped = found.reshaped(x.shape)
    assert shaped is not None, "a dense tensor takes any shape"
    return shaped
