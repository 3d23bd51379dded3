"""What a rule makes of the parameters that are due: their next values, and what is kept for them.

Nothing here changes what is kept: a step commits all or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from pyrite.columns import Maker
from pyrite.errors import PyriteError
from pyrite.op import value_of
from pyrite.optim.parameter_gradient import ParameterGradient
from pyrite.optim.state import ParameterState, ParameterUpdate, RuleState
from pyrite.optim.values import like, on_device
from pyrite.tensor.parameter import Parameter
from pyrite.tensor.tensor import Tensor


class UpdateRule(Protocol):
    """What is asked of an optimiser here."""

    def init(self, parameter: Tensor) -> RuleState:
        """Return what is kept for a parameter that was never stepped."""
        ...

    def update_many(
        self, updates: Sequence[ParameterUpdate], *, learning_rate: float
    ) -> list[tuple[Tensor, RuleState]]:
        """Return parameter and state of each update after a step."""
        ...


class StepNumbers(Protocol):
    """How the number of a parameter's step is told."""

    def step(self, id: int, steps: int) -> int:
        """Return the number of the step that follows so many."""
        ...


def updated(
    rule: UpdateRule,
    rate: float,
    due: Sequence[ParameterGradient],
    kept: Mapping[int, ParameterState],
    numbers: StepNumbers | None = None,
) -> list[tuple[Parameter, ParameterState]]:
    """Return each parameter after a step of the rule, and what is kept for it.

    An error of one parameter names its path.  ``numbers`` are those that a rule gets where a call
    is captured.
    """
    updates = [
        _kept_update(one, before)
        if numbers is None and (before := kept.get(one.parameter.id)) is not None
        else _update(rule, one, kept.get(one.parameter.id), numbers)
        for one in due
    ]
    try:
        made = rule.update_many(updates, learning_rate=rate)
    except PyriteError:
        # One by one tells of which parameter it is an error.
        made = [_single(rule, rate, one, update) for one, update in zip(due, updates, strict=True)]
    if numbers is not None:
        updates = [update._replace(step=value_of(update.step)) for update in updates]
    parameters = _all_renewed([one.parameter for one in due], [new for new, _ in made])
    steps, states = [update.step for update in updates], [state for _, state in made]
    return [*zip(parameters, map(_made_state, zip(steps, states, strict=True)), strict=True)]


#: What make these of a tuple, in half the time.
_made_update: Callable[[tuple[Any, ...]], ParameterUpdate] = partial(tuple.__new__, ParameterUpdate)
_made_state: Callable[[tuple[Any, ...]], ParameterState] = partial(tuple.__new__, ParameterState)


def _kept_update(due: ParameterGradient, before: ParameterState) -> ParameterUpdate:
    """Return what a rule gets for a parameter that it stepped before, of a call as written."""
    _, _, value, gradient = due
    steps, state = before
    return _made_update((gradient, value, _beside(value, state), steps + 1))


def _update(
    rule: UpdateRule,
    due: ParameterGradient,
    before: ParameterState | None,
    numbers: StepNumbers | None,
) -> ParameterUpdate:
    try:
        steps, state = ParameterState(0, rule.init(due.value)) if before is None else before
        kept = _beside(due.value, state)
    except PyriteError as error:
        raise due.named(error)  # noqa: B904 - the same error
    step = steps + 1 if numbers is None else numbers.step(due.parameter.id, steps)
    return ParameterUpdate(due.gradient, due.value, kept, step)


def _beside(value: Tensor, state: RuleState) -> RuleState:
    """Return a state on the device of a value, to which its model may have been moved."""
    backend = value._backend
    for t in state.values():
        if t._backend is not backend:
            return {name: on_device(t, value) for name, t in state.items()}
    return dict(state)


def _single(
    rule: UpdateRule, rate: float, due: ParameterGradient, update: ParameterUpdate
) -> tuple[Tensor, RuleState]:
    try:
        return rule.update_many([update], learning_rate=rate)[0]
    except PyriteError as error:
        raise due.named(error)  # noqa: B904 - the same error


def _all_renewed(parameters: Sequence[Parameter], values: Sequence[Tensor]) -> Sequence[Parameter]:
    """Return each parameter with a new value, its version one more."""
    lead = parameters[0]._backend if parameters else None
    if (
        lead is None or lead.level or {*map(type, parameters)} != {Parameter}
        or any([p._backend is not lead for p in parameters])
        or any([new._backend is not lead for new in values])
        or any([new._type.key != p._type.key or not p._type.key
                for new, p in zip(values, parameters, strict=True)])
    ):  # fmt: skip
        return [_renewed(p, new) for p, new in zip(parameters, values, strict=True)]
    return _parameters.many(
        len(parameters),
        [new._handle for new in values], [new._type for new in values], lead, None,
        [p.id for p in parameters], [p.version + 1 for p in parameters],
        [p.trainable for p in parameters],
    )  # fmt: skip


_parameters = Maker(
    Parameter, "_handle", "_type", "_backend", "_initial", "id", "version", "trainable"
)


def _renewed(parameter: Parameter, new: Tensor) -> Parameter:
    backend = parameter._backend
    if new._backend is backend and new._type.key == parameter._type.key != 0 and not backend.level:
        made = parameter._same(new._type, backend)
        made.version = parameter.version + 1
        made._handle = new._handle
        return made
    return parameter.with_value(like(new, parameter), version=parameter.version + 1)
