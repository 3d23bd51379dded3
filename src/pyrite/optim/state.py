"""What an optimiser remembers from step to step.  It is the one mutable thing in this package."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from weakref import ref

from pyrite.errors import TrainError
from pyrite.op import user_frame
from pyrite.op.columns import ColumnCalls
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


class StateColumns(NamedTuple):
    """The state of all parameters of a model that were stepped equally often: tensors by name."""

    ids: list[int]
    steps: int
    tensors: dict[str, list[Tensor]]


class LatestModel(NamedTuple):
    """The model that the last step made by columns, all of whose tensors are parameters, as a rule.

    ``ids`` and ``versions`` are those of all, in order.
    """

    model: ref[Any]
    ids: list[int]
    versions: list[int]


class OptimizerState:
    """The steps made, and what is kept for each parameter by id, for one thread at a time."""

    __slots__ = (
        "_columns", "_parameters", "calls", "is_warned", "latest", "lock", "models", "newest",
        "norm", "rules", "steps",
    )  # fmt: skip

    #: Held during every call.
    lock: threading.Lock
    #: Steps made; the schedules' argument.
    steps: int
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
    #: The calls of the last step that was made by columns, and their attributes: see columns.py.
    calls: dict[int, tuple[Mapping[str, Any], ColumnCalls]]
    #: What is known of the model that this step is of; None where that is to be found out.
    latest: LatestModel | None
    #: What is kept for each parameter: either by id, or, after a step by columns, in these.
    _parameters: dict[int, ParameterState]
    _columns: tuple[StateColumns, ...]

    def __init__(
        self, steps: int = 0, parameters: Mapping[int, ParameterState] | None = None
    ) -> None:
        self.steps = steps
        self._parameters = dict(parameters or {})
        self._columns, self.calls, self.latest = (), {}, None
        self.models = []
        self.rules = {}
        self.newest = None
        self.is_warned = False
        self.norm = None
        self.lock = threading.Lock()

    @property
    def parameters(self) -> dict[int, ParameterState]:
        """What is kept for each parameter, by id."""
        known, self._columns = self._columns, ()
        for columns in known:
            rows = [*zip(*columns.tensors.values(), strict=True)] or [()] * len(columns.ids)
            for id, row in zip(columns.ids, rows, strict=True):
                state = dict(zip(columns.tensors, row, strict=True))
                self._parameters[id] = ParameterState(columns.steps, state)
        return self._parameters

    @parameters.setter
    def parameters(self, parameters: dict[int, ParameterState]) -> None:
        self._parameters, self._columns = parameters, ()

    def columns(self, groups: Sequence[list[int]]) -> tuple[StateColumns, ...] | None:
        """Return what is kept as columns, if it is for these parameters, of some groups."""
        if self._columns:
            return self._columns if [c.ids for c in self._columns] == [*groups] else None
        if len(self._parameters) != sum([len(ids) for ids in groups]):
            return None
        found = [self._columns_of(ids) for ids in groups]
        return None if None in found else tuple(found)  # type: ignore[arg-type]

    def _columns_of(self, ids: list[int]) -> StateColumns | None:
        """Return what is kept for parameters; None where they were not stepped equally often."""
        every = [self._parameters.get(id) for id in ids]
        first = every[0]
        if first is None:
            return None
        steps, names = first.steps, [*first.state]
        rows: list[Sequence[Tensor]] = []
        for one in every:
            if one is None or one.steps != steps or [*one.state] != names:
                return None
            rows.append([*one.state.values()])
        columns = [[*column] for column in zip(*rows, strict=True)]
        return StateColumns(ids, steps, dict(zip(names, columns, strict=True)))

    def keep_columns(self, columns: tuple[StateColumns, ...]) -> None:
        """Take up what a step made of all that is kept."""
        self._parameters.clear()
        self._columns = columns

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

    def note_model(self, model: Any) -> bool:
        """Note of which model this step is; whether it is the one that the last step made."""
        latest = self.latest
        if latest is not None and latest.model() is model:
            return True
        self.latest = None
        return False

    def note_lost(self, held: Sequence[Identified]) -> None:
        """Warn once, at the line of the step, where a model is that of before the last one."""
        if self.newest is None or self.is_warned:
            return
        id, version = self.newest
        if any([t.id == id and t.version < version for t in held]):
            frame = user_frame()
            warnings.warn_explicit(
                "step got the parameters of before the last step again, so what that one learned "
                "is lost; write model = optimizer.step(model, grads)",
                UserWarning,
                frame.f_code.co_filename,
                frame.f_lineno,
            )
            self.is_warned = True

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
