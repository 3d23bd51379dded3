"""What could make a program's results wrong: an index outside, before it or in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol

from pyrite.backend.compiling import Sites
from pyrite.backend.cube.fault import AnyDoubt, Doubt, joined
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.recording import Recording
from pyrite.backend.cube.tensor import DOUBTS, CubeTensor
from pyrite.columns import chooser, distinct
from pyrite.op import user_location

#: Sets of inputs in doubt of which a program keeps what they reach.
MOST_KEPT: Final = 8


@dataclass(frozen=True, slots=True)
class Reach:
    """What could make a result wrong: inputs, a bit for each position, and checked launches."""

    inputs: int
    faults: tuple[int, ...]


class Doubts:
    """The doubts of a program's results, by what reaches each.

    Which results are in doubt of the same is found out once for the inputs that are in doubt: these
    are the same ones at each step of a training.
    """

    __slots__ = ("_groups", "_reaches")

    def __init__(self, reaches: Sequence[Reach]) -> None:
        self._reaches = tuple(reaches)
        #: By which doubt each input is in, and the numbers of the doubts, None for those of what is
        #: sound.
        self._groups: dict[tuple[int, ...], dict[tuple[int | None, ...], _Groups]] = {}

    def of(
        self, inputs: Sequence[CubeTensor], doubts: Sequence[Doubt]
    ) -> Sequence[AnyDoubt | None]:
        """Return the doubt of each result: one object for all that the same could make wrong.

        ``doubts`` are those of checked launches.
        """
        # Few as a rule: most inputs of a step are results of the one before, in doubt of the same.
        return self.of_distinct(*distinct(DOUBTS.read(inputs)), doubts)

    def of_distinct(
        self, own: Sequence[AnyDoubt | None], places: tuple[int, ...], doubts: Sequence[Doubt],
        known: dict[tuple[int | None, ...], _Groups] | None = None,
    ) -> Sequence[AnyDoubt | None]:  # fmt: skip
        """Do what `of` does, given the different doubts of inputs, and which is each input's.

        ``known`` is what is known of these places, where who asks keeps that.
        """
        given: list[AnyDoubt] = []
        numbers: list[int | None] = []
        for doubt in own:
            is_open = doubt is not None and (doubt.is_open or doubt.failure is not None)
            numbers.append(len(given) if is_open else None)
            if doubt is not None and is_open:
                given.append(doubt)
        if not (given or doubts):
            return [None] * len(self._reaches)
        if known is None:
            if len(self._groups) >= MOST_KEPT and places not in self._groups:
                self._groups.clear()
            known = self._groups.setdefault(places, {})
        groups = known.get(key := tuple(numbers))
        if groups is None:
            if len(known) >= MOST_KEPT:
                known.clear()
            of_inputs = [numbers[place] for place in places]
            groups = known[key] = _Groups.of(self._reaches, of_inputs, len(given))
        found = [_doubt(which, faults, given, doubts) for which, faults in groups.kinds]
        return groups.choose(found)


class Checked(Protocol):
    """What of a program is needed to check its launches: `CubeProgram`."""

    @property
    def launcher(self) -> Launcher:
        """Where it runs."""
        ...

    @property
    def recording(self) -> Recording:
        """What it does."""
        ...

    @property
    def origins(self) -> tuple[int, ...]:
        """Of each fault the node."""
        ...


def checked(
    program: Checked, faults: Sequence[int], sites: Sites, run: Callable[[list[Any]], None]
) -> list[Doubt]:
    """Run launches of a program that may find an index outside; return the doubts of these faults.

    ``run`` is given a word and a number for each.  Lines are asked for behind it: who waits for the
    launches waits for no lines.
    """
    if not faults:
        run([])
        return []
    messages = program.recording.faults
    doubts = program.launcher.faults.launch_all([(messages[n], "") for n in faults], [], run)
    for n, doubt in zip(faults, doubts, strict=True):
        doubt.location = sites.get(program.origins[n]) or user_location()
    return doubts


class _Groups(NamedTuple):
    """Results that are in doubt of the same.

    ``kinds`` are the numbers of doubts, of inputs and of checked launches; ``choose`` gives each
    result what is its own among as many as these.
    """

    kinds: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    choose: Callable[[Any], Sequence[Any]]

    @classmethod
    def of(cls, reaches: Sequence[Reach], given: Sequence[int | None], count: int) -> _Groups:
        """Return those of results, given the number of each input's doubt, of so many."""
        bits = [0] * count
        for position, number in enumerate(given):
            if number is not None:
                bits[number] |= 1 << position
        kinds: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
        places: list[int] = []
        for reach in reaches:
            which = tuple([n for n, its in enumerate(bits) if its & reach.inputs])
            places.append(kinds.setdefault((which, reach.faults), len(kinds)))
        return cls(tuple(kinds), chooser(places))


def _doubt(
    which: Sequence[int],
    faults: Sequence[int],
    given: Sequence[AnyDoubt],
    doubts: Sequence[Doubt],
) -> AnyDoubt | None:
    found: AnyDoubt | None = None
    for n in which:
        found = joined(found, given[n])
    of = [doubts[n] for n in faults]
    if len(of) > 1 and all([doubt.is_open and doubt.word is of[0].word for doubt in of]):
        # So are most of one run, of which `joined` would say the later of each two.
        of = [max(of, key=_number)]
    for doubt in of:
        found = joined(found, doubt)
    return found


_number: Final = attrgetter("number")
