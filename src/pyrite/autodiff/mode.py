"""What a thread is doing: recording, training, replaying.

Context variables, so each thread and each asyncio task has its own, and a checkpoint can replay a
computation in the context in which it first ran.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from pyrite.backend.tracing import forbid_in_bodies

#: Autodiff levels that record nothing at present.
paused: ContextVar[Container[int]] = ContextVar("pyrite_paused", default=())
_depth: ContextVar[int] = ContextVar("pyrite_depth", default=0)
_training: ContextVar[bool | None] = ContextVar("pyrite_training", default=None)

#: Where the tape of each level puts emitted states while it is paused by a checkpoint.
_sinks: ContextVar[Mapping[int, list[Any]]] = ContextVar("pyrite_sinks", default={})  # noqa: B039 - never mutated

_EVERY_LEVEL = range(1, 1 << 30)


def is_recording(level: int) -> bool:
    """Whether the tape of an autodiff level records."""
    return level not in paused.get()


@contextmanager
def no_grad(level: int | None = None) -> Iterator[None]:
    """Record nothing in the block, at one autodiff level or at all.

    >>> import pyrite
    >>> x = pyrite.ones((2,), device=pyrite.autodiff("numpy")).require_grad()
    >>> with pyrite.no_grad():
    ...     (x * 2).is_tracked
    False
    """
    token = paused.set(_paused_with(level))
    try:
        yield
    finally:
        paused.reset(token)


def emission_sink(level: int) -> list[Any] | None:
    """Return the list that takes what states emit at a level, or None where the graph takes it."""
    return _sinks.get().get(level)


@contextmanager
def collecting_emissions(level: int, sink: list[Any]) -> Iterator[None]:
    """Put what states emit at a level in the block into a list instead of the graph."""
    token = _sinks.set({**_sinks.get(), level: sink})
    try:
        yield
    finally:
        _sinks.reset(token)


def _paused_with(level: int | None) -> Container[int]:
    now = paused.get()
    if level is None or now is _EVERY_LEVEL:
        return _EVERY_LEVEL
    return frozenset({level}) | (now if isinstance(now, frozenset) else frozenset())


@contextmanager
def recording() -> Iterator[None]:
    """Record at every level in the block, also inside ``no_grad``."""
    token = paused.set(())
    try:
        yield
    finally:
        paused.reset(token)


def context() -> tuple[Hashable, ...]:
    """Return what an op's recording depends on of what the thread is doing."""
    levels: Any = paused.get()
    return _training.get(), _depth.get(), levels


def depth() -> int:
    """Return the highest autodiff level of the ``value_and_grad`` calls that this one is inside."""
    return _depth.get()


@contextmanager
def at_depth(level: int) -> Iterator[None]:
    """Note that the block runs inside a ``value_and_grad`` of that level."""
    token = _depth.set(max(level, _depth.get()))
    try:
        yield
    finally:
        _depth.reset(token)


def training() -> bool | None:
    """Return whether this context trains; None where nothing has said so."""
    forbid_in_bodies("whether the context trains")
    return _training.get()


@contextmanager
def training_mode(on: bool) -> Iterator[None]:
    """Make layers that differ between training and evaluation do the one or the other."""
    token = _training.set(on)
    try:
        yield
    finally:
        _training.reset(token)
