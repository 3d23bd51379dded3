"""The classes of sizes of one kind of calls, and which of them is a call's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pyrite.backend.cube.sized.call import SizedCall
from pyrite.backend.cube.sized.recording import SizedRecording
from pyrite.sized import Miss
from pyrite.types import Number


class SizeClasses:
    """Recordings for sizes of a class each, the one last used first.

    What one class says no to is known of all others: those that want another answer to that
    question, or to one before it, to which this class had its answer, are left out unasked.  So of
    a hundred some five are asked.
    """

    __slots__ = ("_all", "_asked", "_differing", "_like", "_order", "_wanted")

    def __init__(self, classes: Iterable[SizedRecording] = ()) -> None:
        self._all: list[SizedRecording] = []
        #: The numbers of classes, in the order in which they are asked.
        self._order: tuple[int, ...] = ()
        #: By types of results and small sizes, which classes have these, as bits.
        self._like: dict[Any, int] = {}
        #: By a question, and by that and an answer, which classes have it, as bits.
        self._asked: dict[int, int] = {}
        self._wanted: dict[tuple[int, Any], int] = {}
        #: Of each class, by the questions before which it differs from others, these as bits.
        self._differing: list[dict[int, int]] = []
        for one in reversed([*classes]):
            self.add(one)

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[SizedRecording]:
        return iter([self._all[n] for n in self._order])

    def add(self, one: SizedRecording) -> None:
        """Have another class, which is asked first."""
        number, bit = len(self._all), 1 << len(self._all)
        self._all.append(one)
        like = one.results_of, one.small
        self._like[like] = self._like.get(like, 0) | bit
        for question, answer in one.answers.items():
            self._asked[question] = self._asked.get(question, 0) | bit
            key = question, answer
            self._wanted[key] = self._wanted.get(key, 0) | bit
        self._note_differing(number)
        # At last, as another thread may look for a call's meanwhile.
        self._order = (number, *self._order)

    def _note_differing(self, number: int) -> None:
        """Note where a new class and those before it first want different answers."""
        new = self._all[number]
        self._differing.append({})
        for n, one in enumerate(self._all[:number]):
            for at, first, other in ((n, one, new), (number, new, one)):
                place = _first_differing(first.answers, other.answers)
                if place is not None:
                    bit = 1 << (number + n - at)
                    self._differing[at][place] = self._differing[at].get(place, 0) | bit

    def matches(self, call: SizedCall) -> Iterator[tuple[SizedRecording, Sequence[Number]]]:
        """Give the classes of a call, mostly one, each with its numbers; it is asked first then."""
        order, left = self._order, self._like.get((call.results, call.small), 0)
        for number in order:
            if not left >> number & 1:
                continue
            one = self._all[number]
            try:
                found = one.numbers(*call.sizes)
            except ArithmeticError:  # a question that makes no sense here
                continue
            if isinstance(found, Miss):
                asked, wanted = self._asked[found.question], self._wanted.get(found, 0)
                left &= ~asked | wanted
                last = one.places[found.question]
                for place, others in [*self._differing[number].items()]:
                    if place < last:
                        left &= ~others
                continue
            if number != order[0]:
                # What came last is mostly what comes next.
                self._order = (number, *[n for n in order if n != number])
            yield one, found


def _first_differing(answers: Mapping[int, Any], others: Mapping[int, Any]) -> int | None:
    """Return the place of the first answer that is another elsewhere; None if there is none."""
    for place, (question, answer) in enumerate(answers.items()):
        if question in others and others[question] != answer:
            return place
    return None
