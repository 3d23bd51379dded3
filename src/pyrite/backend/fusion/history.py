"""What was recorded before, as a tree: a call that comes again after the same calls is looked up.

A call of the tree stands for all calls up to it.  So what follows from them, the numbers of values,
types, and the programs, is found out once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyrite.backend.compiling import HeadStart, Program
from pyrite.backend.fusion.last_run import Given, LastRun
from pyrite.backend.graph import Graph, Input, Literal, Node, content_of_node
from pyrite.op import Op, Plan
from pyrite.types import TensorType

#: Calls that begin so are noted until they were new so many times; then one in so many times, or as
#: many more as a quarter of the times that there were, up to a last number.
MOST_MISSES, SELDOM, SELDOMEST = 4, 32, 1024
#: What begins as a program, and went on otherwise so many times in a row, is not recorded any more.
MOST_STRAYS = 4
#: Of so many calls that begin alike it is known how they went on.
MOST_TRAILS = 8


@dataclass(frozen=True, slots=True)
class Number:
    """A number of pending calls, by its position among them, with the dtype that it takes."""

    position: int
    type: TensorType


#: What an op is applied to: a result from 0 on, an input from -1 down, a number, or nothing.
Operand = int | Number | Literal | None


@dataclass(slots=True, eq=False)
class Call:
    """A call after the calls before it.  The first call of all has no op."""

    before: Call | None = None
    op: Op | None = None
    plan: Plan | None = None
    #: The types of its results.
    types: tuple[TensorType, ...] = ()
    operands: tuple[Operand, ...] = ()
    #: How many calls, inputs, results and numbers there are, this one's included.
    count: int = 0
    inputs: int = 0
    results: int = 0
    numbers: int = 0
    #: Whether the user's line is to be noted: of what may find an index outside, or may yet.
    is_checked: bool = False
    #: The user's line at which it was first recorded.
    line: str = ""
    #: Whether it comes with others, by one look-up: see passage.py.
    is_together: bool = False
    #: The calls that came next, by what they depend on; None for one that has to run by itself.
    next: dict[Hashable, Call | None] = field(default_factory=dict)
    #: Of calls that come together behind it what they lead to, by what they depend on: see
    #: passage.py.
    jumps: dict[Hashable, Any] = field(default_factory=dict)
    #: The type of its result; None of several.
    type: TensorType | None = None
    #: How often calls up to here ran as a program; and launches of a later program that are made
    #: once this call is recorded, with the form of that (see pending.py).
    hits: int = 0
    early: tuple[HeadStart, Call, Hashable] | None = None
    #: The last place at which calls went on otherwise than up to here, though launches were made.
    left_at: int = -1
    #: Programs of all calls up to here, by which results are wanted and how inputs lie.
    programs: dict[Hashable, Program] = field(default_factory=dict)
    #: What ran last, up to here.
    last_run: LastRun | None = None
    _lines: tuple[str, ...] | None = None

    def note_run(
        self, program: Program | HeadStart, head: HeadStart | None, form: Hashable, calls: Given,
        wanted: Sequence[int],
    ) -> None:  # fmt: skip
        """Note what ran of the calls up to here, maybe behind first launches, for which results."""
        last = self.last_run
        if last is not None and last.head is head and last.form == form:
            last.note(program, calls, wanted)
        else:
            self.last_run = LastRun(form, head)

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines of all calls up to here."""
        if self._lines is None:
            self._lines = tuple([call.line for call in self.path])
        return self._lines

    def note_left(self, other: Call) -> None:
        """Note that calls that were to come up to here came up to another one."""
        same = 0
        for x, y in zip(self.path, other.path, strict=False):
            if x is not y:
                break
            same += 1
        self.left_at = max(self.left_at, same - 1)

    def note_together(self, count: int) -> None:
        """Note that the last so many calls up to here come together."""
        call: Call | None = self
        while count and call is not None:
            call.is_together = True
            call, count = call.before, count - 1

    @property
    def path(self) -> list[Call]:
        """All calls up to here, in order."""
        found: list[Call] = []
        call: Call | None = self
        while call is not None and call.before is not None:
            found.append(call)
            call = call.before
        return found[::-1]


@dataclass(slots=True)
class Start:
    """What is known of calls that begin with one: how often they came, and what became of it."""

    #: How many more, with the next, until it is looked at how they go on; and how many there will
    #: be by then.
    rest: int = 2
    times: int = 2
    #: Whether there is a program that begins so; then ``rest`` is 0.
    leads: bool = False
    #: How some went on, by hashes of their plans; and whether the last that were looked at came
    #: before, so that the next are noted.
    trails: list[int] = field(default_factory=list)
    is_expected: bool = False
    #: Of these the ones that are known to be not worth a program.
    small: set[int] = field(default_factory=set)
    #: How often in a row it came to nothing: the calls were new, or are not worth a program.
    misses: int = 0
    #: How often in a row calls that begin as a program went on otherwise; and whether the next that
    #: do so in a new way are recorded to their end, as the last such ones came before.
    strays: int = 0
    is_new_wanted: bool = False

    def lead(self) -> None:
        """Note that there is a program that begins so."""
        self.leads = True
        self.times -= self.rest
        self.rest = self.strays = self.misses = 0

    @property
    def runs(self) -> int:
        """How often calls that begin so ran when they were made."""
        return self.times - self.rest

    def note_small(self, plans: Sequence[Hashable]) -> None:
        """Note that calls of these plans are not worth a program."""
        if len(self.small) >= MOST_TRAILS:
            self.small.clear()
        self.small.add(hash(tuple(plans)))

    def note_trail(self, plans: Sequence[Hashable]) -> bool:
        """Note how calls went on; return whether that came before, as far as hashes tell."""
        trail = hash(tuple(plans))
        came_before = trail in self.trails
        if not came_before:
            self.trails = [*self.trails[1 - MOST_TRAILS :], trail]
        if came_before and not self.is_expected and len(plans) > 1 and trail not in self.small:
            self.is_expected = True
            self._put_off(1)
        else:
            # Unless there is more to say of it.
            self.is_expected = False
            self.misses += 1
            self._put_off()
        return came_before

    def expect(self, plans: Sequence[Hashable]) -> bool:
        """Have the next calls that begin so noted, which came so before; return whether they are.

        They are not where it is known that they are not worth a program.
        """
        trail = hash(tuple(plans))
        if trail in self.small:
            return False
        if not self.leads:
            if trail not in self.trails:
                self.trails = [*self.trails[1 - MOST_TRAILS :], trail]
            self.is_expected = True
            self._put_off(1)
        return True

    def note_rounds(self) -> None:
        """Note that calls that begin so are rounds, each of which is taken for itself."""
        self.misses, self.is_expected = MOST_MISSES, False
        self._put_off()

    def note_stray(self) -> None:
        """Note that calls that were recorded are no program."""
        self.strays += 1
        if self.strays >= MOST_STRAYS:
            self.misses = MOST_MISSES
            self._put_off()

    def note_departure(self, plans: Sequence[Hashable]) -> None:
        """Note how calls went on that began as a program, and were not recorded to their end."""
        trail = hash(tuple(plans))
        if trail in self.trails:
            self.is_new_wanted = True
            self.strays = 0
        else:
            self.trails = [*self.trails[1 - MOST_TRAILS :], trail]

    def note_again(self, *, is_asked_for: bool) -> None:
        """Note that the calls came before; once their program is asked for there is no hurry."""
        self.misses = MOST_MISSES if is_asked_for else 0
        self.is_expected = not is_asked_for
        self._put_off()

    def _put_off(self, rest: int = 0) -> None:
        if not rest and self.misses >= MOST_MISSES:
            rest = min(max(SELDOM, self.times // 4), SELDOMEST)
        rest = rest or 1
        self.times += rest - self.rest
        self.rest = rest
        self.leads = False


class Lines(Mapping[int, str]):
    """The user's lines of the calls up to one: as noted this time, else when they first came."""

    __slots__ = ("_call", "_noted")

    def __init__(self, call: Call, noted: Mapping[int, str]) -> None:
        self._call = call
        self._noted = noted

    def __getitem__(self, n: int) -> str:
        noted = self._noted.get(n)
        return self._call.lines[n] if noted is None else noted

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))

    def __len__(self) -> int:
        return self._call.count


def graph_of(
    last: Call, inputs: Sequence[TensorType], wanted: Sequence[int],
    same: Mapping[int, int] | None = None,
) -> Graph:  # fmt: skip
    """Return the calls up to a call as a graph; its inputs are tensors, then numbers.

    ``same`` gives for positions of numbers earlier ones, as `same_numbers` does.
    """
    calls = last.path
    same = same or {}

    def number(x: Number) -> Number:
        return Number(same[x.position], x.type) if x.position in same else x

    numbers = {
        number(x): None for call in calls for x in call.operands if isinstance(x, Number)
    }  # fmt: skip
    found = [Input(n, type) for n, type in enumerate(inputs)]
    count = len(inputs)
    found += [Input(count + x.position, x.type, is_number=True) for x in numbers]
    places = {x: count + n for n, x in enumerate(numbers)}
    first = len(found)
    nodes: list[Node] = []
    for call in calls:
        assert call.op is not None
        assert call.plan is not None
        operands = tuple([
            places[number(x)] if isinstance(x, Number)
            else (first + x if x >= 0 else -1 - x) if isinstance(x, int) else x
            for x in call.operands
        ])  # fmt: skip
        types = call.types
        at = first + call.results - len(types)
        content = content_of_node(call.op, operands, call.plan.attrs)
        nodes.append(Node(call.op, operands, call.plan.attrs, types, at, content))
    return Graph(tuple(found), tuple(nodes), tuple([first + n for n in wanted]))
