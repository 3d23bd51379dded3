"""The memory of what was recorded: which slots take that of others, and where each lies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from pyrite.backend.cube.block import Use
from pyrite.backend.cube.guard import guarding
from pyrite.backend.cube.in_place import Overwriting, last_of, overwritten
from pyrite.backend.cube.noted_launch import NotedLaunch, overwriting
from pyrite.backend.cube.placement import Part, Placement, in_one_block, in_storages
from pyrite.backend.cube.slot import Slot
from pyrite.runtime.protocol import Runtime
from pyrite.types import TensorType

#: Fewer buffers than that are made one by one.
LEAST_PARTS = 3
#: A block is made where all takes less than that of what it takes otherwise.
WORTH_A_BLOCK = 0.95
#: A launch that writes over nothing.
_KEEPING = Overwriting((), frozenset())


@dataclass(frozen=True, slots=True)
class RecordedSlots:
    """Slots that want a place, and the launches that read and write them.

    The first ``given`` slots are inputs; ``results`` are slots by number.  Inputs that are
    ``donated``, by their bytes, are written over by launches from ``settled`` on.
    """

    runtime: Runtime
    slots: Sequence[Slot]
    given: int
    launches: Sequence[NotedLaunch]
    results: tuple[int, ...]
    donated: Mapping[int, int]
    settled: int
    #: The types of inputs: a result of one is what a step of training renews.
    types: Set[TensorType]
    #: Whether results may share buffers, which lie idle when some of them are let go.
    shares_rooms: bool
    #: For no more bytes than that the first plan is taken: see `in_one_block`.
    small: int


class RecordedMemory:
    """Where the slots of launches lie."""

    __slots__ = (
        "found", "launches", "parts", "placement", "places", "renewed", "split", "uses", "wanted"
    )  # fmt: skip

    def __init__(self, wanted: RecordedSlots) -> None:
        self.wanted = wanted
        #: The launches, on the slots that stand for those whose memory they take.
        self.launches = wanted.launches
        #: Results that take the memory of inputs, and the first launch that writes over one.
        self.renewed: dict[int, int] = {}
        self.split = 0
        #: Slots whose memory another one takes when they are read last, and which.
        self.found: dict[int, int] = {}
        #: When slots are in use.
        self.uses: Mapping[int, Use] = self._overwrite()
        self.placement = self._placed()
        #: Which operand each slot is, and the parts of buffers among these.
        self.places, self.parts = self._operands()

    def standing(self, number: int) -> Slot:
        """Return the slot of which a slot has the memory."""
        found = last_of(self.found, number)
        return self.wanted.slots[self.renewed.get(found, found)]

    @property
    def inner_buffers(self) -> list[int]:
        """The buffers in which no result lies."""
        outer = {self.placement.buffer_of(self.standing(n).number) for n in self.wanted.results}
        return [n for n in range(len(self.placement.sizes)) if n not in outer]

    def _overwrite(self) -> Mapping[int, Use]:
        """Have slots that are read last where others are written be those, where that is right.

        Not where a touch past the end of one is to be found, nor on a GPU, where a launch cannot
        read and write one buffer by two bindings.  Returns when slots are in use after that.
        """
        wanted, uses = self.wanted, self._uses()
        if not is_overwritten(wanted.runtime):
            return uses
        if not wanted.donated and not any([of.writes_once for of in wanted.launches]):
            return uses
        made = range(wanted.given, len(wanted.slots))
        if not wanted.donated and {*wanted.results}.issuperset(made):
            return uses  # there is nothing but inputs and results
        ways = [overwriting(of) if of.writes_once else _KEEPING for of in wanted.launches]
        self.renewed, self.found = overwritten(
            ways, uses, range(wanted.given), {*wanted.results}, wanted.donated, wanted.settled
        )
        self.split = min([uses[new].begin for new in self.renewed], default=0)
        if not self.found and not self.renewed:
            return uses
        launches: list[NotedLaunch] = []
        for of, like in with_likes(wanted.launches):
            bindings = [self.standing(b.number) if b.__class__ is Slot else b for b in of.bindings]
            before = None if like is None else launches[-1]
            launches.append(of.binding(bindings, like=before))
        self.launches = launches
        return self._joined(uses)

    def _joined(self, uses: Mapping[int, Use]) -> dict[int, Use]:
        """Return when slots are in use that stand for others."""
        joined: dict[int, Use] = {}
        for number, use in uses.items():
            standing = self.standing(number)
            before = joined.get(standing.number, use)
            joined[standing.number] = Use(
                standing.nbytes, min(before.begin, use.begin), max(before.end, use.end)
            )
        return joined

    def _uses(self) -> dict[int, Use]:
        """Return the first and last launch of each slot, by its number."""
        launches, slots = self.wanted.launches, self.wanted.slots
        uses: dict[int, tuple[int, int]] = {}
        runs = [n for n, (_, like) in enumerate(with_likes(launches)) if like is None]
        for begin, after in zip(runs, [*runs, len(launches)][1:], strict=True):
            end = after - 1
            for b in launches[begin].bindings:
                if b.__class__ is Slot:
                    uses[b.number] = (uses[b.number][0] if b.number in uses else begin, end)
        for n in self.wanted.results:
            uses[n] = (uses.get(n, (0, 0))[0], len(launches))
        return {n: Use(slots[n].nbytes, *use) for n, use in uses.items()}

    def _placed(self) -> Placement:
        """Return where each slot lies that is not an input's.

        Results of an input's type are what a step of training renews.  What is no result's is in
        one block where that takes less; on a GPU no launch may read and write one buffer.
        """
        wanted = self.wanted
        made = {n: use for n, use in self.uses.items() if n >= wanted.given}
        names = dict.fromkeys([self.standing(n).number for n in wanted.results])
        outer = {n: made[n] for n in names if n in made}
        inner = {n: use for n, use in made.items() if n not in outer}
        runtime, guard = wanted.runtime, guarding(wanted.runtime)
        slots = wanted.slots
        renewed = [n for n in outer if wanted.shares_rooms and slots[n].type in wanted.types]
        apart = in_storages(
            outer, inner, is_exact=guard is not None, renewed=() if runtime.is_host else renewed,
            apart={} if runtime.is_host else self._read_and_written(),
            alignment=runtime.alignment,
        )  # fmt: skip
        if len(inner) < LEAST_PARTS or not runtime.is_host or guard is not None:
            return apart
        blocked = in_one_block(outer, inner, runtime.alignment, renewed=renewed, small=wanted.small)
        return blocked if blocked.nbytes < WORTH_A_BLOCK * apart.nbytes else apart

    def _read_and_written(self) -> dict[int, set[int]]:
        """Return of each slot those that a launch writes and it reads, or the other way round."""
        found: dict[int, set[int]] = {}
        for launch in self.launches:
            touched = [(slot.number, is_written) for slot, is_written in launch.slots]
            for n, is_written in touched:
                others = [m for m, other in touched if other is not is_written]
                found.setdefault(n, set()).update(others)
        return found

    def _operands(self) -> tuple[dict[int, int], list[Part]]:
        """Return which operand each slot is, and the parts of buffers among them.

        The inputs' are first, then the buffers, then the parts.
        """
        given, placement = self.wanted.given, self.placement
        places = {n: n for n in range(given)}
        numbers: dict[Part, int] = {}
        first = given + len(placement.sizes)
        for name, place in placement.places.items():
            if isinstance(place, Part):
                places[name] = first + numbers.setdefault(place, len(numbers))
            else:
                places[name] = given + place
        return places, [*numbers]


def with_likes(
    launches: Sequence[NotedLaunch],
) -> Iterator[tuple[NotedLaunch, NotedLaunch | None]]:
    """Give launches, each with the one before it where only numbers differ."""
    before: NotedLaunch | None = None
    for of in launches:
        yield of, None if of.like is not before else before
        before = of


def is_overwritten(runtime: Runtime) -> bool:
    """Whether a launch may write over what it reads."""
    return runtime.is_host and guarding(runtime) is None
