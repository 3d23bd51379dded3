"""How attention is cut up for a CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyrite.backend.cube.skeleton.attention.problem import Attention
from pyrite.kernel.extent import extent
from pyrite.kernel.machine import Machine
from pyrite.kernel.template.index import pieces, rounded_up
from pyrite.types import DType


@dataclass(frozen=True, slots=True)
class LaneConfig:
    """A tile is ``vectors`` vectors of ``width`` lanes, which are queries; it meets ``block`` keys.

    Sums are ``rows`` times ``vectors`` vectors in registers.
    """

    rows: int
    vectors: int
    width: int
    block: int

    @property
    def lanes(self) -> int:
        """Queries of a tile."""
        return self.vectors * self.width

    def private_bytes(self, problem: Attention) -> int:
        """Return what an invocation keeps: queries, sums of values, and scores."""
        elements = problem.size + problem.value_size + self.block
        return elements * self.lanes * problem.dtype.compute.itemsize


def candidates(problem: Attention, machine: Machine) -> list[LaneConfig]:
    """Return the configs whose tiles an invocation can keep; none for very long heads."""
    width = _width(problem.dtype, machine)
    shapes = _OF_32 if machine.registers >= 32 else _OF_16
    found = [
        LaneConfig(rows, vectors, width, block * rows)
        for rows, vectors in shapes
        if vectors == 1 or (vectors - 1) * width < problem.rows
        for block in (8, 16)
    ]
    return [c for c in found if c.private_bytes(problem) <= machine.private_bytes]


def select(problem: Attention, machine: Machine) -> LaneConfig:
    """Return the candidate that seems best: see `_fitness`."""
    return max(candidates(problem, machine), key=_fitness)


def _fitness(config: LaneConfig) -> tuple[int, int, int]:
    """Return two vectors before one before more, and then as many as may be met at once.

    With one vector a tile waits for the elements that it reads.  More than two give no more, and
    are more lanes beyond the last row, and above the diagonal: of 128 queries three take 1.3 times
    as long.
    """
    return min(config.vectors, 2), -config.vectors, config.block


# ---- gradients ----


@dataclass(frozen=True, slots=True)
class GradientConfig(LaneConfig):
    """A tile's lanes are keys; it meets ``block`` queries at once; a head's tiles are in parts."""

    parts: int = extent(default=1)

    def private_bytes(self, problem: Attention) -> int:
        """Return what an invocation keeps: keys twice, values, gradients of both, and scores."""
        padded = rounded_up(problem.size, self.width)
        elements = 2 * (problem.size + problem.value_size + self.block) + padded
        return elements * self.lanes * problem.dtype.compute.itemsize


def gradient_candidates(problem: Attention, machine: Machine) -> list[GradientConfig]:
    """Return the configs whose tiles an invocation can keep; none for very long heads."""
    width = _width(problem.dtype, machine)
    shapes = _OF_32 if machine.registers >= 32 else _OF_16
    found = [
        GradientConfig(rows, vectors, width, blocks * rows, _parts(problem, vectors * width))
        for rows, vectors in shapes
        if vectors == 1 or (vectors - 1) * width < problem.keys
        for blocks in (2, 4, 8)
    ]
    return [c for c in found if c.private_bytes(problem) <= machine.private_bytes]


def select_gradient(problem: Attention, machine: Machine) -> GradientConfig:
    """Return the candidate that seems best: see `_fitness`."""
    return max(gradient_candidates(problem, machine), key=_fitness)


def _parts(problem: Attention, lanes: int) -> int:
    """Return in how many parts the keys of few heads are cut, so that many threads have work.

    It depends on no number of threads, for the parts' order is that of a sum.
    """
    return max(1, min(_MOST_PARTS // problem.head_count, pieces(problem.keys, lanes)))


#: Parts of all heads together, where these are fewer.
_MOST_PARTS: Final = 8


# ---- beside the body ----


def is_for_tiles(queries: int, keys: int, machine: Machine) -> bool:
    """Whether tiles pay, for so many queries that meet one head of keys.

    On a CPU one query of 1024 keys takes 3 times as long as by the body, whose lanes are along the
    head, and 4 take 1.5 times; 8 are as fast, and so are few keys, where the body is many launches.
    On a GPU few queries leave most of a tile empty, and most processors without one.

    >>> [is_for_tiles(n, 1024, Machine.cpu()) for n in (1, 8)], is_for_tiles(1, 4, Machine.cpu())
    ([False, True], True)
    """
    few = _FEW_ON_A_GPU if machine.kind == "gpu" else _FEW
    return queries >= few or keys < _SHORT


_FEW: Final = 8
_FEW_ON_A_GPU: Final = 16
_SHORT: Final = 32


def _width(dtype: DType, machine: Machine) -> int:
    return machine.vector_bytes // dtype.compute.itemsize


#: Sums that fit in registers beside a vector of the tile for each column, and an element.
_OF_32: Final = ((12, 1), (12, 2), (8, 3), (6, 4))
_OF_16: Final = ((6, 1), (6, 2), (4, 3))
