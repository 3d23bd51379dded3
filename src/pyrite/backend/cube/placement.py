"""Where the buffers of a program lie: in one block, in memory of results to come, in storages.

A result has a buffer of its own, for it is let go by itself.  Before it is written its
memory serves what is in use until then.  Nothing here knows a device.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from random import Random
from types import MappingProxyType
from typing import Any, Final

from pyrite.backend.cube.ahead import breathe
from pyrite.backend.cube.block import Use, least_bytes

#: A plan that takes no more than this much of what any one takes is not improved.
NEAR: Final = 1.03
#: Nor one of one op and so many bytes: other orders of twenty buffers take 0.5 ms a new size.
SMALL: Final = 1 << 24
#: Rooms of results have space for so many of the largest tensors; those of storages for fewer, as
#: what is read and written by one launch lies in several.
ROOMS: Final = (2, 8)
STORAGE_ROOMS: Final = (1, 2)
#: What several results have together is no larger than twice that: a device bounds its buffers.
MOST_ROOM: Final = 1 << 26
#: So many orders are drawn, sizes by factors between these.
TRIES: Final = 12
#: A plan beyond that is improved: so many times one use is placed sooner or later; of many uses
#: fewer times, as each time all of them are placed.
FAR: Final = 1.05
MOVES: Final = 100
MOST_PLACED: Final = 20_000
#: What ends beyond so much of the block is highest.
HIGHEST: Final = 0.9
SPREAD: Final = (0.7, 1.4)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a buffer, by its number; that of the block is -1."""

    buffer: int
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Placement:
    """What there is to make, in bytes, and where each use lies: a buffer, or a part of one."""

    sizes: tuple[int, ...]
    block: int
    places: Mapping[int, int | Part]

    @property
    def nbytes(self) -> int:
        """All that there is to make."""
        return sum(self.sizes) + self.block

    def buffer_of(self, name: int) -> int | None:
        """Return the buffer in which a use lies; None of an input."""
        place = self.places.get(name)
        return place.buffer if isinstance(place, Part) else place


#: For each use, those that one launch writes where it reads it, or the other way round.
Apart = Mapping[int, Set[int]]

#: Another plan is taken if it takes no more than that of what the best so far takes.
WORTH_SHARING: Final = 0.99
#: Results share buffers where they are as many and as large.
MOST_ALONE: Final = 8
LEAST_SHARED: Final = 256
#: The block as a buffer.
BLOCK: Final = -1


def in_one_block(
    results: Mapping[int, Use], inner: Mapping[int, Use], alignment: int,
    renewed: Collection[int] = (), *, small: int = 0,
) -> Placement:  # fmt: skip
    """Return results in buffers of their own, all else in a block or where results will be.

    Greedy by size, the largest first, each at the lowest place that is free for as long as it is in
    use; where that is not near the bound, by other orders, some of them drawn, and with those of
    the results that are ``renewed`` in buffers of several, before the block or behind it.
    Source: Pisarchyk & Lee 2020, arXiv:2001.03288, section 5.
    """
    if small:
        first = _packed(_Choice(_alone(results), next(_orders(inner, 0))), inner, alignment)
        if first.nbytes <= small:
            return first
    least = least_bytes([*results.values(), *inner.values()])
    best: Placement | None = None
    chosen = _Choice([], [])
    for tensors in (0, *ROOMS):
        rooms = _alone(results)
        if tensors:
            rooms = _together(results, renewed, tensors * _largest(inner), alignment)
        if tensors and len(rooms) == len(results):
            continue
        for choice in _choices(rooms, inner, TRIES if tensors else 0):
            breathe()
            found = _packed(choice, inner, alignment)
            if best is None or found.nbytes < WORTH_SHARING * best.nbytes:
                best, chosen = found, choice
            if best.nbytes <= NEAR * least:
                return best
    assert best is not None, "there is an order"
    # Each use may leave a gap before the next multiple of the alignment.
    far = int(FAR * least) + alignment * (len(results) + len(inner))
    return _improved(best, chosen, inner, alignment, far)


def _choices(rooms: Sequence[_Room], inner: Mapping[int, Use], tries: int) -> Iterator[_Choice]:
    """Return ways to place uses; where orders are drawn, each with the block first and last."""
    for prefers_rooms in (False, True) if tries else (False,):
        for order in _orders(inner, tries):
            yield _Choice(rooms, order, prefers_rooms)


def _improved(
    best: Placement, choice: _Choice, inner: Mapping[int, Use], alignment: int, far: int
) -> Placement:
    """Return a plan that takes less, where one use is placed sooner or later.

    By turns one that lies highest in the block, sooner, and any one.  What takes as much is kept
    too, as many orders give the same plan.
    """
    random, order = Random(0), choice.order
    for n in range(min(MOVES, MOST_PLACED // len(order)) if order else 0):
        if best.nbytes <= far:
            break
        breathe()
        moved = _moved(order, [] if n % 2 else _highest(best), random)
        found = _packed(replace(choice, order=moved), inner, alignment)
        if found.nbytes <= best.nbytes:
            best, order = found, moved
    return best


def _highest(found: Placement) -> list[int]:
    """Return the uses that end near the end of the block."""
    least = HIGHEST * found.block
    return [n for n, place in found.places.items() if _end_in_block(place) > least]


def _moved(order: Sequence[int], highest: Sequence[int], random: Random) -> list[int]:
    """Return an order with one of the highest, drawn, placed sooner; if there are none, any one."""
    name = random.choice(highest or order)
    at = order.index(name)
    moved = [n for n in order if n != name]
    moved.insert(random.randrange(max(1, at) if highest else len(order)), name)
    return moved


def _end_in_block(place: int | Part) -> int:
    """Return where in the block ends what lies there; 0 of what does not."""
    if not isinstance(place, Part) or place.buffer != BLOCK:
        return 0
    return place.offset + place.nbytes


@dataclass(slots=True)
class _Room:
    """A buffer in which results will be: by offset what is there, and when."""

    size: int
    taken: list[tuple[int, Use]]
    names: list[int]


@dataclass(frozen=True, slots=True)
class _Choice:
    """Rooms of results, in which order uses are placed, and whether in these before the block."""

    rooms: Sequence[_Room]
    order: list[int]
    prefers_rooms: bool = False


def _alone(results: Mapping[int, Use]) -> list[_Room]:
    return [_Room(use.nbytes, [(0, use)], [name]) for name, use in results.items()]


def _largest(uses: Mapping[int, Use]) -> int:
    return max((use.nbytes for use in uses.values()), default=0)


def _together(
    results: Mapping[int, Use], renewed: Collection[int], size: int, alignment: int,
    apart: Apart = MappingProxyType({}),
) -> list[_Room]:  # fmt: skip
    """Return rooms of about a size, each of several results that are renewed.

    Who holds one of them holds the others' memory: so only results that take the places of inputs
    share, parameters and an optimiser's state, which are let go with the next step; and no scalars.
    """
    shared = {n: results[n] for n in renewed if LEAST_SHARED <= results[n].nbytes < size}
    if len(shared) < MOST_ALONE:
        return _alone(results)
    rooms = _alone({n: use for n, use in results.items() if n not in shared})
    room = _Room(0, [], [])
    for name in sorted(shared, key=lambda n: shared[n].begin):
        if room.size >= size or not apart.get(name, frozenset()).isdisjoint(room.names):
            rooms.append(room)
            room = _Room(0, [], [])
        at = -(-room.size // alignment) * alignment
        room.taken.append((at, shared[name]))
        room.names.append(name)
        room.size = at + shared[name].nbytes
    return [*rooms, room]


def _orders(uses: Mapping[int, Use], tries: int) -> Iterator[list[int]]:
    """Return in which orders uses may be placed, so many of them drawn, the same each time."""

    def by(key: Callable[[Use], Any]) -> list[int]:
        return sorted(uses, key=lambda n: key(uses[n]))

    yield by(lambda u: -u.nbytes)
    yield by(lambda u: -u.nbytes * (u.end - u.begin + 1))
    yield by(lambda u: (u.begin - u.end, -u.nbytes))
    yield by(lambda u: (u.begin, -u.nbytes))
    random = Random(0)
    for _ in range(tries):
        yield by(lambda u: -u.nbytes * random.uniform(*SPREAD))


def _packed(choice: _Choice, inner: Mapping[int, Use], alignment: int) -> Placement:
    rooms = choice.rooms
    places = _places_of(rooms)
    taken = {n: list(room.taken) for n, room in enumerate(rooms)}
    taken[BLOCK] = []
    by_size = sorted(range(len(rooms)), key=lambda n: rooms[n].size)
    block = 0
    for name in choice.order:
        use = inner[name]
        buffer, offset = BLOCK, _lowest(use, taken[BLOCK], alignment)
        if choice.prefers_rooms or offset + use.nbytes > block:
            buffer, offset = _in_room(use, by_size, rooms, taken, alignment) or (BLOCK, offset)
        if buffer == BLOCK:
            block = max(block, offset + use.nbytes)
        taken[buffer].append((offset, use))
        is_whole = buffer != BLOCK and rooms[buffer].size == use.nbytes
        places[name] = buffer if is_whole else Part(buffer, offset, use.nbytes)
    return Placement(tuple([room.size for room in rooms]), block, places)


def _in_room(
    use: Use, numbers: Sequence[int], rooms: Sequence[_Room],
    taken: Mapping[int, Sequence[tuple[int, Use]]], alignment: int,
) -> tuple[int, int] | None:  # fmt: skip
    """Return the first room, and the place in it, that has memory for a use."""
    for n in numbers:
        size = rooms[n].size
        if use.nbytes <= size and (at := _lowest(use, taken[n], alignment)) + use.nbytes <= size:
            return n, at
    return None


def _lowest(use: Use, taken: Sequence[tuple[int, Use]], alignment: int) -> int:
    """Return the lowest place that is free for as long as a use lasts."""
    at = 0
    # `Use.meets`, without a call: a program asks it 100,000 times.
    begin, end = use.begin, use.end
    met = [(at, of.nbytes) for at, of in taken if of.begin <= end and begin <= of.end]
    for offset, nbytes in sorted(met):
        if at + use.nbytes <= offset:
            break
        at = max(at, -(-(offset + nbytes) // alignment) * alignment)
    return at


def in_storages(
    results: Mapping[int, Use], inner: Mapping[int, Use], *, is_exact: bool = False,
    renewed: Collection[int] = (), apart: Apart = MappingProxyType({}), alignment: int = 256,
) -> Placement:  # fmt: skip
    """Return each use in a storage, which serves one after the other.

    The largest first, each in the smallest that is free for as long as it is in use; with
    ``is_exact`` in one of its own size.  A launch on a GPU cannot read one part of a storage and
    write another: so none is parted but those of results that are ``renewed``, for several of
    these and for what is done by then, where that takes less.  No two of them are ``apart``.
    """
    best = _in_storages(_alone(results), inner, apart, alignment, is_exact=is_exact)
    for tensors in () if is_exact else STORAGE_ROOMS:
        size = min(tensors * _largest(inner), MOST_ROOM)
        rooms = _together(results, renewed, size, alignment, apart)
        if len(rooms) < len(results):
            found = _in_storages(rooms, inner, apart, alignment)
            if found.nbytes < WORTH_SHARING * best.nbytes:
                best = found
    return best


def _in_storages(
    rooms: Sequence[_Room], inner: Mapping[int, Use], apart: Apart, alignment: int, *,
    is_exact: bool = False,
) -> Placement:  # fmt: skip
    places = _places_of(rooms)
    shared = {n: room for n, room in enumerate(rooms) if len(room.names) > 1}
    smallest = sorted(shared, key=lambda n: shared[n].size)
    taken = {n: list(room.taken) for n, room in shared.items()}
    names = {n: set(room.names) for n, room in shared.items()}
    sizes = [room.size for room in rooms]
    uses = [[use for _, use in room.taken] for room in rooms]
    # A bit for each launch, which tells whether uses meet in a twentieth of the time.
    busy = [reduce(or_, map(_launches, others), 0) for others in uses]
    for name in sorted(inner, key=lambda n: (-inner[n].nbytes, inner[n].begin)):
        use = inner[name]
        allowed = [n for n in smallest if apart.get(name, frozenset()).isdisjoint(names[n])]
        if (part := _in_room(use, allowed, rooms, taken, alignment)) is not None:
            at, offset = part
            taken[at].append((offset, use))
            names[at].add(name)
            places[name] = Part(at, offset, use.nbytes)
            continue
        wanted = _launches(use)
        free = [
            n for n, taken_by in enumerate(busy)
            if not taken_by & wanted
            and n not in shared
            and (sizes[n] == use.nbytes or (sizes[n] > use.nbytes and not is_exact))
        ]  # fmt: skip
        if free:
            at = min(free, key=lambda n: (sizes[n], _gap(use, uses[n])))
        else:
            at = len(sizes)
            sizes.append(use.nbytes)
            uses.append([])
            busy.append(0)
        uses[at].append(use)
        busy[at] |= wanted
        places[name] = at
    return Placement(tuple(sizes), 0, places)


def _places_of(rooms: Sequence[_Room]) -> dict[int, int | Part]:
    """Return where results lie: in a buffer, or a part of one."""
    return {
        name: n if len(room.names) == 1 else Part(n, at, use.nbytes)
        for n, room in enumerate(rooms)
        for name, (at, use) in zip(room.names, room.taken, strict=True)
    }


def _launches(use: Use) -> int:
    """Return the launches of a use, a bit each."""
    return (1 << use.end + 1) - (1 << use.begin)


def _gap(use: Use, others: Sequence[Use]) -> int:
    """Return how many launches lie between a use and the nearest in a storage."""
    return min((max(o.begin - use.end, use.begin - o.end) for o in others), default=0)
