"""Launches of a program done again, later, so that less is in use when most is.

A value that is made early and wanted late is in memory all the time between.  Here it is made anew
before it is wanted, by the kernels that made it: so no bit of it changes.  Nothing here knows a
kernel or a device.

Greedy: at the launch at which most bytes are in use, of the values that only wait there, that is
made again which frees most bytes for the work, with what it takes to make it; and again, until
all fits or nothing helps.  What is made early and wanted late only is made late, which is no work.

Source: Chen et al. 2016, arXiv:1604.06174, for the idea; the rule of choice is that of XLA's
HloRematerialization.  Jain et al. 2020 (Checkmate), arXiv:1910.02653, has the best plan by integer
programming, which takes minutes for some hundred launches.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final

from pyrite.backend.cube.block import Use
from pyrite.backend.cube.in_place import Overwriting, last_of, overwritten, settled_at
from pyrite.backend.cube.launch_schedule import LaunchSchedule, NotedProgram, Occurrence

#: An operand that nobody else wants any more is kept, not made again too, if it has no more than
#: such a part of the bytes that are freed by it.  Both are tried: that of a layer is often less.
SMALL: Final = (1 / 8, 1 / 2)
#: How many values that wait at the fullest launch are tried: is one made again?
TRIED: Final = 16
#: So many times as many launches as there are at first are made at most.
MOST_TIMES: Final = 4


def once(program: NotedProgram) -> LaunchSchedule:
    """Return the launches once, in order."""
    occurrences = tuple([Occurrence(n) for n in range(len(program.effects))])
    schedule = LaunchSchedule(occurrences, program.sizes, {}, 0)
    return replace(schedule, peak=_Look(program, schedule).peak)


def rematerialised(program: NotedProgram, schedule: LaunchSchedule, limit: int) -> LaunchSchedule:
    """Return a schedule of no more than ``limit`` bytes at once, or the least that is found."""
    most = MOST_TIMES * len(program.effects)
    look = _Look(program, schedule)
    while look.peak > limit and len(schedule.calls) < most:
        found = _better(program, schedule, look, limit)
        if found is None:
            break
        schedule, look = found
    return replace(schedule, peak=look.peak)


def _better(
    program: NotedProgram, schedule: LaunchSchedule, look: _Look, limit: int
) -> tuple[LaunchSchedule, _Look] | None:
    """Return a schedule in which less is in use, None where none of those that are tried is."""
    at = look.used.index(look.peak)
    tried = [look.again(slot, at, small) for slot in look.waiting(at) for small in SMALL]
    found = [again for again in tried if again is not None]
    for again in sorted(found, key=lambda x: -x.worth)[:TRIED]:
        other = _with(program, schedule, look, again)
        seen = _Look(program, other)
        if seen.excess(limit) < look.excess(limit):
            return other, seen
    return None


@dataclass(frozen=True, slots=True)
class _Again:
    """Calls, by their places, to be made again before another one; what that frees and takes."""

    places: tuple[int, ...]
    before: int
    saved: int
    work: int
    #: The slots of which a copy is made.
    made: frozenset[int]
    #: What is read in place of an operand: a copy of it that is in memory by then.
    instead: Mapping[int, int]

    @property
    def worth(self) -> float:
        return self.saved / (self.work + 1)


class _Look:
    """What there is to see of a schedule: who touches each slot, and what is in use when."""

    def __init__(self, program: NotedProgram, schedule: LaunchSchedule) -> None:
        self._program, self._calls, self._sizes = program, schedule.calls, schedule.sizes
        calls = schedule.calls
        self._stands_for, self._partial = schedule.stands_for, schedule.partial
        #: For each slot that has copies, all that hold the same.
        self._alike: dict[int, list[int]] = {}
        whole = [x for x in schedule.stands_for.items() if x[0] not in schedule.partial]
        for copy, of in whole:
            self._alike.setdefault(of, [of]).append(copy)
        #: For each slot the places of calls that touch it, and of those that write there.
        self.touched: dict[int, list[int]] = {}
        self.written: dict[int, list[int]] = {}
        #: The slots that each call reads, and those that it writes.
        self._reads: list[Set[int]] = []
        self._writes: list[Set[int]] = []
        for place, call in enumerate(calls):
            effect = program.effects[call.launch]
            self._reads.append(call.of(effect.reads))
            self._writes.append(call.of(effect.writes))
            for slot in self._reads[place] | self._writes[place]:
                self.touched.setdefault(slot, []).append(place)
            for slot in self._writes[place]:
                self.written.setdefault(slot, []).append(place)
        self.used = self._in_use()
        self.peak = max(self.used, default=0)

    def excess(self, limit: int) -> tuple[int, int]:
        """Return what is to become less: the most, and all that is above a limit."""
        return self.peak, sum(max(0, n - limit) for n in self.used)

    def _in_use(self) -> list[int]:
        """Return the bytes in use at each call, where slots lie in each other's places."""
        program, end = self._program, len(self._calls)
        uses = {
            slot: Use(self._sizes[slot], at[0], end if slot in program.results else at[-1])
            for slot, at in self.touched.items()
        }
        renewed, over = self._overwritten(uses)
        changes = [0] * (end + 2)
        joint: dict[int, Use] = {}
        for slot, use in uses.items():
            last = last_of(over, slot)
            if last in renewed or last < program.given:
                continue
            other = joint.get(last, use)
            begin, until = min(use.begin, other.begin), max(use.end, other.end)
            joint[last] = Use(use.nbytes, begin, until)
        for use in joint.values():
            changes[use.begin] += use.nbytes
            changes[use.end + 1] -= use.nbytes
        found, now = [], 0
        for change in changes[:end]:
            now += change
            found.append(now)
        return found

    def _overwritten(self, uses: Mapping[int, Use]) -> tuple[dict[int, int], dict[int, int]]:
        program = self._program
        if not program.in_place:
            return {}, {}
        binds = [_named(program.effects[call.launch].binds, call.names) for call in self._calls]
        settled = settled_at([call.launch for call in self._calls], program.checked)
        return overwritten(
            binds, uses, range(program.given), program.results, program.donated, settled
        )

    def waiting(self, at: int) -> list[int]:
        """Return the slots that are in use at a call which does not touch them."""
        kept = self._program.results
        return [
            slot for slot, places in self.touched.items()
            if slot >= self._program.given and slot not in kept and self._sizes[slot]
            and places[0] < at < places[-1] and at not in places
        ]  # fmt: skip

    def again(self, slot: int, at: int, small: float) -> _Again | None:
        """Return what it takes not to have a slot in memory at a call; None where that is wrong.

        What it is made of is read where it is in memory anyway, or as ``small``, else made again
        too.
        """
        before = min(n for n in self.touched[slot] if n > at)
        places: set[int] = set()
        made: set[int] = set()
        extended: set[int] = set()
        instead: dict[int, int] = {}
        # What is added to has to be made from its beginning.
        left = [(slot, True)]
        while left:
            this, is_begun_anew = left.pop()
            if this in made or (not is_begun_anew and (this in extended or this in instead)):
                continue
            if not is_begun_anew and self._is_kept(this, at, small * self._sizes[slot]):
                extended.add(this)
                continue
            if not is_begun_anew and (copy := self._copy_at(this, before)) is not None:
                instead[this] = copy
                continue
            writers = self.written.get(this, [])
            if not writers or writers[-1] > at or this in self._program.changing:
                return None
            made.add(this)
            for n in writers:
                if not self._is_repeatable(n):
                    return None
                places.add(n)
                left += [(s, s in self._writes[n]) for s in self._reads[n] - made]
        extended -= made
        instead = {old: copy for old, copy in instead.items() if old not in made}
        # What is made beside it.
        beside = {s for n in places for s in self._writes[n]} - self._partial
        beside -= self._program.changing
        made |= {s for s in beside if places.issuperset(self.written[s])}
        saved = sum(self._sizes[s] for s in made if self._is_freed(s, at, before))
        saved -= sum(self._sizes[s] for s in extended if self._is_over(s, at))
        work = sum(
            self._program.effects[self._calls[n].launch].work
            for n in places if not self._is_moved(n, made, before)
        )  # fmt: skip
        again = _Again(tuple(sorted(places)), before, saved, work, frozenset(made), instead)
        return again if saved > 0 else None

    def alike(self, slot: int) -> Sequence[int]:
        """Return the slots that hold what a slot does."""
        return self._alike.get(self._stands_for.get(slot, slot), (slot,))

    def _copy_at(self, slot: int, before: int) -> int | None:
        """Return a slot that holds what another one does, in memory at a call."""
        for copy in self.alike(slot):
            places = self.touched.get(copy)
            if places and self.written[copy][-1] < before <= places[-1]:
                return copy
        return None

    def _is_kept(self, slot: int, at: int, most: float) -> bool:
        """Whether an operand is read where it is, as it is small or in memory anyway."""
        if slot < self._program.given or slot in self._program.results:
            return True
        places = self.touched[slot]
        return places[0] <= at <= places[-1] or self._sizes[slot] <= most

    def _is_over(self, slot: int, at: int) -> bool:
        is_ours = slot >= self._program.given and slot not in self._program.results
        return is_ours and self.touched[slot][-1] < at

    def _is_repeatable(self, place: int) -> bool:
        """Whether a call would give the same later: nobody writes to what it reads."""
        effect = self._program.effects[self._calls[place].launch]
        return effect.is_repeatable and all(
            self.written.get(slot, [-1])[-1] < place
            for slot in self._reads[place] - self._writes[place]
        )

    def _is_freed(self, slot: int, at: int, before: int) -> bool:
        places = self.touched[slot]
        return (
            slot not in self._program.results
            and places[0] < at < places[-1]
            and not any(at <= n < before for n in places)
        )

    def _is_moved(self, place: int, made: Collection[int], before: int) -> bool:
        """Whether a call is in vain once what it writes is made again."""
        return all(
            slot in made and slot not in self._program.results
            and all(n == place or n >= before for n in self.touched[slot])
            for slot in self._writes[place]
        )  # fmt: skip


def _named(binds: Overwriting, names: Mapping[int, int]) -> Overwriting:
    if not names:
        return binds
    slots = tuple([None if s is None else names.get(s, s) for s in binds.slots])
    return Overwriting(slots, binds.pairs)


def _with(
    program: NotedProgram, schedule: LaunchSchedule, look: _Look, again: _Again
) -> LaunchSchedule:
    """Return a schedule with calls made again, and without those that are in vain then."""
    sizes, stands_for = dict(schedule.sizes), dict(schedule.stands_for)
    fresh: dict[int, int] = {}
    for n in again.places:
        call = schedule.calls[n]
        for slot in sorted(call.of(program.effects[call.launch].writes)):
            if slot not in fresh:
                fresh[slot] = new = max(sizes) + 1
                sizes[new] = sizes[slot]
                stands_for[new] = stands_for.get(slot, slot)
    read = {**again.instead, **{old: new for old, new in fresh.items() if old in again.made}}
    repeated = [_repeated(program, schedule.calls[n], read, fresh) for n in again.places]
    # Copies that are made later are not needed any more.
    later = {
        copy: new for old, new in fresh.items() for copy in look.alike(old)
        if old in again.made and copy not in program.results
        and (copy == old or (copy in look.touched and look.touched[copy][0] >= again.before))
    }  # fmt: skip
    after = [
        call if _writes(program, call, later) else _renamed(program, call, later)
        for call in schedule.calls[again.before :]
    ]
    calls = [*schedule.calls[: again.before], *repeated, *after]
    doubtful = {id(schedule.calls[n]) for n in again.places}
    partial = schedule.partial | {new for old, new in fresh.items() if old not in again.made}
    return LaunchSchedule(tuple(_needed(program, calls, doubtful)), sizes, stands_for, 0, partial)


def _writes(program: NotedProgram, call: Occurrence, slots: Mapping[int, int]) -> bool:
    return any(s in slots for s in call.of(program.effects[call.launch].writes))


def _repeated(
    program: NotedProgram, call: Occurrence, read: Mapping[int, int], written: Mapping[int, int]
) -> Occurrence:
    """Return a call made again, by what it reads and writes instead."""
    effect, names = program.effects[call.launch], dict(call.names)
    for slots, instead in ((effect.reads, read), (effect.writes, written)):
        for slot in slots:
            now = call.names.get(slot, slot)
            names[slot] = instead.get(now, now)
    return Occurrence(call.launch, names, is_again=True)


def _renamed(program: NotedProgram, call: Occurrence, instead: Mapping[int, int]) -> Occurrence:
    """Return a call that reads other slots."""
    effect = program.effects[call.launch]
    changed = {s: instead[now] for s in effect.reads if (now := call.names.get(s, s)) in instead}
    return replace(call, names={**call.names, **changed}) if changed else call


def _needed(
    program: NotedProgram, calls: Sequence[Occurrence], doubtful: Collection[int]
) -> list[Occurrence]:
    """Return the calls without those whose results nobody takes any more.

    These are among the ones made again, now or before, and the ``doubtful``, by id.
    """
    wanted = set(program.results)
    found: list[Occurrence] = []
    for call in reversed(calls):
        effect = program.effects[call.launch]
        may_go = call.is_again or id(call) in doubtful
        if may_go and wanted.isdisjoint(call.of(effect.writes)):
            continue
        wanted |= call.of(effect.reads | effect.writes)
        found.append(call)
    return found[::-1]
