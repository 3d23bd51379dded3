"""Random numbers: the same on every backend, for every layout, in every thread.

Words come from Philox 4x32-10 (`pyrite.philox`).  A draw reserves an id from its stream; element i
takes word ``i % 4`` of the counter ``(i // 4, stream, draw low, draw high)`` under the seed's key.
So a draw does not depend on how many numbers other draws took, and drawing again by id repeats it.

Each thread draws from a stream of its own, named after the thread; `random_stream` names one.
"""

from __future__ import annotations

import math
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from pyrite.backend.device import DeviceLike
from pyrite.errors import ArgumentError, DTypeError
from pyrite.op import Constant, primitive, public, sample
from pyrite.philox import philox4x32
from pyrite.tensor.creation import create
from pyrite.tensor.tensor import Tensor
from pyrite.types import (
    Array,
    DType,
    DTypeLike,
    Shape,
    TensorType,
    default_float,
    element_count,
    float32,
    int32,
    normalize_axis,
    normalize_shape,
    uint32,
)
from pyrite.types import dtype as as_dtype

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
    samples=(sample(1, 2, 3, 4, 5, shape=(2, 3)), sample(0, 0, 0, 0, 0, shape=(0,))),
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


# ---- distributions: each a stated function of the words ----


@public
def uniform(
    shape: int | Sequence[int] = (),
    low: float = 0.0,
    high: float = 1.0,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Return values uniform in low <= x < high.

    A unit value is ``(word >> 8) * 2**-24``: exact in float32, and the same bits on every device; in
    float64 it has the same 24 random bits, in float16 the highest 11 and in bfloat16 the highest 8.

    >>> import pyrite
    >>> with pyrite.random_stream(0):
    ...     pyrite.uniform((2,)).numpy().max() < 1
    True
    """
    kind = _float(dtype)
    bits = random_bits(normalize_shape("uniform", shape), device=device)
    return _affine(_unit(bits, kind), high - low, low)


@public
def normal(
    shape: int | Sequence[int] = (),
    mean: float = 0.0,
    std: float = 1.0,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Return normally distributed values: sqrt(-2 log(1 - u)) cos(2 pi v) of two unit values.

    Devices agree to 1e-5.  Source: Box & Muller 1958.

    Raises ArgumentError for a negative std.
    """
    if std < 0:
        raise ArgumentError(f"normal requires std >= 0, got {std}")
    kind = _float(dtype)
    sizes = normalize_shape("normal", shape)
    wide = float32 if kind.itemsize < 4 else kind
    radius = ((1.0 - _unit(random_bits(sizes, device=device), wide)).log() * -2.0).sqrt()
    angle = _unit(random_bits(sizes, device=device), wide) * (2.0 * math.pi)
    return _affine(radius * angle.cos(), std, mean).astype(kind)


@public
def bernoulli(
    p: float, shape: int | Sequence[int] = (), *, device: DeviceLike = None
) -> Tensor:
    """Return bools that are True with probability p, to the nearest 2**-32.

    Decided by comparing integers, so the same on every device.  Raises ArgumentError unless
    0 <= p <= 1.
    """
    if not 0 <= p <= 1:
        raise ArgumentError(f"bernoulli requires 0 <= p <= 1, got {p}")
    bits = random_bits(normalize_shape("bernoulli", shape), device=device)
    threshold = round(p * 2**32)
    if threshold > _WORD:
        return bits.equal(bits)
    return bits < threshold


@public
def randint(
    low: int,
    high: int,
    shape: int | Sequence[int] = (),
    *,
    dtype: DTypeLike = int32,
    device: DeviceLike = None,
) -> Tensor:
    """Return integers uniform in low <= i < high, to within (high - low) * 2**-32.

    A word modulo the range: the same on every device.  Raises ArgumentError for an empty range, or
    one of more than 2**32 integers.
    """
    kind, span = as_dtype(dtype), high - low
    if not 0 < span <= 1 << 32:
        raise ArgumentError(f"randint requires 0 < high - low <= 2**32, got {low} and {high}")
    bits = random_bits(normalize_shape("randint", shape), device=device)
    within = bits if span > _WORD else bits % span
    # Integers wrap around, so 32 bits are enough for every 32-bit result.
    wide = kind if kind.itemsize >= 4 else int32
    return within.astype(wide).add(low).astype(kind)


@public
def permutation(n: int, *, device: DeviceLike = None) -> Tensor:
    """Return the integers 0 to n - 1 in random order: int32 (n,), the same on every device."""
    (size,) = normalize_shape("permutation", n)
    return random_bits((size,), device=device).argsort()


@public
def shuffle(x: Tensor, axis: int = 0) -> Tensor:
    """Return x with its entries along an axis in random order."""
    where = normalize_axis("shuffle", axis, x.ndim)
    return x.take(permutation(x.shape[where], device=x.device), axis=where)


def _float(dtype: DTypeLike | None) -> DType:
    kind = as_dtype(default_float if dtype is None else dtype)
    if not kind.is_float:
        raise DTypeError(f"random values require a float dtype, got {kind.name}")
    return kind


def _unit(bits: Tensor, kind: DType) -> Tensor:
    """Return words as unit values with as many bits as the dtype holds exactly, so never 1."""
    precision = {"float16": 11, "bfloat16": 8}.get(kind.name, 24)
    wide = float32 if kind.itemsize < 4 else kind
    return ((bits >> (32 - precision)).astype(wide) * 2.0**-precision).astype(kind)


def _affine(x: Tensor, scale: float, offset: float) -> Tensor:
    scaled = x if scale == 1.0 else x * scale
    return scaled if offset == 0.0 else scaled + offset
