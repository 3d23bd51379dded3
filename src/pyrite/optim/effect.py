"""What a step does to an optimiser, for functions that are compiled: see `pyrite.backend.capture`.

Its sources of host scalars are ``("rate", rule, offset)``, the rate of a rule after so many further
steps, ``("steps", offset)``, the steps made, and ``("step", id, offset)``, the number of a
parameter's step.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Protocol

from pyrite.backend.capture import capturing
from pyrite.op import HostScalar, TensorBase
from pyrite.optim.schedule.rate import rate_at
from pyrite.optim.state import OptimizerState, ParameterState, in_one_thread
from pyrite.tensor.parameter import Identified
from pyrite.tensor.tensor import Tensor
from pyrite.types import Number

#: The name of the norm of the gradients; all other tensors are those of parameters.
_NORM = "norm"


class Stepped(Protocol):
    """What is asked of an optimiser here."""

    @property
    def _state(self) -> OptimizerState: ...

    def _rules(self) -> Sequence[Any]: ...


class OptimizerEffect:
    """An optimiser that a captured call steps."""

    def __init__(self, optimizer: Stepped) -> None:
        self._optimizer = optimizer
        self._state = optimizer._state
        state = self._state
        self._key = ("optimizer", id(optimizer))
        self._before = state.copy()
        self._before.newest, self._before.is_warned = state.newest, state.is_warned
        #: Parameters by the steps that were made of them, and by how many of these in this call.
        self._together: dict[tuple[int, int], list[int]] = {}

    # ---- while a call is captured ----

    def rates(self, rates: Sequence[float]) -> list[float]:
        """Return the rates of the rules as host scalars."""
        offset = self._state.steps - self._before.steps
        return [self._source(rate, "rate", n, offset) for n, rate in enumerate(rates)]

    def steps(self) -> Any:
        """Return the steps made as a host scalar."""
        steps = self._state.steps
        return self._source(steps, "steps", steps - self._before.steps)

    def step(self, id: int, steps: int) -> Any:
        """Return the number of a parameter's step, which follows so many, as a host scalar.

        Parameters that were stepped equally often share one.
        """
        before = self._before.parameters.get(id)
        offset = steps + 1 - (0 if before is None else before.steps)
        together = self._together.setdefault((steps + 1, offset), [])
        together.append(id)
        return self._source(steps + 1, "step", together[0], offset)

    def _source(self, value: Number, *name: Hashable) -> Any:
        return HostScalar.source(value, self._key, *name)

    # ---- what it did ----

    def before(self) -> dict[Hashable, TensorBase]:
        """Return the tensors of its state before the call."""
        return _tensors(self._before.parameters)

    def after(self) -> dict[Hashable, TensorBase]:
        """Return those of the parameters that were stepped, and the norm."""
        found = _tensors(self._stepped())
        if self._state.norm is not None and self._state.norm is not self._before.norm:
            found[_NORM] = self._state.norm
        return found

    @property
    def form(self) -> Hashable:
        """How often it was stepped, and each parameter, and what names its last step."""
        before = self._before.parameters
        stepped = [
            (id, kept.steps - (before[id].steps if id in before else 0), tuple(kept.state))
            for id, kept in self._stepped().items()
        ]
        newest = None if self._state.newest is None else self._state.newest[0]
        groups = [(offset, tuple(ids)) for (_, offset), ids in self._together.items()]
        return self._state.steps - self._before.steps, tuple(stepped), newest, tuple(groups)

    def _stepped(self) -> dict[int, ParameterState]:
        before = self._before.parameters
        return {
            id: kept for id, kept in self._state.parameters.items() if before.get(id) is not kept
        }

    def restore(self) -> None:
        """Make the optimiser what it was."""
        state, before = self._state, self._before
        state.steps, state.newest, state.norm = before.steps, before.newest, before.norm
        state.parameters, state.is_warned = dict(before.parameters), before.is_warned

    # ---- a replay ----

    def plan(self) -> OptimizerReplay:
        """Return what does it again."""
        by = self._state.steps - self._before.steps
        before = self._before.parameters
        stepped = {
            id: (kept.steps - (before[id].steps if id in before else 0), tuple(kept.state))
            for id, kept in self._stepped().items()
        }
        newest = None if self._state.newest is None else self._state.newest[0]
        return OptimizerReplay(
            self._optimizer, by, stepped, [tuple(ids) for ids in self._together.values()], newest
        )


class OptimizerReplay:
    """Steps of an optimiser, done again: ``stepped`` gives how often and what is kept, by id."""

    def __init__(
        self,
        optimizer: Stepped,
        by: int,
        stepped: Mapping[int, tuple[int, tuple[str, ...]]],
        together: Sequence[Sequence[int]],
        newest: int | None,
    ) -> None:
        self._optimizer = optimizer
        self._by = by
        self._stepped = stepped
        self._together = together
        self._newest = newest

    @property
    def _state(self) -> OptimizerState:
        return self._optimizer._state

    def held(self) -> _Held:
        """Hold the optimiser.  Raises TrainError while another thread does."""
        return _Held(self, in_one_thread(self._state.lock))

    def fits(self, leaves: Sequence[Tensor]) -> bool:
        """Whether it is as the captured call found it, but for numbers and values."""
        kept = self._state.parameters
        try:
            for ids in self._together:
                steps = kept[ids[0]].steps
                if any([kept[id].steps != steps for id in ids]):
                    return False
        except KeyError:
            return False
        self._state.note_lost([t for t in leaves if isinstance(t, Identified)])
        return True

    def number(self, name: tuple[Any, ...]) -> Number:
        """Return a host scalar's value."""
        state = self._state
        if name[0] == "rate":
            rule = self._optimizer._rules()[name[1]]
            return rate_at(rule.learning_rate, state.steps + name[2])
        if name[0] == "steps":
            return state.steps + int(name[1])
        return state.parameters[name[1]].steps + int(name[2])

    def tensors(self, names: Sequence[tuple[int, str]]) -> list[Tensor]:
        """Return tensors of the state.  Raises KeyError where there is none of a name."""
        kept = self._state.parameters
        return [kept[id].state[part] for id, part in names]

    def commit(self, renewed: Mapping[Hashable, Tensor], versions: Mapping[int, int]) -> None:
        """Put tensors in place, and count the steps."""
        state = self._state
        kept = state.parameters
        for id, (by, names) in self._stepped.items():
            kept[id] = ParameterState(
                kept[id].steps + by, {name: renewed[id, name] for name in names}
            )
        state.steps += self._by
        state.norm = renewed.get(_NORM)
        if self._newest is not None:
            state.newest = (self._newest, versions[self._newest])


class _Held:
    """An optimiser that is held for a block."""

    __slots__ = ("_lock", "_replay")

    def __init__(self, replay: OptimizerReplay, lock: in_one_thread) -> None:
        self._replay, self._lock = replay, lock

    def __enter__(self) -> OptimizerReplay:
        self._lock.__enter__()
        return self._replay

    def __exit__(self, *_: object) -> None:
        self._lock.__exit__()


def _tensors(parameters: Mapping[int, ParameterState]) -> dict[Hashable, TensorBase]:
    return {(id, name): t for id, kept in parameters.items() for name, t in kept.state.items()}


def effect_of(optimizer: Stepped) -> OptimizerEffect | None:
    """Return what is noted of an optimiser in this call, None where none is captured."""
    capture = capturing()
    if capture is None:
        return None
    return capture.effect(("optimizer", id(optimizer)), lambda: OptimizerEffect(optimizer))
