"""Rules whose update is one op: a device may step all parameters at once.

A step of small parameters costs what its calls cost, not what it computes: 70 parameters one by one
are 70 calls, and eight kernels each.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from pyrite.optim.optimizer import Optimizer
from pyrite.optim.state import ParameterUpdate, RuleState
from pyrite.tensor.tensor import Tensor


class Joint(Optimizer):
    """A rule that defines the update of many parameters, by `pyrite.op.many`, instead of one.

    A subclass that defines ``update`` after all is asked for one parameter after the other.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "update" in vars(cls):
            cls.update_many = Optimizer.update_many  # type: ignore[method-assign]

    @abstractmethod
    def joint_update(
        self, updates: Sequence[ParameterUpdate], *, learning_rate: float
    ) -> list[tuple[Tensor, RuleState]]:
        """Return the parameter of each update after a step, and its state under the same names."""

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
