"""How attention is cut up for a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyrite.backend.cube.skeleton.attention.problem import Attention
from pyrite.backend.cube.skeleton.attention.workgroup import VECTOR, TileConfig
from pyrite.kernel.machine import Machine

#: From the largest to the smallest; of equal tiles first those of the most invocations.  Those of
#: two vectors are for the forward kernel alone.
CONFIGS: Final = (
    TileConfig(64, 64, 4, unroll=16),
    TileConfig(64, 64, 8),
    TileConfig(64, 64, 8, 2),
    TileConfig(64, 32, 4),
    TileConfig(64, 32, 8),
    TileConfig(32, 32, 4),
    TileConfig(32, 16, 4),
    TileConfig(16, 16, 4),
)
#: Elements in registers: sums, and those with scores.
_MOST_SUMS: Final = 96
_MOST_ELEMENTS: Final = 160


def forward_candidates(problem: Attention, machine: Machine) -> list[TileConfig]:
    """Return the configs whose tiles fit in shared memory; none for very long heads."""
    itemsize = problem.dtype.compute.itemsize

    def fits(config: TileConfig) -> bool:
        columns = max(
            problem.size * config.columns, config.columns * config.padded(problem.value_size)
        )
        elements = problem.size * config.rows + columns + config.rows * config.columns
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
    """Return the same for gradients, of these sizes: tiles of both sides are in shared memory."""
    itemsize = problem.dtype.compute.itemsize
    sizes = problem.size, problem.value_size

    def fits(config: TileConfig) -> bool:
        elements = (sum(sizes) + config.columns) * config.rows + config.line(max(sizes))
        sums = config.own_rows * VECTOR * sum(config.vectors(size) for size in results)
        return (
            config.own_vectors == 1
            and elements * itemsize <= machine.shared_bytes
            and config.threads <= machine.invocations
            and sums <= _MOST_SUMS
        )

    return [config for config in CONFIGS if fits(config)]


def select(found: Sequence[TileConfig], rows: int) -> TileConfig:
    """Return the largest of which the rows are not mostly beyond the last."""
    return next((c for c in found if c.rows < 2 * rows), found[-1])
