"""What could make a program's results wrong: an index outside, before it or in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

from pyrite.backend.cube.fault import AnyDoubt, joined
from pyrite.backend.cube.tensor import CubeTensor


@dataclass(frozen=True, slots=True)
class Reach:
    """What could make a result wrong: inputs, a bit for each position, and checked launches."""

    inputs: int
    faults: tuple[int, ...]


class Doubts:
    """The doubts of a program's results, by what reaches each.

    Most results are reached by the same few: of these the doubt is found out once in a run.
    """

    __slots__ = ("_common", "_faults", "_of_faults", "_reaches")

    def __init__(self, reaches: Sequence[Reach]) -> None:
        self._reaches = tuple(reaches)
        #: The inputs that reach every result, as all results of a step of training are.
        self._common = reduce(and_, [reach.inputs for reach in reaches], -1)
        kinds = {reach.faults: None for reach in reaches}
        self._faults = tuple(kinds)
        #: Of each result which of these it is.
        places = {faults: n for n, faults in enumerate(kinds)}
        self._of_faults = tuple([places[reach.faults] for reach in reaches])

    def of(
        self, given: Sequence[tuple[AnyDoubt, int]], doubts: Sequence[AnyDoubt]
    ) -> Sequence[AnyDoubt | None]:
        """Return the doubt of each result: one object for all that the same could make wrong.

        ``given`` are those of inputs, by `doubts_of`, and ``doubts`` those of checked launches.
        """
        if not (given or doubts):
            return [None] * len(self._reaches)
        common = self._common
        if not all([bits & common for _, bits in given]):
            return self._each(given, doubts)
        found = [_doubt(common, faults, given, doubts) for faults in self._faults]
        return [found[n] for n in self._of_faults]

    def _each(
        self, given: Sequence[tuple[AnyDoubt, int]], doubts: Sequence[AnyDoubt]
    ) -> list[AnyDoubt | None]:
        found: dict[Any, AnyDoubt | None] = {}
        each: list[AnyDoubt | None] = []
        for reach in self._reaches:
            key = (reach.faults, *[bits & reach.inputs != 0 for _, bits in given])
            if key not in found:
                found[key] = _doubt(reach.inputs, reach.faults, given, doubts)
            each.append(found[key])
        return each


def doubts_of(inputs: Sequence[Any]) -> list[tuple[AnyDoubt, int]]:
    """Return the doubts among inputs, few as a rule, each with a bit for each position.

    What is known to be sound is left out.
    """
    own = [x.doubt if x.__class__ is CubeTensor else None for x in inputs]
    # Most inputs of a step are results of the one before, in doubt of the same.
    found = {
        id(doubt): (doubt, 0)
        for doubt in dict.fromkeys(own)
        if doubt is not None and (doubt.is_open or doubt.failure is not None)
    }
    if found:
        for position, doubt in enumerate(own):
            if doubt is not None and (known := found.get(id(doubt))) is not None:
                found[id(doubt)] = doubt, known[1] | 1 << position
    return [*found.values()]


def _doubt(
    inputs: int,
    faults: Sequence[int],
    given: Sequence[tuple[AnyDoubt, int]],
    doubts: Sequence[AnyDoubt],
) -> AnyDoubt | None:
    found: AnyDoubt | None = None
    for doubt, bits in given:
        if bits & inputs:
            found = joined(found, doubt)
    for n in faults:
        found = joined(found, doubts[n])
    return found
