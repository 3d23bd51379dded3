"""Rules whose update is one op: a device may step all parameters at once.

A step of small parameters costs what its calls cost, not what it computes: 70 parameters one by one
are 70 calls, and eight kernels each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyrite.autodiff.gradients import Gradients
from pyrite.errors import ArgumentTypeError
from pyrite.op import many
from pyrite.optim.columns import JointCall, SteppedColumns, step_columns
from pyrite.optim.optimizer import Optimizer
from pyrite.optim.state import ParameterUpdate, RuleState
from pyrite.tensor.parameter import Identified
from pyrite.tensor.tensor import Tensor


class Joint(Optimizer):
    """A rule that defines the update of many parameters, by `pyrite.op.many`, instead of one.

    It defines `joint_call`, or `joint_update` if that is not all.  A subclass that defines
    ``update`` after all is asked for one parameter after the other.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "update" in vars(cls):
            cls.update_many = Optimizer.update_many  # type: ignore[method-assign]

    def joint_call(self, learning_rate: float, step: int) -> JointCall:
        """Return the op that updates each parameter that is at this step."""
        raise ArgumentTypeError(
            f"{type(self).__name__} requires joint_call, joint_update or update, got none of them; "
            "define one"
        )

    def joint_update(
        self, updates: Sequence[ParameterUpdate], *, learning_rate: float
    ) -> list[tuple[Tensor, RuleState]]:
        """Return the parameter of each update after a step, and its state under the same names."""
        # Parameters of one age share their numbers.  One of a captured call is known by itself.
        calls: dict[int, JointCall] = {}
        rows: list[tuple[Any, ...]] = []
        for gradient, parameter, state, step in updates:
            age = step if type(step) is int else id(step)
            if age not in calls:
                calls[age] = self.joint_call(learning_rate, step)
            call = calls[age]
            tensors = {"parameter": parameter, "gradient": gradient, **state}
            rows.append(tuple([tensors.get(x) if type(x) is str else x for x in call.inputs]))
        if not updates:
            return []
        made = many(call.method, rows, **call.attrs)
        if not isinstance(made[0], tuple):
            return [(new, {}) for new in made]
        return named(updates, made)

    def _step_columns(
        self,
        held: Sequence[Identified],
        gradients: Gradients,
        rates: Sequence[float],
    ) -> SteppedColumns | None:
        """Return what a step makes by columns; None where that is not as always."""
        rules: list[Any] = self._rules()
        if not all([_is_one_call(type(rule)) for rule in rules]):
            return None
        if any([rule._clipping is not None for rule in rules[1:]]):
            return None
        return step_columns(rules, rates, held, gradients, self._state)

    def update(
        self,
        gradient: Tensor,
        parameter: Tensor,
        state: RuleState,
        *,
        learning_rate: float,
        step: int,
    ) -> tuple[Tensor, RuleState]:
        """Return a parameter after a step, and its state."""
        update = ParameterUpdate(gradient, parameter, state, step)
        return self.joint_update([update], learning_rate=learning_rate)[0]

    def update_many(
        self, updates: Sequence[ParameterUpdate], *, learning_rate: float
    ) -> list[tuple[Tensor, RuleState]]:
        """Return each parameter after a step, and its state."""
        return self.joint_update(updates, learning_rate=learning_rate)


def named(
    updates: Sequence[ParameterUpdate], made: Sequence[tuple[Tensor, ...]]
) -> list[tuple[Tensor, RuleState]]:
    """Return each parameter after a step, and its new tensors under the names of its state."""
    return [
        (new, dict(zip(update.state, state, strict=True)))
        for update, (new, *state) in zip(updates, made, strict=True)
    ]


def _is_one_call(kind: Any) -> bool:
    """Whether the update of a rule's class is what its `Joint.joint_call` says."""
    return (
        issubclass(kind, Joint)
        and kind.joint_update is Joint.joint_update
        and kind.update_many is Joint.update_many
    )
