"""Streams of draws: which random numbers come next.

A draw reserves an id from its stream; `pyrite.tensor.random` says which words it takes.  Each
thread draws from a stream of its own, named after the thread; `random_stream` names one.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, Final

from pyrite.backend.capture import capturing
from pyrite.backend.tracing import forbid_in_bodies
from pyrite.errors import ArgumentError, CompileError
from pyrite.op import Constant
from pyrite.types import TensorType, uint32

_WORD = 0xFFFFFFFF

#: The key of a thread's stream among the effects of a captured call: see `pyrite.tensor.draws`.
DRAWS: Final = "draws"


class Stream:
    """An endless row of draws: a seed, a name, and the id of the next draw."""

    __slots__ = ("_lock", "_of", "name", "next_draw", "seed")

    def __init__(
        self, seed: int, name: str, next_draw: int = 0, *, of: Stream | None = None
    ) -> None:
        self.seed = seed
        self.name = name
        self.next_draw = next_draw
        self._lock = threading.Lock()
        #: The stream whose draws this one repeats.
        self._of = of

    @property
    def root(self) -> Stream:
        """The stream itself, or the one whose draws it repeats."""
        return self if self._of is None else self._of

    def reserve(self) -> tuple[int, int, int, int, int]:
        """Return the words of the next draw: key low and high, stream, draw low and high.

        In a function that is compiled they are host scalars.
        """
        forbid_in_bodies("a draw of random numbers")
        draw = self.skip(1)
        capture = capturing()
        effect: Any = None if capture is None else capture.effects.get(DRAWS)
        of: Any = self if effect is None or effect.stream is not self.root else effect
        found: tuple[int, int, int, int, int] = of.words(draw)
        return found

    def skip(self, count: int) -> int:
        """Reserve so many draws, and return the id of the first."""
        with self._lock:
            draw = self.next_draw
            self.next_draw += count
        return draw

    def give_back(self, draw: int, count: int) -> None:
        """Undo a `skip` that nobody has made use of, if it was the last."""
        with self._lock:
            if self.next_draw == draw + count:
                self.next_draw = draw

    def words(self, draw: int) -> tuple[int, int, int, int, int]:
        """Return the words of a draw: key low and high, stream, draw low and high."""
        return (
            self.seed & _WORD, self.seed >> 32,
            zlib.crc32(self.name.encode()), draw & _WORD, draw >> 32,
        )  # fmt: skip

    def next_words(self) -> tuple[Constant, ...]:
        """Return the words of the next draw as `random_bits` takes them."""
        return tuple([Constant(word, _NUMBER) for word in self.reserve()])


_NUMBER: Final = TensorType((), uint32)
_lock = threading.Lock()
_seed = 0
_streams: dict[str, Stream] = {}
_current: ContextVar[Stream | None] = ContextVar("pyrite_stream", default=None)


def seed(value: int) -> None:
    """Start all streams of this process anew from a seed, 0 <= seed < 2**64.

    >>> seed(7)
    >>> first = current_stream().reserve()
    >>> seed(7)
    >>> first == current_stream().reserve()
    True
    """
    global _seed
    _check_seed(value)
    _require_no_capture("seed")
    with _lock:
        _seed = value
        _streams.clear()


@contextmanager
def random_stream(seed: int, name: str = "") -> Iterator[Stream]:
    """Draw from a stream of one's own in the block, whatever other threads draw."""
    _check_seed(seed)
    stream = Stream(seed, name)
    token = _current.set(stream)
    try:
        yield stream
    finally:
        _current.reset(token)


def current_stream() -> Stream:
    """Return the stream from which this thread draws now."""
    stream = _current.get()
    if stream is not None:
        return stream
    thread = threading.current_thread()
    name = "" if thread is threading.main_thread() else thread.name
    with _lock:
        if name not in _streams:
            _streams[name] = Stream(_seed, name)
        return _streams[name]


def random_state() -> dict[str, Any]:
    """Return the state of this thread's stream: what a checkpoint saves."""
    stream = current_stream()
    return {"seed": stream.seed, "name": stream.name, "next_draw": stream.next_draw}


def set_random_state(state: dict[str, Any]) -> None:
    """Put this thread's stream where `random_state` found it."""
    _require_no_capture("set_random_state")
    stream = current_stream()
    stream.seed = int(state["seed"])
    stream.name = str(state["name"])
    stream.next_draw = int(state["next_draw"])


@contextmanager
def replaying_draws() -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Give a function that makes contexts in which the block's draws are drawn again."""
    stream = current_stream()
    seed, name, start = stream.seed, stream.name, stream.next_draw

    @contextmanager
    def replay() -> Iterator[None]:
        token = _current.set(Stream(seed, name, start, of=stream.root))
        try:
            yield
        finally:
            _current.reset(token)

    yield replay


def _require_no_capture(name: str) -> None:
    if capturing() is not None:
        raise CompileError(
            f"compile requires a function that leaves the random state alone, got {name} inside "
            "it; call it outside, or draw in a block of random_stream(seed)"
        )


def _check_seed(value: int) -> None:
    if not isinstance(value, int) or not 0 <= value < 1 << 64:
        raise ArgumentError(f"seed requires 0 <= seed < 2**64, got {value!r}")
