"""Which launches of a program are made together: small ones that do not need each other.

A launch costs a GPU as much as some thousands of elements, and the backward pass of a model has
many that are less: sums for biases, pieces of sums that are joined, copies, products that fill a
part of the device.

Launches are made in the order in which they were recorded, and each takes along what is ready and
fits into its kernel (`joined_launch.Room`).  What nothing needs soon is put off: until something
needs it, another takes it along, or all is done.  What is put off keeps its operands in memory; it
waits only while a program takes no more than in the order of its ops.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pyrite.backend.cube.joined_launch import Room, is_joinable
from pyrite.backend.cube.noted_launch import NotedLaunch
from pyrite.backend.cube.slot import Slot
from pyrite.kernel.machine import Machine

#: A launch is put off if so many more could be between it and what needs it, each needing the one
#: before, without the longest such chain of the program getting longer.
LEAST_SLACK: Final = 2
#: How far ahead it is looked for launches that are ready.
AHEAD: Final = 16
#: Bytes of operands that wait in a processor's caches; what is put off longer is read from memory.
MOST_HELD: Final = 1 << 20
#: What is early or late changes what is in use afterwards.  Where that is too much at some launch,
#: less is changed: only while no more than such a share of the most is in use.
SHARES: Final = (1.0, 0.9, 0.75, 0.5)


def launch_groups(
    launches: Sequence[NotedLaunch], kept: Iterable[Slot], machine: Machine
) -> list[list[int]]:
    """Return positions of launches, in lists of those that are made together, in a legal order.

    ``kept`` are the slots of results.
    """
    alone = [[n] for n in range(len(launches))]
    if machine.most_joined == 1:
        return alone
    numbers = {slot.number for slot in kept}
    most = _Memory(launches, numbers).peak(alone)
    for share in SHARES:
        groups = _Schedule(launches, numbers, machine, int(share * most)).run()
        if _Memory(launches, numbers).peak(groups) <= most:
            return groups
    return alone


class _Schedule:
    """The order that is being made, and what of the old one is put off."""

    def __init__(
        self, launches: Sequence[NotedLaunch], kept: set[int], machine: Machine, most: int
    ) -> None:
        self._launches, self._machine, self._most = launches, machine, most
        self._needs = _needs(launches)
        self._slacks = _slacks(self._needs)
        self._joinable = [is_joinable(launch, machine) for launch in launches]
        self._memory = _Memory(launches, kept)
        self._made: set[int] = set()
        #: Launches that are put off, in the order in which they were recorded.
        self._waiting: list[int] = []
        self._groups: list[list[int]] = []

    def run(self) -> list[list[int]]:
        """Return the groups."""
        for n in range(len(self._launches)):
            if n in self._made:
                continue
            if self._joinable[n] and self._slacks[n] >= LEAST_SLACK:
                self._waiting.append(n)
                while self._holds_too_much():
                    self._make(self._waiting[0])
                continue
            for other in self._waiting_for(n):
                if other not in self._made:
                    self._make(other)
            while self._waiting and not self._memory.takes([n], self._most):
                self._make(self._waiting[0])
            if n not in self._made:
                self._make(n)
        while self._waiting:
            self._make(self._waiting[0])
        return self._groups

    def _holds_too_much(self) -> bool:
        if self._machine.kind != "cpu" or not self._waiting:
            return False
        return self._memory.held_by(self._waiting) > MOST_HELD

    def _waiting_for(self, n: int) -> list[int]:
        """Return what waits of what a launch needs, each after what it needs itself."""
        found: set[int] = set()
        left = [n]
        while left:
            more = [m for m in self._needs[left.pop()] if m not in self._made and m not in found]
            found.update(more)
            left += more
        return sorted(found)

    def _make(self, n: int) -> None:
        """Make a launch, all that it needs being made, and with it what is ready and fits."""
        group = [n]
        if self._joinable[n]:
            room = Room(self._machine)
            room.takes(self._launches[n])
            for other in self._others(n):
                takes = self._memory.takes([*group, other], self._most)
                if takes and room.takes(self._launches[other]):
                    group.append(other)
        self._made.update(group)
        self._waiting = [m for m in self._waiting if m not in self._made]
        self._groups.append(sorted(group))
        self._memory.make(group)

    def _others(self, n: int) -> Iterator[int]:
        """Return what is ready beside a launch: what waits, then what comes next."""
        ahead = range(n + 1, min(n + 1 + AHEAD, len(self._launches)))
        for other in dict.fromkeys([*self._waiting, *ahead]):
            is_left = other != n and other not in self._made and self._joinable[other]
            if is_left and self._needs[other] <= self._made:
                yield other


def _needs(launches: Sequence[NotedLaunch]) -> list[set[int]]:
    """Return of each launch those before it that have to be made first.

    They write what it touches, or touch what it writes.
    """
    writer: dict[int, int] = {}
    readers: dict[int, set[int]] = defaultdict(set)
    found: list[set[int]] = []
    for n, launch in enumerate(launches):
        needs: set[int] = set()
        touched = {slot.number: False for slot, _ in launch.slots}
        for slot, is_written in launch.slots:
            touched[slot.number] |= is_written
        for number, is_written in touched.items():
            if number in writer:
                needs.add(writer[number])
            if is_written:
                needs |= readers.pop(number, set())
                writer[number] = n
            else:
                readers[number].add(n)
        found.append(needs)
    return found


def _slacks(needs: Sequence[set[int]]) -> list[int]:
    """Return how much later each launch could be in the longest chain of needs."""
    before, after = [1] * len(needs), [1] * len(needs)
    for n, of in enumerate(needs):
        before[n] = 1 + max([before[m] for m in of], default=0)
    for n in reversed(range(len(needs))):
        for m in needs[n]:
            after[m] = max(after[m], after[n] + 1)
    longest = max(before, default=0)
    return [longest + 1 - x - y for x, y in zip(before, after, strict=True)]


class _Memory:
    """What of a program's memory is in use, as launches are made in some order."""

    def __init__(self, launches: Sequence[NotedLaunch], kept: set[int]) -> None:
        self._slots = [
            {s.number: s.nbytes for s, _ in launch.slots if s.nbytes} for launch in launches
        ]
        self._kept = kept
        self._left: dict[int, int] = defaultdict(int)
        for slots in self._slots:
            for slot in slots:
                self._left[slot] += 1
        self._begun: set[int] = set()
        self._used = 0

    def takes(self, group: Iterable[int], most: int) -> bool:
        """Whether a group can be made with no more than so many bytes in use."""
        return self._used + sum(self._new(group).values()) <= most

    def _new(self, group: Iterable[int]) -> dict[int, int]:
        """Return the slots that a group begins to use, with their bytes."""
        return {
            slot: nbytes for n in group for slot, nbytes in self._slots[n].items()
            if slot not in self._begun
        }  # fmt: skip

    def make(self, group: Iterable[int]) -> int:
        """Make a group; return the bytes that are in use by it."""
        new = self._new(group)
        self._begun |= new.keys()
        self._used += sum(new.values())
        used = self._used
        for n in group:
            for slot, nbytes in self._slots[n].items():
                self._left[slot] -= 1
                if not self._left[slot] and slot not in self._kept:
                    self._used -= nbytes
        return used

    def held_by(self, waiting: Sequence[int]) -> int:
        """Return the bytes that are in use for nothing but launches that wait."""
        touched: dict[int, int] = defaultdict(int)
        nbytes: dict[int, int] = {}
        for n in waiting:
            nbytes |= self._slots[n]
            for slot in self._slots[n]:
                touched[slot] += 1
        return sum(
            nbytes[slot] for slot, count in touched.items()
            if slot in self._begun and slot not in self._kept and self._left[slot] == count
        )  # fmt: skip

    def peak(self, groups: Iterable[Iterable[int]]) -> int:
        """Make groups; return the most bytes that are in use by one of them."""
        return max([self.make(group) for group in groups], default=0)
