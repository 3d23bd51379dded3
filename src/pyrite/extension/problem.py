"""What a kernel of an application is compiled for, and the numbers that it gets at each launch.

Sizes, strides and counts of workgroups of two or more, and the numbers among the attributes, are
symbols while the kernel is written (`pyrite.symbol`).  So one kernel serves all of them that
give the same answers to what the function asks (docs/design/0030).  The sizes that come first have
a kernel in which they are built in: it is the faster one, and most programs have no others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pyrite.backend.cube.custom import Call
from pyrite.backend.cube.launcher import Given
from pyrite.backend.cube.layout import is_row_major
from pyrite.backend.cube.operand import Layout
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.config import config
from pyrite.extension.printing import Prints
from pyrite.extension.reporting import Check
from pyrite.extension.scope import KernelScope
from pyrite.kernel.builder import exact
from pyrite.kernel.builder.number import ENDS, arguments
from pyrite.kernel.extent import SOME
from pyrite.op import Attributes, attributes_key
from pyrite.op.launch_number import (
    Path,
    is_number,
    is_settings,
    number_at,
    numbers_among,
    vars_of,
    with_numbers,
    without_numbers,
)
from pyrite.runtime.protocol import Executable
from pyrite.symbol import LEAST, Argument, Symbols
from pyrite.types import Number, Shape

Numbers = tuple[Number, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """A call: what its kernel depends on, and its numbers: extents, then attributes.

    The last ``counts`` extents are all counts of workgroups: one is no other problem than several.
    """

    pattern: Hashable
    extents: Shape
    attributes: Numbers
    paths: tuple[Path, ...]
    counts: int = 0

    @property
    def numbers(self) -> Numbers:
        """All numbers."""
        return self.extents + self.attributes

    @property
    def classes(self) -> dict[Path, type]:
        """The classes of the numbers among the attributes."""
        return {path: type(n) for path, n in zip(self.paths, self.attributes, strict=True)}

    @property
    def exact(self) -> Hashable:
        """What tells the numbers from all others: 0.0 equals -0.0."""
        zeros = [math.copysign(1.0, n) for n in self.attributes if n == 0]
        return (self.extents, self.attributes, *zeros)


def problem_of(
    call: Call, grid: Shape, static: frozenset[str], *, is_by_grid: bool = True
) -> Problem:
    """Return the problem of a call; attributes that are ``static`` are part of its pattern.

    Without a grid of the kernel's own nobody asks how many workgroups there are.
    """
    split = _whole if config.static_sizes else _split
    patterns: list[Any] = []
    extents: list[int] = []
    for tensor in call.tensors:
        if tensor is None:
            patterns.append(None)
            continue
        pattern, found = split(tensor.shape, tensor.strides)
        patterns.append((tensor.dtype, tensor.offset != 0, pattern))
        extents += found
    counts, found = split(grid, None, LEAST if is_by_grid else 1)
    paths = numbers_among(call.attrs, static)
    rest = without_numbers(call.attrs, paths)
    numbers = tuple([number_at(call.attrs, path) for path in paths])
    pattern = (
        tuple(patterns), counts, attributes_key(call.op, rest),
        tuple([(path, type(v)) for path, v in zip(paths, numbers, strict=True)]),
    )  # fmt: skip
    return Problem(
        pattern, (*extents, *found), numbers, paths, counts=0 if is_by_grid else len(found)
    )


def call_key(call: Call, grid: Shape, static: frozenset[str]) -> Hashable | None:
    """Return what tells a call from others that differ in more than numbers given at launch.

    It is made of what is at hand, and None where that takes a closer look: other objects than
    numbers and texts may change.
    """
    parts: list[Hashable] = [call.op, grid, config.static_sizes]
    for tensor in call.tensors:
        if tensor is None:
            parts.append(None)
        else:
            parts += (tensor.type, tensor.strides, tensor.offset == 0)
    kind: Any
    for name, value in call.attrs.items():
        kind = type(value)
        if kind not in _PLAIN and is_settings(value):
            parts.append(("settings", kind))
            found: tuple[Any, ...] = tuple(vars_of(value).values())
        else:
            found = (value,)
        for each in found:
            kind = type(each)
            if name not in static and is_number(each):
                parts.append(kind)
            elif kind not in _PLAIN or (kind is float and each == 0.0):
                return None  # zeros are equal, and not the same
            else:
                parts.append((kind, each))
    return tuple(parts)


_PLAIN = frozenset((int, float, bool, str, type(None)))


@lru_cache(maxsize=4096)
def _split(shape: Shape, strides: Shape | None, least: int = LEAST) -> tuple[Hashable, Shape]:
    """Return what is left of sizes and strides without those of two or more, and these in order.

    Strides in row-major order are made of the sizes.
    """
    is_dense = strides is None or is_row_major(shape, strides)
    given = shape if is_dense or strides is None else (*shape, *strides)
    pattern = tuple([SOME if n >= least else n for n in given])
    return (len(shape), pattern), tuple([n for n in given if n >= least])


def _whole(shape: Shape, strides: Shape | None, least: int = LEAST) -> tuple[Hashable, Shape]:
    return (shape, strides), ()


class Known:
    """The sizes of a call as a kernel sees them: numbers, or symbols in the order of `Problem`."""

    def __init__(self, symbols: Symbols, problem: Problem, *, are_known: bool) -> None:
        self._are_known = are_known or config.static_sizes
        self._least_count = 1 if problem.counts else LEAST
        sizes = len(problem.extents) - problem.counts
        made = [
            symbols.symbol(n, LEAST if position < sizes else 1)
            for position, n in enumerate(problem.extents)
        ]
        self._symbols: Iterator[Any] = iter(made)
        numbers = [symbols.number(n) for n in problem.attributes]
        self._numbers = dict(zip(problem.paths, numbers, strict=True))

    def attributes(self, attrs: Attributes) -> dict[str, Any]:
        """Return attributes with symbols in the places of numbers."""
        return with_numbers(attrs, self._numbers)

    def tensor(self, tensor: CubeTensor) -> tuple[tuple[Any, ...], Layout]:
        """Return the shape and the layout of a tensor."""
        shape, has_offset = self.counts(tensor.shape), tensor.offset != 0
        if not is_row_major(tensor.shape, tensor.strides):
            return shape, Layout(tensor.dtype, self.counts(tensor.strides), has_offset)
        strides = tensor.strides if self._are_known else _row_major(shape)
        # Of use to who knows how long a row is.
        row = tensor.shape[-1] if tensor.shape and not has_offset else 1
        return shape, Layout(tensor.dtype, strides, has_offset, row)

    def workgroups(self, grid: Shape) -> tuple[Any, ...]:
        """Return the counts of workgroups."""
        return self.counts(grid, self._least_count)

    def counts(self, numbers: Sequence[int], least: int = LEAST) -> tuple[Any, ...]:
        """Return sizes, strides, or other counts from the least on."""
        if self._are_known:
            return tuple(numbers)
        return tuple([next(self._symbols) if n >= least else n for n in numbers])


def _row_major(shape: Sequence[Any]) -> tuple[Any, ...]:
    strides: list[Any] = []
    step: Any = 1
    for size in reversed(shape):
        strides.insert(0, step)
        step = step * size
    return tuple(strides)


@dataclass(frozen=True, slots=True)
class Member:
    """A compiled kernel: which numbers it serves, and what it gets of them.

    If anything may fail, an error word and a number for each of ``failures`` come after the
    tensors; ``tested`` are the tensors of which an index may be outside.
    """

    executable: Executable
    tested: tuple[str, ...]
    failures: tuple[Check | None, ...]
    prints: Prints
    arguments: tuple[Argument, ...]
    _guard: Callable[..., bool]
    _values: Callable[..., Numbers]
    _symbols: Symbols

    @classmethod
    def of(cls, executable: Executable, scope: KernelScope, symbols: Symbols) -> Member:
        """Return the kernel that was written in a scope with symbols."""
        return cls(
            executable, tuple(scope.tested), tuple(scope.failures), scope.prints,
            tuple(symbols.arguments), symbols.function(symbols.guard),
            symbols.function(symbols.values), symbols,
        )  # fmt: skip

    def serves(self, numbers: Numbers) -> bool:
        """Whether the kernel is right for these numbers."""
        try:
            return bool(self._guard(*numbers))
        except ArithmeticError:  # a question that makes no sense for them
            return False

    def giving(self, extents: Shape, numbers: Mapping[Path, type]) -> Given:
        """Return what gives the arguments of calls of these extents, in order.

        ``numbers`` are the classes of those among the attributes.  It raises what `given` does.
        """
        places = [
            (f"given[{name!r}]" + (f".{of}" if of else ""), kind)
            for (name, of), kind in numbers.items()
        ]
        values_of, at_once = self._symbols.given(extents, places, ENDS)
        dtypes = [argument.dtype for argument in self.arguments]

        def given(attrs: Attributes) -> Sequence[Number] | None:
            if at_once is not None:
                found: Sequence[Number] | None = at_once(attrs)
                if found is not None:
                    return found
            try:
                values = values_of(attrs)
            except ArithmeticError:  # a question that makes no sense for them
                return None
            return None if values is None else arguments(values, dtypes)

        return given

    def given(self, numbers: Numbers) -> list[tuple[int, Number]]:
        """Return the arguments and where they stand, in order.

        Raises KernelError for a number that an argument does not hold.
        """
        values = self._values(*numbers)
        return [
            (argument.position, exact(value, argument.dtype))
            for argument, value in zip(self.arguments, values, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Served:
    """A compiled kernel for calls that differ in numbers among their attributes alone."""

    member: Member
    faults: Sequence[str]
    extents: Shape
    #: The numbers among its attributes, and their classes.
    numbers: Mapping[Path, type]

    def arguments(self, attrs: Attributes) -> list[tuple[int, Number]] | None:
        """Return the numbers of a call and where they stand; None where it is of another kernel."""
        numbers = (*self.extents, *[number_at(attrs, path) for path in self.numbers])
        return self.member.given(numbers) if self.member.serves(numbers) else None


class Family:
    """The kernels of one pattern: with the first sizes built in, and for all others."""

    def __init__(self) -> None:
        self._first: Shape | None = None
        self._members: dict[bool, list[Member]] = {True: [], False: []}

    def found(self, problem: Problem) -> Member | None:
        """Return the kernel that serves a problem, if there is one."""
        for member in self._members[self._is_first(problem)]:
            if member.serves(problem.numbers):
                return member
        return None

    def made(self, problem: Problem, make: Callable[[bool], Member]) -> Member:
        """Return a kernel for a problem; ``make`` makes it, with known sizes or not."""
        is_first = self._is_first(problem)
        made = make(is_first)
        self._members[is_first].append(made)
        return made

    def _is_first(self, problem: Problem) -> bool:
        if self._first is None:
            self._first = problem.extents
        return self._first == problem.extents
