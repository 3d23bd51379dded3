"""What a rule makes of the parameters that are due: their next values, and what is kept for them.

Nothing here changes what is kept: a step commits all or nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from pyrite.errors import PyriteError
from pyrite.optim.due import Due
from pyrite.optim.run import Slot, State, Turn
from pyrite.optim.values import like, on_device
from pyrite.tensor.parameter import Parameter
from pyrite.tensor.tensor import Tensor


class Rule(Protocol):
    """What is asked of an optimiser here."""

    def init(self, parameter: Tensor) -> State:
        """Return what is kept for a parameter that was never stepped."""
        ...

    def update_many(
        self, turns: Sequence[Turn], *, learning_rate: float
    ) -> list[tuple[Tensor, State]]:
        """Return parameter and state of each turn after a step."""
        ...


def updated(
    rule: Rule, rate: float, due: Sequence[Due], slots: Mapping[int, Slot]
) -> list[tuple[Parameter, Slot]]:
    """Return each parameter after a step of the rule, and what is kept for it.

    An error of one parameter names its path.
    """
    turns = [_turn(rule, one, slots.get(one.parameter.id)) for one in due]
    try:
        made = rule.update_many(turns, learning_rate=rate)
    except PyriteError:
        # One by one tells of which parameter it is an error.
        made = [_single(rule, rate, one, turn) for one, turn in zip(due, turns, strict=True)]
    return [
        (_renewed(one.parameter, new), Slot(turn.step, state))
        for one, turn, (new, state) in zip(due, turns, made, strict=True)
    ]


def _turn(rule: Rule, due: Due, slot: Slot | None) -> Turn:
    try:
        steps, state = Slot(0, rule.init(due.value)) if slot is None else slot
        kept = _beside(due.value, state)
    except PyriteError as error:
        raise due.named(error)  # noqa: B904 - the same error
    return Turn(due.gradient, due.value, kept, steps + 1)


def _beside(value: Tensor, state: State) -> State:
    """Return a state on the device of a value, to which its model may have been moved."""
    backend = value._backend
    for t in state.values():
        if t._backend is not backend:
            return {name: on_device(t, value) for name, t in state.items()}
    return dict(state)


def _single(rule: Rule, rate: float, due: Due, turn: Turn) -> tuple[Tensor, State]:
    try:
        return rule.update_many([turn], learning_rate=rate)[0]
    except PyriteError as error:
        raise due.named(error)  # noqa: B904 - the same error


def _renewed(parameter: Parameter, new: Tensor) -> Parameter:
    return parameter.with_value(like(new, parameter), version=parameter.version + 1)
