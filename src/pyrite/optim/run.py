"""What an optimiser remembers from step to step.  It is the one mutable thing in this package."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from pyrite.errors import TrainError
from pyrite.tensor.tensor import Tensor

#: What a rule keeps for one parameter: tensors by name, always under the names that `init` gave.
State = dict[str, Tensor]


class Slot(NamedTuple):
    """What is kept for one parameter: how often it was stepped, and the rule's tensors."""

    steps: int
    state: State


class Turn(NamedTuple):
    """What a rule gets to step one parameter: ``step`` counts the steps of it, from 1."""

    gradient: Tensor
    parameter: Tensor
    state: State
    step: int


class Run:
    """The steps made, and a slot for each parameter by id.  One thread at a time may use it."""

    __slots__ = ("is_warned", "lock", "newest", "norm", "rules", "slots", "steps")

    #: Held during every call.
    lock: threading.Lock
    #: Steps made; the schedules' argument.
    steps: int
    slots: dict[int, Slot]
    #: Number of the group, 0 for none, of each parameter seen so far, by id.
    rules: dict[int, int]
    #: Id and version of a parameter that the last step made; None before there is one.
    newest: tuple[int, int] | None
    #: Whether it was said that a step was lost.
    is_warned: bool
    #: Global norm of the gradients of the last step, where clipping computed it.
    norm: Tensor | None

    def __init__(self, steps: int = 0, slots: Mapping[int, Slot] | None = None) -> None:
        self.steps = steps
        self.slots = dict(slots or {})
        self.rules = {}
        self.newest = None
        self.is_warned = False
        self.norm = None
        self.lock = threading.Lock()

    def copy(self) -> Run:
        """Return a run that goes on from the same point."""
        made = Run(self.steps, self.slots)
        made.norm = self.norm
        return made

    def __deepcopy__(self, memo: Any) -> Run:
        # Tensors never change, so both may hold the same ones.
        with in_one_thread(self.lock):
            return self.copy()


@contextmanager
def in_one_thread(lock: threading.Lock) -> Iterator[None]:
    """Hold the lock of an optimiser for the block.  Raises TrainError when another thread does."""
    if not lock.acquire(blocking=False):
        raise TrainError(
            "an optimizer requires one thread at a time, got a call during another's; "
            "make one for each training, or step with Gradients.mean of all threads"
        )
    try:
        yield
    finally:
        lock.release()
