"""Where the slots of a class's recordings lie: found for one size, filled in for others.

Who may take whose memory, and which slots are never in use together, is a matter of launches.  So a
plan that was found for one size is right for all sizes of its class at which what shares memory has
one size, and as good wherever it takes about as little.  Where it does not, another is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pyrite.backend.cube.block import Use
from pyrite.backend.cube.in_place import overwritable
from pyrite.backend.cube.placement import BLOCK, NEAR, SMALL, Part
from pyrite.backend.cube.recorded_memory import RecordedMemory
from pyrite.kernel import Kernel

#: A plan may take so much more of what any one takes than it did, of no more bytes than `SMALL`;
#: of more `NEAR`.
ABOUT: Final = 1.2
#: The place of a slot that no launch has: there is no such operand.
UNUSED: Final = -(1 << 31)


class PlacedSlots(NamedTuple):
    """Buffers that are to be made, a block, and parts of these, for one size."""

    sizes: tuple[int, ...]
    block: int
    parts: tuple[Part, ...]


class Run(NamedTuple):
    """Launches from one to before another, one for each step, and whether their kernel varies."""

    begin: int
    end: int
    varies: bool


@dataclass(frozen=True, slots=True)
class _PlannedPart:
    """A slot that is part of a buffer: behind the ``below``, which are in use together with it."""

    slot: int
    buffer: int
    below: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Where the slots lie that are no inputs': these are counted from 0, operands are all."""

    #: Slots whose memory others take: they have one size.
    pairs: tuple[tuple[int, int], ...]
    #: Launches, of which the kernel may be another, that write an operand over what they read.
    over: tuple[tuple[int, int], ...]
    #: Of each buffer the slots that lie there one after the other, a result first.
    buffers: tuple[tuple[int, ...], ...]
    #: Parts of these, from the lowest on, and the multiples at which they begin.
    parts: tuple[_PlannedPart, ...]
    alignment: int
    #: Buffers in which no result lies.
    inner: tuple[int, ...]
    #: Which operand each slot is, inputs' first, and which each operand behind them.
    places: tuple[int, ...]
    #: The slots that are in use at a launch, for all launches at which these may be most.
    together: tuple[tuple[int, ...], ...]
    #: What all takes of what is in use at one launch, when the plan was found.
    ratio: float

    @classmethod
    def of(
        cls, memory: RecordedMemory, operands: Sequence[int], runs: Sequence[Run]
    ) -> MemoryPlan | None:
        """Return the plan of a memory, of launches in runs; None where it is none for other sizes.

        ``operands`` are numbers of operands behind the buffers.
        """
        wanted, placement = memory.wanted, memory.placement
        given = wanted.given
        uses = {n - given: use for n, use in memory.uses.items() if n >= given}
        standing = [memory.standing(n).number - given for n in range(given, len(wanted.slots))]
        places = {n - given: place for n, place in placement.places.items()}
        results = {memory.standing(n).number - given for n in wanted.results}
        if (
            memory.renewed
            or any([isinstance(places.get(n), Part) for n in results])
            or min([use.nbytes for use in uses.values()], default=1) == 0
            or any([of.begin == of.end for of in runs])
        ):
            return None
        pairs = tuple([(n, s) for n, s in enumerate(standing) if n != s])
        over = _overwritten(memory, {given + s for _, s in pairs}, runs)
        if over is None:
            return None
        buffers = [
            tuple([n for n, place in places.items() if place == at])
            for at in range(len(placement.sizes))
        ]
        if any([not slots for slots in buffers]):
            return None
        parts = tuple(_planned_parts(places, uses))
        numbers = {part.slot: n for n, part in enumerate(parts)}
        first = given + len(buffers)

        def operand(n: int) -> int:
            place = places.get(n, UNUSED)
            return first + numbers[n] if isinstance(place, Part) else given + place

        together = _together(uses)
        nbytes = [uses[n].nbytes if n in uses else 0 for n in range(len(standing))]
        least = _most_of(together, nbytes)
        moved = len(parts) - len(memory.parts)
        return cls(
            pairs, over, tuple(buffers), parts, wanted.runtime.alignment,
            tuple(memory.inner_buffers),
            (*range(given), *[operand(s) for s in standing], *[at + moved for at in operands]),
            together, placement.nbytes / max(least, 1),
        )  # fmt: skip

    def placed(self, nbytes: Sequence[int]) -> PlacedSlots | None:
        """Return where slots of so many bytes lie; None where it is no good plan for them."""
        for n, standing in self.pairs:
            if nbytes[n] != nbytes[standing]:
                return None
        sizes = [max([nbytes[n] for n in slots]) for slots in self.buffers]
        for at, slots in enumerate(self.buffers):
            if sizes[at] != nbytes[slots[0]] and at not in self.inner:
                return None  # who holds the result would hold more
        parts: list[Part] = []
        ends: dict[int, int] = {}
        block = 0
        for slot, buffer, below in map(_fields, self.parts):
            at = max([ends[n] for n in below], default=0)
            size = nbytes[slot]
            end = at + size
            if buffer == BLOCK:
                block = max(block, end)
            elif end > sizes[buffer]:
                return None
            ends[slot] = -(-end // self.alignment) * self.alignment
            parts.append(Part(buffer, at, size))
        least = _most_of(self.together, nbytes)
        planned = sum(sizes) + block - self.alignment * len(parts)
        most = (ABOUT if planned <= SMALL else NEAR) * self.ratio * least
        return PlacedSlots(tuple(sizes), block, tuple(parts)) if planned <= most else None

    def is_overwritten(self, launch: int, kernel: Kernel, bindings: Sequence[Any]) -> bool:
        """Whether a kernel in place of that of a launch may write what the plan has it write."""
        return all(
            _may_overwrite(kernel, bindings, operand) for n, operand in self.over if n == launch
        )


def _fields(part: _PlannedPart) -> tuple[int, int, tuple[int, ...]]:
    return part.slot, part.buffer, part.below


def _most_of(together: Sequence[Sequence[int]], nbytes: Sequence[int]) -> int:
    """Return the most bytes of slots that are in use together."""
    return max([sum([nbytes[n] for n in slots]) for slots in together], default=0)


def _together(uses: Mapping[int, Use]) -> tuple[tuple[int, ...], ...]:
    """Return which slots are in use at a launch, without those of which another one has all."""
    launches = sorted({use.begin for use in uses.values()})
    sets = [
        frozenset([n for n, use in uses.items() if use.begin <= at <= use.end]) for at in launches
    ]
    return tuple([tuple(sorted(s)) for s in {*sets} if not any(s < other for other in sets)])


def _planned_parts(
    places: Mapping[int, int | Part], uses: Mapping[int, Use]
) -> Iterator[_PlannedPart]:
    """Give the parts of buffers from the lowest on, each with those that it lies above."""
    parts = [(place.offset, n, place.buffer) for n, place in places.items() if type(place) is Part]
    for offset, n, buffer in sorted(parts):
        below = tuple([
            other for at, other, its in parts
            if its == buffer and at < offset and uses[other].meets(uses[n])
        ])  # fmt: skip
        yield _PlannedPart(n, buffer, below)


def _overwritten(
    memory: RecordedMemory, taken: Set[int], runs: Sequence[Run]
) -> tuple[tuple[int, int], ...] | None:
    """Return which launches whose kernels vary write slots that are ``taken`` over what they read.

    The slots are operands.  None where one of several steps does.
    """
    found: list[tuple[int, int]] = []
    for n, run in enumerate(runs):
        touched = [*memory.launches[run.begin].slots]
        read = {slot.number for slot, is_written in touched if not is_written}
        for number in {slot.number for slot, is_written in touched if is_written} & read & taken:
            if run.end - run.begin > 1:
                return None
            if run.varies:
                found.append((n, memory.places[number]))
    return tuple(found)


def _may_overwrite(kernel: Kernel, bindings: Sequence[Any], operand: int) -> bool:
    """Whether a kernel may write one operand over what it reads there."""
    places = [n for n, binding in enumerate(bindings) if binding == operand]
    written = [n for n in places if kernel.parameters[n].attr[2] != "read"]
    return len(written) == 1 and {(n, *written) for n in places if n not in written} <= (
        overwritable(kernel)
    )
