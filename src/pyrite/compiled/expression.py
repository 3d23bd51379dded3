"""Host scalars as they are computed anew at each call: each expression once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

from pyrite.backend.capture import ReplayState
from pyrite.op import HostScalar, is_host_scalar
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.tree import TreeNode, children_of, with_children

#: The states of a replay, by the keys of their effects.
States = Mapping[Hashable, ReplayState]


class _Operation(NamedTuple):
    """A source, by its effect and name, or a function of earlier values and of numbers."""

    function: Callable[..., Any] | None
    #: The operands of a function: the number of a value, and None; or -1 and a number.
    operands: tuple[tuple[int, Any], ...]
    effect: Hashable
    name: tuple[Any, ...]


def with_numbers(tree: Any, number: Callable[[HostScalar], Any]) -> Any:
    """Return what a function returns with numbers in the places of host scalars.

    They are looked for in lists, tuples, dicts and dataclasses; not in modules.
    """
    if is_host_scalar(tree):
        return number(tree)
    if isinstance(tree, Tensor | TreeNode):
        return tree
    changed = {
        name: made
        for name, child in children_of(tree)
        if (made := with_numbers(child, number)) is not child
    }
    return with_children(tree, changed) if changed else tree


class Expressions:
    """Some host scalars, in the order in which they are computed."""

    def __init__(self) -> None:
        self._steps: list[_Operation] = []
        self._known: dict[Hashable, int] = {}

    def add(self, scalar: HostScalar) -> int:
        """Return the number of a scalar's value; equal ones share it."""
        key = scalar.key
        number = self._known.get(key)
        if number is None:
            step = self._step(scalar)
            number = self._known[key] = len(self._steps)
            self._steps.append(step)
        return number

    def _step(self, scalar: HostScalar) -> _Operation:
        if scalar.function is None:
            effect, *name = scalar.operands
            return _Operation(None, (), effect, tuple(name))
        operands = tuple(
            [
                (self.add(x), None) if is_host_scalar(x) else (-1, x)
                for x in scalar.operands
            ]
        )  # fmt: skip
        return _Operation(scalar.function, operands, None, ())

    def values(self, states: States) -> list[Any]:
        """Return the value of each at a call."""
        found: list[Any] = []
        for function, operands, effect, name in self._steps:
            if function is None:
                found.append(states[effect].number(name))
            else:
                found.append(function(*[x if n < 0 else found[n] for n, x in operands]))
        return found
