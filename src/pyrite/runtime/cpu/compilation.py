"""Code that is compiled while its kernel's launches are written, by threads that have nothing else.

A program is many kernels.  While Python writes the next one, LLVM compiles those before on other
processors; whoever needs the code of one that is not done, as who hands its launch over does,
compiles what waits.  No code depends on who makes it, nor on the order.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from pyrite.runtime.cpu.linker import Code

#: The most threads that compile for one that writes kernels: to write one takes about as long.
MOST: Final = 3
#: Seconds after which what another thread has begun is compiled here too, if that was ended.
PATIENCE: Final = 2.0


class Compilation:
    """The code of a kernel, or what makes it.

    What fails is made again by whoever needs it, who gets the error.
    """

    __slots__ = ("_code", "_keep", "_load", "_lock", "_make", "_queue", "blob", "is_begun")

    def __init__(
        self, queue: Compilations, make: Callable[[], bytes], load: Callable[[bytes], Code],
        keep: Callable[[bytes], None],
    ) -> None:  # fmt: skip
        self._queue = queue
        self._make: Callable[[], bytes] | None = make
        self._keep: Callable[[bytes], None] | None = keep
        self._load: Callable[[bytes], Code] | None = load
        self._code: Code | None = None
        self._lock = threading.Lock()
        #: The object, from when it is compiled until it is loaded.
        self.blob: bytes | None = None
        #: Whether somebody compiles it; the queue's lock is held.
        self.is_begun = False

    @classmethod
    def done(cls, queue: Compilations, code: Code) -> Compilation:
        """Return one that there is no more to do of."""
        made = cls.__new__(cls)
        made._queue, made._make, made._load, made._keep = queue, None, None, None
        made._code = code
        made._lock, made.blob, made.is_begun = threading.Lock(), None, False
        return made

    @property
    def code(self) -> Code | None:
        """The code, if it is compiled and loaded."""
        return self._code

    @property
    def is_made(self) -> bool:
        """Whether `result` waits for nobody."""
        return self._code is not None or self.blob is not None

    def result(self) -> Code:
        """Return the code, when it is there.  Raises what compiling or loading does."""
        if self._code is None:
            with self._lock:
                if self._code is None:
                    self._queue.finish(self)
                    assert self._load is not None
                    assert self.blob is not None
                    keep, blob, self._keep = self._keep, self.blob, None
                    if keep is not None:
                        self._queue.do_later(partial(keep, blob))
                    self._code = self._load(self.blob)
                    self.blob = self._load = None
        return self._code

    def keep(self) -> None:
        """Have the object kept for other processes, if nobody has."""
        keep, blob, self._keep = self._keep, self.blob, None
        if keep is not None and blob is not None:
            keep(blob)

    def compile(self) -> None:
        """Make the object, for who has begun it."""
        make = self._make
        if make is not None:
            self.blob = make()
            self._make = None


class Compilations:
    """What waits to be compiled, in order, and the threads that do it while there is any."""

    def __init__(self, threads: int) -> None:
        self._most = min(threads, MOST)
        self._threads = 0
        self._changed = threading.Condition()
        self._waiting: deque[Compilation] = deque()
        #: What is done when nothing waits: to write a file takes Python's lock a few times.
        self._later: deque[Callable[[], None]] = deque()

    def submit(
        self, make: Callable[[], bytes], load: Callable[[bytes], Code],
        keep: Callable[[bytes], None] = lambda blob: None,
    ) -> Compilation:  # fmt: skip
        """Return what will have the code; another thread compiles it meanwhile, if there is one.

        ``keep`` is called once with the object, also where nobody needs it after all.
        """
        made = Compilation(self, make, load, keep)
        if not self._most:
            return made
        with self._changed:
            self._waiting.append(made)
            is_one_more = self._threads < self._most
            self._threads += is_one_more
        if is_one_more:
            self._begin()
        return made

    def do_later(self, what: Callable[[], None]) -> None:
        """Have something done by such a thread when nothing waits; here if there is none.

        There is one for this too where none compiles: nobody is to wait for a file.  What it raises
        is nobody's: it makes other processes, or later calls, faster.
        """
        with self._changed:
            self._later.append(what)
            is_one_more = not self._threads
            self._threads += is_one_more
            is_there = self._threads > 0
        if is_one_more:
            is_there = self._begin()
        while not is_there and self._later:
            with suppress(IndexError):
                _tried(self._later.popleft())

    def _begin(self) -> bool:
        """Start a thread, which was counted; return whether there is one."""
        try:
            # It ends when nothing waits: to start one takes less than to compile anything.
            threading.Thread(target=self._run, name="pyrite-compiles", daemon=False).start()
        except RuntimeError:  # there is no thread to be had, as when Python ends
            with self._changed:
                self._threads -= 1
            return False
        return True

    def finish(self, wanted: Compilation) -> None:
        """Return when the object of one is there; this thread compiles what waits meanwhile.

        Raises what compiling that one does, if it is this thread that does.
        """
        while wanted.blob is None:
            with self._changed:
                if wanted.blob is not None:
                    return
                found = wanted
                if wanted.is_begun:
                    if self._waiting:
                        found = self._waiting.popleft()
                    elif self._changed.wait(PATIENCE):
                        continue
                else:
                    with suppress(ValueError):
                        self._waiting.remove(wanted)
                found.is_begun = True
            if found is wanted:
                self._compile(found)
            else:
                self._try(found)

    def _run(self) -> None:
        while True:
            found = later = None
            with self._changed:
                if self._waiting:
                    found = self._waiting.popleft()
                    found.is_begun = True
                elif self._later:
                    later = self._later.popleft()
                else:
                    self._threads -= 1
                    return
            if found is not None:
                self._try(found)
                self.do_later(found.keep)
            elif later is not None:
                _tried(later)

    def _try(self, found: Compilation) -> None:
        # Whoever needs it meets the error.
        with suppress(Exception):
            self._compile(found)

    def _compile(self, found: Compilation) -> None:
        try:
            found.compile()
        finally:
            with self._changed:
                found.is_begun = False
                self._changed.notify_all()


def _tried(what: Callable[[], None]) -> None:
    with suppress(Exception):
        what()
