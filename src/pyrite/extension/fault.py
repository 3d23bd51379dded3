"""What a kernel says of a check that failed, or of an index outside: with the place, if known."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pyrite.backend.cube.fault import CheckFault
from pyrite.extension.problem import Member
from pyrite.extension.reporting import Check, noted_invocation
from pyrite.op import Op
from pyrite.types import Shape

#: From the number of an invocation to its place, in words.
Places = Callable[[int], str]


def faults_of(kernel: str, op: Op, member: Member, places: Places) -> list[str]:
    """Return what is said of each failure that a compiled kernel knows."""
    return [
        _fault(kernel, op, member, failure, position, places)
        for position, failure in enumerate(member.failures)
    ]


def _fault(
    kernel: str, op: Op, member: Member, failure: Check | None, position: int, places: Places
) -> str:
    if failure is not None:

        def where(note: int) -> str:
            number = noted_invocation(note, position)
            return "" if number is None else f", {places(number)}"

        return CheckFault(f"{failure.message}, in kernel '{kernel}'", failure.location, where)
    return (
        f"{op.name} requires every index of {', '.join(member.tested)} in its kernel '{kernel}' "
        "to be inside, got one outside; read by x.get(i, j), which is 0 there, and write under an "
        "if"
    )


def element_places(points: Shape) -> Places:
    """Return the places of invocations of which each makes an element of a shape."""
    return lambda number: f"element {places_in(points, number)}"


def invocation_places(sizes: Shape, counts: Sequence[int] | None) -> Places:
    """Return the places of invocations of workgroups, of which there are ``counts``, if known."""

    def place(number: int) -> str:
        group, local = divmod(number, math.prod(sizes))
        known = None if counts is None else tuple(counts)[::-1]
        where = str(group) if known is None else str(places_in(known, group)[::-1])
        return f"invocation {places_in(sizes[::-1], local)[::-1]} of workgroup {where}"

    return place


def places_in(sizes: Shape, number: int) -> Shape:
    """Return the coordinates of the element of a number in row-major order.

    >>> places_in((2, 3), 4)
    (1, 1)
    """
    found: list[int] = []
    for size in reversed(sizes):
        number, place = divmod(number, max(size, 1))
        found.insert(0, place)
    return tuple(found)
