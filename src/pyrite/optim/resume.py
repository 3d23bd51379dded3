"""An optimiser's memory to and from a record, by the paths of parameters.

Array ``encoder.weight.first_moment`` is the state ``first_moment`` of the parameter
``encoder.weight``.  Metadata holds the steps made, the state of each schedule that has one, and the
settings, which a later program must agree with: a training that goes on with others is another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyrite.errors import RecordError
from pyrite.optim.group import regrouping
from pyrite.optim.schedule.rate import Observer
from pyrite.optim.settings import description, difference
from pyrite.optim.state import OptimizerState, ParameterState, RuleState
from pyrite.record import Record
from pyrite.tensor.creation import tensor
from pyrite.tensor.parameter import Parameter
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.tree import tree_paths
from pyrite.types import Array


def record_of(
    configuration: Mapping[str, Any],
    groups: list[list[Any]],
    state: OptimizerState,
    observers: list[Observer],
    model: Any,
) -> Record:
    """Return the state of an optimiser as a record."""
    own = state.parameters
    kept = {path: own[p.id] for path, p in parameters_of(model).items() if p.id in own}
    return Record(
        {
            f"{path}.{name}": value.numpy()
            for path, one in kept.items()
            for name, value in one.state.items()
        },
        {
            "settings": described(configuration),
            "groups": groups,
            "steps": state.steps,
            "parameter_steps": {path: one.steps for path, one in kept.items()},
            "schedules": [observer.state() for observer in observers],
        },
    )


def loaded(
    configuration: Mapping[str, Any],
    record: Record,
    model: Any,
    init: Callable[[Parameter], RuleState],
    *,
    allow_changes: bool,
) -> OptimizerState:
    """Return the state that a record holds, for the parameters of a model.

    ``init`` gives the state that a parameter would begin with: names, shapes and dtypes must agree.
    """
    if not allow_changes:
        require_settings(configuration, record)
    parameters = parameters_of(model)
    counts = entry(record, "parameter_steps")
    unknown = sorted(counts.keys() - parameters.keys())
    if unknown:
        raise RecordError(
            f"load_record requires parameters of the model, got {', '.join(unknown)}; it has "
            f"{', '.join(parameters)}"
        )
    kept = {
        parameters[path].id: ParameterState(
            int(steps),
            {
                name: _restored(record, f"{path}.{name}", like)
                for name, like in init(parameters[path]).items()
            },
        )
        for path, steps in counts.items()
    }
    return OptimizerState(int(entry(record, "steps")), kept)


def load_observers(observers: list[Observer], record: Record, *, allow_changes: bool) -> None:
    """Give schedules that follow a metric the states that were recorded."""
    states = entry(record, "schedules")
    if len(states) == len(observers):
        for observer, state in zip(observers, states, strict=True):
            observer.load_state(state)
    elif not allow_changes:
        raise RecordError(
            f"load_record requires states of {len(observers)} schedules that follow a metric, got "
            f"{len(states)}"
        )


def require_settings(configuration: Mapping[str, Any], record: Record) -> None:
    """Raise RecordError, naming the first difference, unless a record has these settings."""
    found = difference(entry(record, "settings"), described(configuration), "settings")
    if found:
        raise RecordError(
            f"load_record requires the settings that were recorded, got {found}; pass "
            "allow_changes=True to go on with the new ones"
        )


def require_groups(groups: list[list[Any]], record: Record) -> None:
    """Raise RecordError, naming the first difference, unless a record's groups have these paths.

    Records of before groups were kept in them have none.
    """
    found = regrouping(record.metadata.get("groups", ()), groups)
    if found:
        raise RecordError(
            f"load_record requires groups of the parameters that were recorded, got {found}; pass "
            "allow_changes=True to go on with the new ones"
        )


def described(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as JSON values."""
    return {name: description(value) for name, value in configuration.items()}


def parameters_of(model: Any) -> dict[str, Parameter]:
    """Return the parameters by path, tied ones once, under the first."""
    first: dict[int, tuple[str, Parameter]] = {}
    for path, leaf in tree_paths(model):
        if isinstance(leaf, Parameter):
            first.setdefault(leaf.id, (path, leaf))
    return dict(first.values())


def entry(record: Record, name: str) -> Any:
    """Return an entry of an optimiser's metadata; raise RecordError when there is none."""
    if name not in record.metadata:
        raise RecordError(
            f"load_record requires the record of an optimizer, got one without {name!r}; the "
            "model's own record is loaded by model.load_record"
        )
    return record.metadata[name]


def array_of(record: Record, name: str) -> Array:
    """Return an array of the record; raise RecordError when there is none."""
    if name not in record.arrays:
        raise RecordError(f"load_record requires an array {name!r}, got none")
    return record.arrays[name]


def _restored(record: Record, name: str, like: Tensor) -> Tensor:
    found = tensor(array_of(record, name), device=like.device)
    if found._type != like._type:
        raise RecordError(f"load_record requires {name} of {like._type}, got {found._type}")
    return found
