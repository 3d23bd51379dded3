"""What an optimiser remembers from step to step.  It is the one mutable thing in this package."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pyrite.errors import TrainError
from pyrite.tensor.parameter import Identified
from pyrite.tensor.tensor import Tensor

#: What a rule keeps for one parameter: tensors by name, always under the names that `init` gave.
RuleState = dict[str, Tensor]


class ParameterState(NamedTuple):
    """The state of one parameter: how often it was stepped, and the rule's tensors."""

    steps: int
    state: RuleState


class ParameterUpdate(NamedTuple):
    """What a rule gets to step one parameter: ``step`` counts the steps of it, from 1."""

    gradient: Tensor
    parameter: Tensor
    state: RuleState
    step: int


class OptimizerState:
    """The steps made, and what is kept for each parameter by id, for one thread at a time."""

    __slots__ = ("is_warned", "lock", "models", "newest", "norm", "parameters", "rules", "steps")

    #: Held during every call.
    lock: threading.Lock
    #: Steps made; the schedules' argument.
    steps: int
    parameters: dict[int, ParameterState]
    #: For each model stepped, the ids of what it holds.
    models: list[frozenset[int]]
    #: Number of the group, 0 for none, of each parameter seen so far, by id.
    rules: dict[int, int]
    #: Id and version of a parameter that the last step made; None before there is one.
    newest: tuple[int, int] | None
    #: Whether it was said that a step was lost.
    is_warned: bool
    #: Global norm of the gradients of the last step, where clipping computed it.
    norm: Tensor | None

    def __init__(
        self, steps: int = 0, parameters: Mapping[int, ParameterState] | None = None
    ) -> None:
        self.steps = steps
        self.parameters = dict(parameters or {})
        self.models = []
        self.rules = {}
        self.newest = None
        self.is_warned = False
        self.norm = None
        self.lock = threading.Lock()

    def keep(self, stepped: Mapping[int, ParameterState], *, among: Iterable[Identified]) -> None:
        """Take up what a step made, and drop what is kept for parameters that left the model.

        ``among``: what the model holds.  It takes the place of those of which it holds something; a
        model of which it holds nothing is another one, which may go on beside it.
        """
        held = frozenset([t.id for t in among])
        if held not in self.models:
            former = [ids for ids in self.models if not ids.isdisjoint(held)]
            for id in frozenset().union(*former) - held:
                self.parameters.pop(id, None)
                self.rules.pop(id, None)
            self.models = [*(ids for ids in self.models if ids not in former), held]
        self.parameters.update(stepped)

    def copy(self) -> OptimizerState:
        """Return a state that goes on from the same point."""
        made = OptimizerState(self.steps, self.parameters)
        made.models = list(self.models)
        made.norm = self.norm
        return made

    def __deepcopy__(self, memo: Any) -> OptimizerState:
        # Tensors never change, so both may hold the same ones.
        with in_one_thread(self.lock):
            return self.copy()


class in_one_thread:
    """Hold the lock of an optimiser for the block.  Raises TrainError when another thread does."""

    __slots__ = ("_lock",)

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise TrainError(
                "an optimizer requires one thread at a time, got a call during another's; "
                "make one for each training, or step with Gradients.mean of all threads"
            )

    def __exit__(self, *_: object) -> None:
        self._lock.release()
