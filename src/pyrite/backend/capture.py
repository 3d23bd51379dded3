"""One call of a compiled function while it is captured: what it does besides ops.

A captured call runs as any other does, but for three things: no value of it can be read before it
returns, numbers that change from call to call are host scalars, and state outside of the arguments
that it renews, an optimiser's, a stream of draws, is named, so that a replay renews it too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar, cast

from pyrite.op import TensorBase
from pyrite.op.host_scalar import Choice, choices
from pyrite.types import Number

#: The tensors of an effect, by name.
Slots = Mapping[Hashable, TensorBase]


class Effect(Protocol):
    """State that a captured call renews, and how."""

    def before(self) -> Slots:
        """Return its tensors as the call found them."""
        ...

    def after(self) -> Slots:
        """Return its tensors that the call renewed."""
        ...

    @property
    def form(self) -> Hashable:
        """All else that the call did to it, relative to how it found it."""
        ...

    def restore(self) -> None:
        """Undo what the call did."""
        ...

    def plan(self) -> Replay | None:
        """Return what does it again; None where there is nothing to do."""
        ...


class Replay(Protocol):
    """What a captured call did to state, done again at each call."""

    def held(self) -> AbstractContextManager[ReplayState]:
        """Hold the state for a call: what others do with it meanwhile is an error, or waits."""
        ...


class ReplayState(Protocol):
    """State that a replay holds."""

    def fits(self, leaves: Sequence[Any]) -> bool:
        """Whether it is such as the captured call found, given the arguments' tensors."""
        ...

    def number(self, name: tuple[Any, ...]) -> Number:
        """Return a host scalar's value at this call, by the name of its source."""
        ...

    def tensors(self, names: Sequence[Any]) -> Sequence[TensorBase]:
        """Return tensors of the state.  Raises KeyError where there is none of a name."""
        ...

    def commit(self, renewed: Mapping[Hashable, Any], versions: Mapping[int, int]) -> None:
        """Put tensors in place, and note the call; ``versions`` are those of its parameters."""
        ...


E_ = TypeVar("E_", bound=Effect)


class Capture:
    """What is noted of a call."""

    def __init__(self) -> None:
        self.choices: list[Choice] = []
        #: By what stands for each in a key.
        self.effects: dict[Hashable, Effect] = {}

    def effect(self, key: Hashable, make: Callable[[], E_]) -> E_:
        """Return the effect of a key, made when it is met first."""
        if key not in self.effects:
            self.effects[key] = make()
        return cast(E_, self.effects[key])


_current: ContextVar[Capture | None] = ContextVar("pyrite_capture", default=None)


def capturing() -> Capture | None:
    """Return the call that is captured in this context, if one is."""
    return _current.get()


@contextmanager
def captured(capture: Capture | None) -> Iterator[None]:
    """Note what the block does; with None, nothing, in a block of a captured call."""
    token = _current.set(capture)
    asked = choices.set(None if capture is None else capture.choices)
    try:
        yield
    finally:
        choices.reset(asked)
        _current.reset(token)
