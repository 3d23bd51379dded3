"""Indices that were outside: found by a kernel, raised by every read of what came of them.

A kernel cannot raise.  One that reads or writes by index tests each index, and puts the number of
its launch into an error word of the device where one fails; the read goes on with 0, the write is
dropped.  So what it writes is in doubt, as is all that is computed from that, until a read has
looked at the word.  From then on it is good, or every read of it raises the error, which names the
op and the user's line.

Each thread has a word, which keeps the first failure, and beside it what a check of an application
says of that: which invocation it was.  The checked launches of the thread between
that one and the read that notices it cannot be told apart, so what they wrote raises the same
error, right or wrong.  What no checked launch had a part in is never in doubt, and what other
threads launched only where it is used.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from pyrite.errors import IndexRangeError, KernelError, PyriteError
from pyrite.op import user_location
from pyrite.runtime.protocol import Buffer, Runtime, Wanted
from pyrite.types import Array, uint32

#: What the first launch of a word puts there; later ones put less, as the word keeps the greatest.
_GREATEST: Final = 2**32 - 1
#: Numbers of a word: what failed, and what a check says of it.
_SIZE: Final = 2
#: So many launches share a word at most: none of them puts 0, which says that none failed.
_LAUNCHES: Final = 2**31
#: When no read has looked after so many launches, the next one waits for a look: all are noted.
_OPEN: Final = 2**14
#: So many words may have launches that no read has looked after: as many threads, or more.
WORDS: Final = 64


#: From what a check left beside the word to the text of where it failed, if that is known.
Where = Callable[[int], str]


class CheckFault(str):
    """What a check of an application's kernel says; ``location`` is its line."""

    location: str
    where: Where

    def __new__(cls, message: str, location: str, where: Where) -> CheckFault:
        """Return a message with a line, and what tells where it failed."""
        made = super().__new__(cls, message)
        made.location, made.where = location, where
        return made


class Doubt:
    """One checked launch, as the tensors see it that came of it.

    What became of the launch is noted here and nowhere else, so it is forgotten with the tensors.
    """

    __slots__ = ("failure", "is_open", "location", "message", "number", "word")

    def __init__(self, number: int, message: str, location: str, word: _Word | None = None) -> None:
        self.number = number
        #: What the error says, and the user's line.
        self.message, self.location = message, location
        #: Whether no read has looked after it yet.
        self.is_open = True
        #: What its tensors raise: that this launch failed, or an earlier one.
        self.failure: Failure | None = None
        #: The word that it may have set.
        self.word = word

    @property
    def parts(self) -> tuple[Doubt, ...]:
        """Itself."""
        return (self,)

    def settle(self, failure: Failure | None) -> None:
        """Note what became of the launch, once."""
        if self.is_open:
            # In this order: to whom it is not open, its failure is known.
            self.failure = failure
            self.is_open = False

    def require_sound(self) -> None:
        """Raise IndexRangeError if it is known to have failed."""
        if self.failure is not None:
            raise self.failure.error()


class Joint:
    """The checked launches of several threads, the latest of each, that one tensor came of."""

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[Doubt, ...]) -> None:
        self.parts = parts

    @property
    def is_open(self) -> bool:
        """Whether it is not known yet that one failed, or that none did."""
        return any(d.is_open for d in self.parts) and self.failure is None

    @property
    def failure(self) -> Failure | None:
        """What its tensors raise."""
        return next((d.failure for d in self.parts if d.failure is not None), None)

    def require_sound(self) -> None:
        """Raise IndexRangeError if one is known to have failed."""
        for doubt in self.parts:
            doubt.require_sound()


AnyDoubt = Doubt | Joint


def joined(one: AnyDoubt | None, other: AnyDoubt) -> AnyDoubt:
    """Return the doubt of what comes of both: it fails if one of them does.

    If both are open and of one word, it is the later: if the earlier failed, both will have.
    """
    if one is None or one is other:
        return other
    if not one.is_open:
        return other if one.failure is None else one
    if not other.is_open:
        return one if other.failure is None else other
    latest: dict[_Word | None, Doubt] = {}
    for doubt in (*one.parts, *other.parts):
        found = latest.get(doubt.word)
        if found is None or doubt.number > found.number:
            latest[doubt.word] = doubt
    parts = tuple(latest.values())
    return parts[0] if len(parts) == 1 else Joint(parts)


class Faults:
    """The error words of one runtime, and the launches that may have set them."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        # Held during a launch, so that numbers are in the order of the stream; a signal's handler
        # may read meanwhile.
        self._lock = threading.RLock()
        #: The numbers that were given so far, and those of them that are in the stream.
        self._last = self._launched = 0
        #: The words with launches that no read has looked after.
        self._open: dict[_Word, None] = {}
        #: The word of each thread, and the doubt of its last launch.
        self._of_thread = threading.local()

    @property
    def latest(self) -> Doubt | None:
        """The doubt of this thread's last checked launch."""
        found: Doubt | None = getattr(self._of_thread, "latest", None)
        return found

    def launch(
        self, messages: Sequence[str], operands: list[Any], run: Callable[[list[Any]], None]
    ) -> Doubt:
        """Run launches with operands, and behind these the word and a number for each message.

        A message is what the error will say; the user's line is noted here.
        """
        location = user_location()
        return self.launch_all([(message, location) for message in messages], operands, run)[-1]

    def launch_all(
        self,
        checks: Sequence[tuple[str, str]],
        operands: list[Any],
        run: Callable[[list[Any]], None],
    ) -> list[Doubt]:
        """Do what `launch` does for messages and lines that were noted before.

        Return the doubt of each, in order.
        """
        doubts: list[Doubt] = []
        with self._lock:
            word = self._word_with_room()
            self._open[word] = None
            for message, location in checks:
                self._last += 1
                doubt = word.open[self._last] = Doubt(self._last, message, location, word)
                operands += (word.buffer, word.value_of(doubt.number))
                doubts.append(doubt)
            run(operands)
            self._launched = self._last
        self._of_thread.latest = doubts[-1]
        return doubts

    def look(self, doubts: Iterable[AnyDoubt | None]) -> Look:
        """Return what a read of tensors of these doubts has to look at besides: mostly nothing.

        Raises IndexRangeError if one is known to have failed.
        """
        found = [doubt for doubt in doubts if doubt is not None]
        if not found:
            return Look(self, ())
        given = list(dict.fromkeys(part for doubt in found for part in doubt.parts))
        with self._lock:
            words = dict.fromkeys(d.word for d in given if d.is_open and d.word is not None)
            look = Look(self, tuple(words), self._launched, given)
        _require_sound(given)
        return look

    def look_at_all(self) -> Look:
        """Return what is to be read to know of every launch."""
        with self._lock:
            given = [doubt for word in self._open for doubt in word.open.values()]
            return Look(self, tuple(self._open), self._launched, given)

    def settle(self, word: _Word, last: int, value: Array) -> None:
        """Note what a look after the launches up to ``last`` found in a word."""
        with self._lock:
            # What a word says that was set would hide the failures of launches to come.
            word.is_spent |= word.settle(last, value)
            if not word.open:
                self._open.pop(word, None)

    def _word_with_room(self) -> _Word:
        """Return the word for the next launch.  It waits if too many are open; nothing raises."""
        word: _Word | None = getattr(self._of_thread, "word", None)
        if word is not None and (
            len(word.open) >= _OPEN or self._last + 1 - word.first >= _LAUNCHES
        ):
            self._settle_at_once((word,))
            word = None
        if word is None or word.is_spent:
            if len(self._open) >= WORDS:
                self._settle_at_once(tuple(self._open))
            buffer = self._runtime.upload(np.zeros(_SIZE, np.uint32))
            word = self._of_thread.word = _Word(buffer, self._last + 1)
        return word

    def _settle_at_once(self, words: tuple[_Word, ...]) -> None:
        values = self._runtime.read_all([one for word in words for one in word.wanted])
        for word, value in zip(words, values, strict=True):
            self.settle(word, self._last, value)


class Look:
    """A look at words, if any, by a read that comes after the launches to ``last``."""

    def __init__(
        self,
        faults: Faults,
        words: tuple[_Word, ...],
        last: int = 0,
        doubts: Sequence[Doubt] = (),
    ) -> None:
        self._faults = faults
        self._doubts = doubts
        self.words = words
        self.last = last

    @property
    def wanted(self) -> Wanted:
        """What is to be read, behind all else."""
        return [one for word in self.words for one in word.wanted]

    def take(self, found: Sequence[Array]) -> Sequence[Array]:
        """Return what was read, but for the words.  Raises IndexRangeError if a launch failed."""
        if not self.words:
            return found
        count = len(found) - len(self.words)
        for word, value in zip(self.words, found[count:], strict=True):
            self._faults.settle(word, self.last, value)
        _require_sound(self._doubts)
        return found[:count]


@dataclass(frozen=True, slots=True)
class Failure:
    """What an error says, the user's line, and what a check left beside the word."""

    message: str
    location: str
    note: int = 0

    def error(self) -> PyriteError:
        """Return a new error."""
        if isinstance(self.message, CheckFault):
            failed = KernelError(self.message + self.message.where(self.note))
            failed.location = self.message.location
            failed.add_note(f"the kernel was run at {self.location}")
            return failed
        error = IndexRangeError(self.message)
        error.location = self.location
        # The traceback shows where it is read; what is to be mended stands elsewhere.
        error.add_note(f"the index was used at {self.location}")
        return error


@dataclass(slots=True, eq=False)
class _Word:
    """A word on the device, and by number the launches since ``first`` that may have set it.

    ``open`` are those that no read has looked after, in order; ``is_spent`` that one has set it.
    """

    buffer: Buffer
    first: int
    open: dict[int, Doubt] = field(default_factory=dict)
    is_spent: bool = False

    @property
    def wanted(self) -> Wanted:
        """What is to be read to know it."""
        return [(self.buffer, uint32, (_SIZE,))]

    def value_of(self, number: int) -> int:
        """Return what a launch puts there if it fails."""
        return _GREATEST - (number - self.first)

    def settle(self, last: int, found: Array) -> bool:
        """Note what a read after the launches up to ``last`` found; return whether one failed.

        Ended by Ctrl-C, it is made good by the next read.
        """
        value, note = map(int, found)
        failed = self.first + (_GREATEST - value) if value else None
        if failed is None:
            for number in [n for n in self.open if n <= last]:
                self.open[number].settle(None)
                del self.open[number]
        elif failed in self.open:
            first = self.open[failed]
            failure = Failure(first.message, first.location, note)
            for number, doubt in self.open.items():
                doubt.settle(failure if number >= failed else None)
            self.open.clear()
        return failed is not None


def _require_sound(doubts: Iterable[Doubt]) -> None:
    for doubt in doubts:
        doubt.require_sound()
