"""The recordings for many sizes that a backend has, by the kinds of calls."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from typing import Final

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.recording import RECORDINGS, Recording
from pyrite.backend.cube.sized.call import SizedCall
from pyrite.backend.cube.sized.classes import SizeClasses
from pyrite.backend.cube.sized.recording import Choose, SizedRecording
from pyrite.op import Op
from pyrite.recent import Recent

#: Recordings of one kind of calls: a class of sizes each.
MOST_CLASSES: Final = 256
#: A kind of which so many calls in turn were of no class is planned call by call, as convolutions
#: are that choose among configs by each class of images and batches.
MOST_MISSED: Final = 12
#: How many of these are for sizes that no call had.
MOST_REHEARSED: Final = 128


class SizedRecordings:
    """The recordings for many sizes that a backend has, by the kinds of calls."""

    def __init__(self, launcher: Launcher, choose: Choose) -> None:
        self._launcher, self.choose = launcher, choose
        self._classes: Recent[Hashable, SizeClasses] = Recent(RECORDINGS)
        #: How many are known, and how many calls had their recordings from these.
        self.known = self.served = 0
        #: How many calls of a kind, one after the other, found none.
        self._missed: Recent[Hashable, int] = Recent(RECORDINGS)
        #: Kinds of which a call waits to be learned that found its kernels.
        self._waiting: Recent[Hashable, bool] = Recent(RECORDINGS)

    def has(self, kind: Hashable) -> bool:
        """Whether there may be a recording for a call of a kind."""
        return bool(self._classes.get(kind))

    def recording(self, kind: Hashable, call: SizedCall) -> Recording | None:
        """Return the recording of a call, made from those of its kind; None if none is for it."""
        for found, numbers in self._of(kind).matches(call):
            made = found.recording(self._launcher, call, numbers)
            if made is not None:
                self.served += 1
                self._missed.put(kind, 0)
                return made
        self._miss(kind)
        return None

    def _miss(self, kind: Hashable) -> None:
        """Note a call of another class than all; give a kind up of which each call is another."""
        missed = (self._missed.get(kind) or 0) + 1
        self._missed.put(kind, missed)
        if missed >= MOST_MISSED:
            self._classes.put(kind, SizeClasses())

    def _is_given_up(self, kind: Hashable) -> bool:
        return (self._missed.get(kind) or 0) >= MOST_MISSED

    def serve(self, kind: Hashable, call: SizedCall) -> bool:
        """Whether there is a recording for a call, with all of its kernels."""
        for found, numbers in self._of(kind).matches(call):
            if found.has_kernels(self._launcher, numbers):
                found.plan_memory(self._launcher, call, numbers)
                return True
        return False

    def _of(self, kind: Hashable) -> SizeClasses:
        return self._classes.get(kind) or SizeClasses()

    def learn(self, kind: Hashable, op: Op, call: SizedCall, most: int = MOST_CLASSES + 1) -> None:
        """Have calls with sizes like those of this one find their recordings.

        Not where there are ``most`` of its kind; beyond `MOST_CLASSES` the one that came longest
        ago is let go.  Raises what says that there is none.
        """
        if self._is_given_up(kind) or len(self._of(kind)) >= most:
            return
        found = SizedRecording.of(self._launcher, self.choose, op, call)
        found.plan_memory(self._launcher, call, found.numbers(*call.sizes))
        known = self._of(kind)
        if len(known) >= MOST_CLASSES:
            known = SizeClasses([*known][: MOST_CLASSES - 1])
        known.add(found)
        self._classes.put(kind, known)
        self.known += 1

    def learn_later(self, kind: Hashable, op: Op, call: SizedCall, *, found_kernels: bool) -> None:
        """Do it in a pause, if no other call was before that.

        In a program that computes there may be none for long: then the next call of its kind that
        ``found_kernels`` is learned at once.  Not one that waited for a kernel: that took long
        enough.
        """
        if self._is_given_up(kind):
            return
        waits = self._waiting.get(kind)
        self._waiting.put(kind, found_kernels)
        if not (waits and found_kernels):
            key = (kind, *call.sizes)
            self._launcher.ahead.submit(
                key, lambda: self._learn_once(kind, op, call), is_likely=True
            )
            return
        with suppress(Exception):  # as of a job: it is planned call by call
            self._learn_once(kind, op, call)

    def _learn_once(self, kind: Hashable, op: Op, call: SizedCall) -> None:
        self._waiting.put(kind, False)
        if not self.serve(kind, call):
            self.learn(kind, op, call)
