"""Launches of a program in an order in which some are made again, on slots of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from pyrite.backend.cube.in_place import Overwriting


@dataclass(frozen=True, slots=True)
class LaunchEffect:
    """What a launch does: the slots that it reads and writes, and how long it takes.

    ``work`` is in bytes that could be moved meanwhile.  One that is not ``repeatable`` may give
    something else the next time.
    """

    binds: Overwriting
    reads: frozenset[int]
    writes: frozenset[int]
    work: int
    is_repeatable: bool


@dataclass(frozen=True, slots=True, eq=False)
class Occurrence:
    """A launch, by its number, on slots that stand for its own."""

    launch: int
    names: Mapping[int, int] = field(default_factory=dict)
    is_again: bool = False

    def of(self, slots: Set[int]) -> Set[int]:
        """Return the slots that stand for some of the launch's own."""
        names = self.names
        return {names.get(s, s) for s in slots} if names else slots


@dataclass(frozen=True, slots=True)
class LaunchSchedule:
    """Calls in order; ``sizes`` are the bytes of slots, ``stands_for`` says whose copy each is.

    ``peak`` are the most bytes that are in use at one of them.  Nobody reads the ``partial``
    copies, of slots that several launches write.
    """

    calls: tuple[Occurrence, ...]
    sizes: Mapping[int, int]
    stands_for: Mapping[int, int]
    peak: int
    partial: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class NotedProgram:
    """The launches of a program, and the slots that are not its own to reuse.

    Slots below ``given`` are inputs, whose memory is not counted; results take that of the
    ``donated``, by their bytes, once all launches that are ``checked`` for indices are made.
    """

    effects: Sequence[LaunchEffect]
    sizes: Mapping[int, int]
    given: int
    results: frozenset[int]
    donated: Mapping[int, int]
    checked: frozenset[int]
    in_place: bool
    #: Slots that are written again after somebody has read them: they hold several values.
    changing: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        read: set[int] = set()
        changing: set[int] = set()
        for effect in self.effects:
            changing |= effect.writes & read
            read |= effect.reads - effect.writes
        object.__setattr__(self, "changing", frozenset(changing))
