"""Kernels that serve many sizes: found by what is left of a problem without its extents.

A family is all problems that differ in extents alone.  Each of its members is a kernel that was
built for one of them with symbols in place of the extents, and serves all for which its guards
hold; so a size that was never seen is a look-up, unless it asks for another member.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyrite.backend.cube.kept import Kept, Written
from pyrite.config import config
from pyrite.content import content_of
from pyrite.kernel import Kernel
from pyrite.kernel.builder.number import exact
from pyrite.kernel.extent import filled, pattern_of, with_extents
from pyrite.recent import KERNELS, Recent
from pyrite.runtime.protocol import Executable
from pyrite.symbol import Argument, Symbols
from pyrite.types import DType, Number

Extents = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """A kernel of a family: for which extents it is, and what it gets of them."""

    executable: Executable
    arguments: tuple[Argument, ...]
    _guard: Callable[..., bool]
    _values: Callable[..., tuple[Any, ...]]

    def serves(self, extents: Extents) -> bool:
        """Whether the kernel is right for a problem of these extents."""
        try:
            return self._guard(*extents)
        except ZeroDivisionError:  # a question that makes no sense for them
            return False

    def bindings(
        self, given: Sequence[Any], extents: Extents, make: Callable[[Number], Any] | None = None
    ) -> list[Any]:
        """Return what is bound, in order: what was given, and numbers made of the extents.

        With ``make`` what that makes of these numbers.
        """
        found = list(given)
        for position, value, dtype in self.numbers(extents):
            number = exact(value, dtype)
            found.insert(position, number if make is None else make(number))
        return found

    def numbers(self, extents: Extents) -> Iterator[tuple[int, Number, DType]]:
        """Give the numbers that it gets of the extents, each with its place and dtype."""
        for argument, value in zip(self.arguments, self._values(*extents), strict=True):
            yield argument.position, value, argument.dtype


class Families:
    """The members of all families, and how a missing one is made."""

    def __init__(self, compile: Callable[[Kernel], Executable], kept: Kept[Written]) -> None:
        self._compile = compile
        self._kept = kept
        self._found: Recent[Hashable, list[Member]] = Recent(KERNELS)
        #: How many members were made.
        self.members = 0

    def found(self, problem: Hashable, key: Hashable, axes: int) -> tuple[Member | None, Extents]:
        """Return the member that serves a problem, if there is one, and the problem's extents."""
        family, extents = _family(problem, key, axes)
        return self.member(family, extents), extents

    def member(self, family: Hashable, extents: Extents) -> Member | None:
        """Return the member of a family that serves a problem of these extents, if there is one."""
        members = self._found.get(family) or []
        return next((m for m in members if m.serves(extents)), None)

    def made(
        self, problem: Hashable, key: Hashable, build: Callable[[Any, int], Kernel], axes: int
    ) -> Member:
        """Return a new member that serves a problem, which nobody has until it is added."""
        family, extents = _family(problem, key, axes)
        kernel, symbols = self._kept.found(
            ("member", family, extents), lambda: _written(problem, extents, build, axes)
        )
        return Member(
            self._compile(kernel), tuple(symbols.arguments), symbols.function(symbols.guard),
            symbols.function(symbols.values),
        )  # fmt: skip

    def add(self, problem: Hashable, key: Hashable, axes: int, member: Member) -> None:
        """Add a member to the family of a problem."""
        family, _ = _family(problem, key, axes)
        members = self._found.get(family)
        if members is None:
            members = []
            self._found.put(family, members)
        members.append(member)
        self.members += 1


def _written(
    problem: Hashable, extents: Extents, build: Callable[[Any, int], Kernel], axes: int
) -> Written:
    """Return the kernel of a problem with symbols for its extents."""
    symbols = Symbols()
    if extents:
        problem = with_extents(problem, iter([symbols.symbol(n) for n in extents]))
    return Written(build(problem, axes), symbols)


def _family(problem: Hashable, key: Hashable, axes: int) -> tuple[Hashable, Extents]:
    """Return what problems of a family share, and the extents of this one."""
    # By content: 0.0 and -0.0, 1 and True are equal, and make other kernels.
    if config.static_sizes:
        pattern, extents = content_of(problem), Extents()
    else:
        pattern, extents = pattern_of(problem)
    return (pattern, content_of(key), axes), extents


class FamiliesInPlaces:
    """The families of problems whose configs vary, by the numbers in these.

    It has their patterns alone: no tensor, nor what writes their kernels.
    """

    def __init__(self, pattern: Any, key: Hashable, axes: int) -> None:
        self._pattern, self._key, self._axes = pattern, content_of(key), axes
        self._families: dict[tuple[Any, ...], Hashable] = {}

    def of(self, numbers: tuple[Any, ...]) -> Hashable:
        """Return the family of a problem with these numbers."""
        found = self._families.get(numbers)
        if found is None:
            found = (filled(self._pattern, numbers), self._key, self._axes)
            self._families[numbers] = found
        return found
