"""How attention is cut up for a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyrite.backend.cube.skeleton.attention.problem import Attention
from pyrite.backend.cube.skeleton.attention.workgroup import VECTOR, TileConfig
from pyrite.kernel.choice import chosen
from pyrite.kernel.extent import extent
from pyrite.kernel.machine import Machine
from pyrite.kernel.template.index import pieces

#: From the largest to the smallest.  Of 8 x 12 heads of 1024 x 64, in ms on an H200, whose
#: processors have 48 KiB of shared memory for all workgroups, forward and gradients of keys: the
#: first takes 0.77 and 1.59 with the device's powers, 0.79 and 1.63 with 8 steps written out at
#: once, 0.86 and 1.75 with our powers; by these 128 rows of 8 x 8 scores take 0.92, and have too
#: many sums for gradients; 128 x 32 of 8 x 4 0.95 and 2.07; 64 x 64 of 8 x 4, whose slabs of 64
#: columns leave room for one workgroup, 1.32 and 2.28, of 4 x 4 1.17 and 2.15; 64 x 128 of 4 x 16
#: 0.89 and 2.06; half the depth 0.89 and 1.89.
CONFIGS: Final = (
    TileConfig(64, 64, 4, 2, unroll=16),
    TileConfig(64, 64, 4, unroll=16),
    TileConfig(64, 32, 4),
    TileConfig(32, 32, 4),
    TileConfig(32, 16, 4),
    TileConfig(16, 16, 4),
)
#: Elements in registers: sums of forward and of gradients, and those with scores.
_MOST_SUMS: Final = 96
_MOST_GRADIENTS: Final = 128
_MOST_ELEMENTS: Final = 192


def forward_candidates(problem: Attention, machine: Machine) -> list[TileConfig]:
    """Return the configs whose tiles fit in shared memory; none for very long heads."""
    itemsize = problem.dtype.compute.itemsize

    def fits(config: TileConfig) -> bool:
        elements = config.left + config.right(problem.value_size)
        sums = config.own_rows * VECTOR * config.vectors(problem.value_size)
        scores = config.own_rows * VECTOR * config.own_vectors
        return (
            elements * itemsize <= machine.shared_bytes
            and config.threads <= machine.invocations
            and sums <= _MOST_SUMS
            and sums + scores <= _MOST_ELEMENTS
        )

    return [config for config in CONFIGS if fits(config)]


def gradient_candidates(
    problem: Attention, machine: Machine, results: Sequence[int]
) -> list[TileConfig]:
    """Return the same for gradients, of these sizes; of none where scores are kept."""
    itemsize = problem.dtype.compute.itemsize

    def fits(config: TileConfig) -> bool:
        elements = config.left + config.right(max(results, default=0))
        sums = config.own_rows * VECTOR * sum(config.vectors(size) for size in results)
        scores = config.own_rows * VECTOR * config.own_vectors
        return (
            elements * itemsize <= machine.shared_bytes
            and config.threads <= machine.invocations
            and sums <= _MOST_GRADIENTS
            and 2 * scores + sums <= _MOST_ELEMENTS
        )

    return [config for config in CONFIGS if fits(config)]


@dataclass(frozen=True, slots=True)
class _Tiled:
    """Rows of so many heads, and the configs that fit."""

    found: tuple[TileConfig, ...]
    rows: int = extent()
    heads: int = extent()


def select(found: Sequence[TileConfig], rows: int, heads: int, machine: Machine) -> TileConfig:
    """Return the largest of which the rows are not mostly beyond the last.

    Where most processors have no more than one workgroup, that is one of the most invocations.
    """
    return _select(_Tiled(tuple(found), rows, heads), machine)


@chosen(4096)
def _select(of: _Tiled, machine: Machine) -> TileConfig:
    fitting = [c for c in of.found if c.rows < 2 * of.rows] or of.found[-1:]
    first = fitting[0]
    if pieces(of.rows, first.rows) * of.heads * 2 > machine.workgroups:
        return first
    return max((c for c in fitting if c.rows == first.rows), key=lambda c: c.threads)
