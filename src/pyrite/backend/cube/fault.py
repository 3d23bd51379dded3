"""Indices that were outside: found by a kernel, raised by every read of what came of them.

A kernel cannot raise.  One that reads or writes by index tests each index, and puts the number of
its launch into the device's error word where one fails; the read goes on with 0, the write is
dropped.  So what it writes is in doubt, as is all that is computed from that, until a read has
looked at the word.  From then on it is good, or every read of it raises the error, which names the
op and the user's line.

The word keeps the first failure.  The checked launches between that one and the read that notices
it cannot be told apart, so what they wrote raises the same error, right or wrong.  What no checked
launch had a part in is never in doubt.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from pyrite.errors import IndexRangeError
from pyrite.op import user_location
from pyrite.runtime.protocol import Buffer, Runtime, Wanted
from pyrite.types import Array, uint32

#: What the first launch of a word puts there; later ones put less, as the word keeps the greatest.
_GREATEST: Final = 2**32 - 1
#: So many launches share a word at most: none of them puts 0, which says that none failed.
_LAUNCHES: Final = 2**31
#: When no read has looked after so many launches, the next one waits for a look: all are noted.
_OPEN: Final = 2**14


class Doubt:
    """One checked launch, as the tensors see it that came of it.

    What became of the launch is noted here and nowhere else, so it is forgotten with the tensors.
    """

    __slots__ = ("failure", "is_open", "location", "message", "number")

    def __init__(self, number: int, message: str, location: str) -> None:
        self.number = number
        #: What the error says, and the user's line.
        self.message, self.location = message, location
        #: Whether no read has looked after it yet.
        self.is_open = True
        #: What its tensors raise: that this launch failed, or an earlier one.
        self.failure: Failure | None = None

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


def joined(one: Doubt | None, other: Doubt) -> Doubt:
    """Return the doubt of what comes of both: it fails if one of them does.

    Of two that are open it is the later: if the earlier failed, both will have.
    """
    if one is None or other.failure is not None:
        return other
    if one.failure is not None:
        return one
    return one if one.number > other.number else other


class Faults:
    """The error word of one runtime, and the launches that may have set it."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        # Held during a launch, so that numbers are in the order of the stream; a signal's handler
        # may read meanwhile.
        self._lock = threading.RLock()
        #: The numbers that were given so far, and those of them that are in the stream.
        self._last = self._launched = 0
        self._word: _Word | None = None
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
        with self._lock:
            word = self._word_with_room()
            for message in messages:
                self._last += 1
                doubt = word.open[self._last] = Doubt(self._last, message, location)
                operands += (word.buffer, word.value_of(doubt.number))
            run(operands)
            self._launched = self._last
        self._of_thread.latest = doubt
        return doubt

    def look(self, doubts: Iterable[Doubt | None]) -> Look:
        """Return what a read of tensors of these doubts has to look at besides: mostly nothing.

        Raises IndexRangeError if one is known to have failed.
        """
        given = [doubt for doubt in dict.fromkeys(doubts) if doubt is not None]
        if not given:
            return Look(self, None)
        with self._lock:
            is_open = any(doubt.is_open for doubt in given)
            look = Look(self, self._word if is_open else None, self._launched, given)
        _require_sound(given)
        return look

    def look_at_all(self) -> Look:
        """Return what is to be read to know of every launch."""
        with self._lock:
            given = [] if self._word is None else [*self._word.open.values()]
            return Look(self, self._word if given else None, self._launched, given)

    def settle(self, look: Look, value: int) -> None:
        """Note what a look found in its word."""
        word = look.word
        assert word is not None, "it was read"
        with self._lock:
            if word.settle(look.last, value) and self._word is word:
                # What this one says would hide the failures of launches to come.
                self._word = None

    def _word_with_room(self) -> _Word:
        """Return the word for the next launch.  It waits if too many are open; nothing raises."""
        word = self._word
        if word is not None and (
            len(word.open) >= _OPEN or self._last + 1 - word.first >= _LAUNCHES
        ):
            ((value,),) = self._runtime.read_all(word.wanted)
            word.settle(self._last, int(value))
            word = None
        if word is None:
            buffer = self._runtime.upload(np.zeros(1, np.uint32))
            word = self._word = _Word(buffer, self._last + 1)
        return word


class Look:
    """A look at the word, if it is needed, by a read that comes after the launches to ``last``."""

    def __init__(
        self, faults: Faults, word: _Word | None, last: int = 0, doubts: Sequence[Doubt] = ()
    ) -> None:
        self._faults = faults
        self._doubts = doubts
        self.word = word
        self.last = last

    @property
    def wanted(self) -> Wanted:
        """What is to be read, behind all else."""
        return () if self.word is None else self.word.wanted

    def take(self, found: Sequence[Array]) -> Sequence[Array]:
        """Return what was read, but for the word.  Raises IndexRangeError if a launch failed."""
        if self.word is None:
            return found
        *found, value = found
        self._faults.settle(self, int(value[0]))
        _require_sound(self._doubts)
        return found


@dataclass(frozen=True, slots=True)
class Failure:
    """What an error says, and the user's line."""

    message: str
    location: str

    def error(self) -> IndexRangeError:
        """Return a new error."""
        error = IndexRangeError(self.message)
        error.location = self.location
        # The traceback shows where it is read; what is to be mended stands elsewhere.
        error.add_note(f"the index was used at {self.location}")
        return error


@dataclass(frozen=True, slots=True, eq=False)
class _Word:
    """A word on the device, and by number the launches since ``first`` that may have set it.

    ``open`` are those that no read has looked after, in order.
    """

    buffer: Buffer
    first: int
    open: dict[int, Doubt] = field(default_factory=dict)

    @property
    def wanted(self) -> Wanted:
        """What is to be read to know it."""
        return [(self.buffer, uint32, (1,))]

    def value_of(self, number: int) -> int:
        """Return what a launch puts there if it fails."""
        return _GREATEST - (number - self.first)

    def settle(self, last: int, value: int) -> bool:
        """Note what a read after the launches up to ``last`` found; return whether one failed.

        Ended by Ctrl-C, it is made good by the next read.
        """
        failed = self.first + (_GREATEST - value) if value else None
        if failed is None:
            for number in [n for n in self.open if n <= last]:
                self.open[number].settle(None)
                del self.open[number]
        elif failed in self.open:
            first = self.open[failed]
            failure = Failure(first.message, first.location)
            for number, doubt in self.open.items():
                doubt.settle(failure if number >= failed else None)
        return failed is not None


def _require_sound(doubts: Iterable[Doubt]) -> None:
    for doubt in doubts:
        doubt.require_sound()
