"""Rules whose update is one op: a device may step all parameters at once.

A step of small parameters costs what its calls cost, not what it computes: 70 parameters one by one
are 70 calls, and eight kernels each.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from pyrite.optim.optimizer import Optimizer
from pyrite.optim.run import State, Turn
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
        self, turns: Sequence[Turn], *, learning_rate: float
    ) -> list[tuple[Tensor, State]]:
        """Return the parameter of each turn after a step, and its state under the same names."""

    def update(
        self, gradient: Tensor, parameter: Tensor, state: State, *, learning_rate: float, step: int
    ) -> tuple[Tensor, State]:
        """Return a parameter after a step, and its state."""
        turn = Turn(gradient, parameter, state, step)
        return self.joint_update([turn], learning_rate=learning_rate)[0]

    def update_many(
        self, turns: Sequence[Turn], *, learning_rate: float
    ) -> list[tuple[Tensor, State]]:
        """Return each parameter after a step, and its state."""
        return self.joint_update(turns, learning_rate=learning_rate)


def named(turns: Sequence[Turn], made: Sequence[tuple[Tensor, ...]]) -> list[tuple[Tensor, State]]:
    """Return each parameter after a step, and its new tensors under the names of its state."""
    return [
        (new, dict(zip(turn.state, state, strict=True)))
        for turn, (new, *state) in zip(turns, made, strict=True)
    ]
