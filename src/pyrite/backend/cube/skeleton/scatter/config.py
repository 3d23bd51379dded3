"""Configs of scatters: the units that keep the order of the writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from pyrite.backend.cube.launcher import Machine


@dataclass(frozen=True, slots=True)
class Problem:
    """``writes`` on each of some ``lines``, to a target of so many ``elements``.

    ``is_atomic`` says that they meet by an atomic instruction of 32-bit integers, ``is_assigned``
    that the last one stays, ``has_identity`` that some integer changes none that it meets,
    ``adds_floats`` that they are floats of 32 bits, which are added.
    """

    writes: int
    lines: int
    elements: int
    is_atomic: bool = False
    is_assigned: bool = False
    has_identity: bool = False
    adds_floats: bool = False


@dataclass(frozen=True, slots=True)
class ScatterConfig:
    """The unit that keeps the order, if any; see the head of this package.

    Segments are cut at every ``chunk`` writes; ``parts`` are how many there are of those.  Shared
    are copies of ``chunk`` elements, by each of so many parts of the writes; so they are where
    writes are sorted in tiles, by so many ``lanes``.
    """

    by: Literal["line", "element", "segment", "atomic", "part", "shared", "tile"]
    chunk: int = 0
    parts: int = 0
    lanes: int = 0


@dataclass(frozen=True, slots=True)
class Tile:
    """How writes are sorted in tiles: ``items`` of each lane, by digits of so many bits.

    ``lanes`` are the sizes of workgroups, the one that is tried first first.
    """

    lanes: tuple[int, ...]
    items: int
    digit: int

    def shared_bytes(self, lanes: int, places: int) -> int:
        """Return the memory of a workgroup: words and values, counters, sums, and a copy."""
        size = lanes * self.items
        words = size * 2 + size // 32 + (lanes << self.digit) + lanes
        return 4 * (words + places)


TILE: Final = Tile((128, 64), 8, 4)


#: The most parts, each of which takes memory; the fewest writes that are divided: on two threads
#: 2^18 to one of 1000 places take 155 µs instead of 255.
_MOST_PARTS: Final = 16
_DIVIDED: Final = 1 << 16


def candidates(problem: Problem, machine: Machine) -> list[ScatterConfig]:
    """Return the configs that are right."""
    found = [ScatterConfig("line"), ScatterConfig("element"), ScatterConfig("segment", 256)]
    found += [ScatterConfig("atomic")] * (problem.is_atomic or problem.is_assigned)
    if machine.kind == "gpu" and problem.has_identity:
        found += _shared(problem, machine)
    if machine.kind == "gpu" and problem.adds_floats:
        found += _tiles(problem, machine)
    parts = min(machine.threads, _MOST_PARTS)
    return found + [ScatterConfig("part", parts=parts)] * (problem.is_atomic and parts > 1)


def _shared(problem: Problem, machine: Machine) -> list[ScatterConfig]:
    """Return how workgroups have copies of the elements, if these fit and there is one line.

    Each has some writes for each element of its copy, which it fills and whose elements it joins.
    """
    capacity = max(1 << (problem.elements - 1).bit_length(), _LEAST_COPY)
    if problem.lines != 1 or capacity * 4 > machine.shared_bytes:
        return []
    own = max(_OWN_WRITES * problem.elements, _OWN_ROUNDS * THREADS)
    return [ScatterConfig("shared", capacity, max(min(problem.writes // own, _copies(machine)), 1))]


def _tiles(problem: Problem, machine: Machine) -> list[ScatterConfig]:
    """Return how workgroups sort tiles of the writes, if copies of the places fit beside them."""
    places = max(1 << problem.elements.bit_length(), _LEAST_COPY)
    if problem.lines != 1 or places > _MOST_PLACES:
        return []
    for lanes in TILE.lanes:
        if (
            lanes <= machine.invocations
            and TILE.shared_bytes(lanes, places) <= machine.shared_bytes
        ):
            tiles = -(-problem.writes // (lanes * TILE.items))
            return [ScatterConfig("tile", places, max(min(tiles, machine.workgroups), 1), lanes)]
    return []


def _copies(machine: Machine) -> int:
    """Two for each workgroup that runs at once: their writes wait for memory."""
    return 2 * machine.workgroups


#: Invocations of a workgroup with a copy of its own; writes of each, at least, and of each element.
THREADS: Final = 256
_OWN_ROUNDS: Final = 8
_OWN_WRITES: Final = 4
#: Elements of the least copy, for kernels to be shared; and the fewest copies that are worth it.
_LEAST_COPY: Final = 256
_FEWEST: Final = 8
#: Elements of the greatest copy beside a tile.
_MOST_PLACES: Final = 4096


def _is_divided(problem: Problem, parts: int) -> bool:
    """Whether parts are shorter than lines, and their copies little to fill and to join."""
    is_many = problem.writes * problem.lines >= _DIVIDED
    is_dense = problem.elements * parts * 4 <= problem.writes * problem.lines
    return is_many and is_dense and problem.lines < parts


def select(problem: Problem, machine: Machine) -> ScatterConfig:
    """Return a config: by line, unless few lines would leave a large device idle.

    A GPU has many cores, and atomics of its own: integers meet by them, and where many meet at few
    elements in copies first.  On a processor many of
    them that go to few places are divided among its threads.
    """
    by = {config.by: config for config in candidates(problem, machine)}
    if machine.kind == "cpu" and "part" in by and _is_divided(problem, by["part"].parts):
        return by["part"]
    if "shared" in by and by["shared"].parts >= _FEWEST:
        return by["shared"]
    if machine.kind == "gpu" and problem.is_atomic:
        return by["atomic"]
    if machine.kind == "cpu" or problem.writes <= max(256, problem.lines // 4):
        is_few = problem.lines < 256 and problem.writes * problem.elements <= 1 << 20
        return by["element" if machine.kind == "gpu" and is_few else "line"]
    if "tile" in by:
        return by["tile"]
    # Atomics that say who is last take a number for each element: not where few are written to.
    is_dense = problem.elements <= 16 * problem.writes * problem.lines
    return by["atomic" if problem.is_assigned and is_dense else "segment"]
