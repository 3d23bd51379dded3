"""Random numbers: the same on every backend, for every layout, in every thread.

Words come from Philox 4x32-10 (`pyrite.philox`).  A draw reserves an id from its stream; element i
takes word ``i % 4`` of the counter ``(i // 4, stream, draw low, draw high)`` under the seed's key.
So a draw does not depend on how many numbers other draws took, and drawing again by id repeats it.

Each thread draws from a stream of its own, named after the thread; `random_stream` names one.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from pyrite.backend.device import DeviceLike
from pyrite.errors import ArgumentError
from pyrite.op import Constant, primitive
from pyrite.philox import philox4x32
from pyrite.tensor.creation import create
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array, Shape, TensorType, element_count, uint32

_WORD = 0xFFFFFFFF


class Stream:
    """An endless row of draws: a seed, a name, and the id of the next draw."""

    __slots__ = ("_lock", "name", "next_draw", "seed")

    def __init__(self, seed: int, name: str, next_draw: int = 0) -> None:
        self.seed = seed
        self.name = name
        self.next_draw = next_draw
        self._lock = threading.Lock()

    def reserve(self) -> tuple[int, int, int, int, int]:
        """Return the words of the next draw: key low and high, stream, draw low and high."""
        with self._lock:
            draw = self.next_draw
            self.next_draw += 1
        return (
            self.seed & _WORD, self.seed >> 32,
            zlib.crc32(self.name.encode()), draw & _WORD, draw >> 32,
        )  # fmt: skip


_lock = threading.Lock()
_seed = 0
_streams: dict[str, Stream] = {}
_current: ContextVar[Stream | None] = ContextVar("pyrite_stream", default=None)


def seed(value: int) -> None:
    """Start all streams of this process anew from a seed, 0 <= seed < 2**64.

    >>> seed(7)
    >>> first = draw_words((2,)).tolist()
    >>> seed(7)
    >>> first == draw_words((2,)).tolist()
    True
    """
    global _seed
    _check_seed(value)
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
        token = _current.set(Stream(seed, name, start))
        try:
            yield
        finally:
            _current.reset(token)

    yield replay


def _check_seed(value: int) -> None:
    if not isinstance(value, int) or not 0 <= value < 1 << 64:
        raise ArgumentError(f"seed requires 0 <= seed < 2**64, got {value!r}")


def words(
    key_low: Any, key_high: Any, stream: Any, draw_low: Any, draw_high: Any, *, shape: Shape
) -> Array:
    """Return the uint32 words of a draw, in row-major order."""
    count = element_count(shape)
    counters = np.zeros((-(-count // 4), 4), np.uint32)
    counters[:, 0] = np.arange(len(counters), dtype=np.uint32)
    counters[:, 1:] = [int(stream), int(draw_low), int(draw_high)]
    key = (int(key_low), int(key_high))
    return philox4x32(counters, key).reshape(-1)[:count].reshape(shape)


def draw_words(shape: Shape) -> Array:
    """Return words drawn on the host: for initial weights, which are the same everywhere."""
    return words(*current_stream().reserve(), shape=shape)


@primitive(
    reference=words,
    infer=lambda *_words, shape: TensorType(shape, uint32),
    vjp=(None,) * 5,
    accepts="any",
)
def _random_bits(
    key_low: Any, key_high: Any, stream: Any, draw_low: Any, draw_high: Any, /, *, shape: Shape
) -> Tensor:
    """Random words of a reserved draw."""
    ...


def random_bits(shape: Shape, *, device: DeviceLike = None) -> Tensor:
    """Return 32 random bits per element, uint32."""
    number = TensorType((), uint32)
    inputs = tuple(Constant(word, number) for word in current_stream().reserve())
    return create(_random_bits, inputs, device, shape=shape)
