"""A `range` of numbers and values, and the counter that a loop over it has."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any

from pyrite.errors import KernelError
from pyrite.extension.mistake import shown
from pyrite.extension.number import WeakValue
from pyrite.extension.scope import KernelScope
from pyrite.kernel import Value
from pyrite.kernel.ir import Node
from pyrite.symbol import Symbol


class Range:
    """A `range` of values of the kernel."""

    def __init__(self, start: Any, stop: Any, step: Any) -> None:
        if isinstance(step, Value) or not step:
            raise KernelError(
                f"range requires a step that is known while the kernel is written, and not 0, got "
                f"{shown(step)}; count the rounds, and multiply: start + i * step"
            )
        self.start, self.stop, self.step = start, stop, int(step)

    def __iter__(self) -> Iterator[Any]:
        raise KernelError(
            "a range of values of the kernel requires a for statement over it, got another use; "
            "write for i in range(n):"
        )


def range_of(*bounds: Any) -> Any:
    """Return a `range`, of values too."""
    if not any(isinstance(b, Value | Symbol) for b in bounds):
        if len(bounds) == 3 and bounds[2] == 0:
            return Range(*bounds)  # its error, not Python's
        return builtins.range(*bounds)
    start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    return Range(start, stop, step)


class Span:
    """The numbers of a `range`, as a counter that goes up, and what is made of it."""

    def __init__(self, scope: KernelScope, start: Any, stop: Any, step: int) -> None:
        self._scope = scope
        self._first: Value | None = None
        self._down = 1
        if step < 0:
            self._first, self._down = self._index(start), -step
            start, stop, step = 0, self._rounds(start, stop, -step), 1
        self.start, self.stop, self.step = self._index(start), self._index(stop), step

    def _rounds(self, start: Any, stop: Any, step: int) -> Any:
        if isinstance(start, int) and isinstance(stop, int):
            return len(builtins.range(start, stop, -step))
        start, stop = self._index(start), self._index(stop)
        return self._scope.max((start - stop + (step - 1)) // step, 0)

    def _index(self, x: Any) -> Value:
        if isinstance(x, Value) and x.type is not self._scope.index_type:
            raise KernelError(
                f"range requires numbers and values of {self._scope.index_type}, got {x.type}; "
                f"cast it: k.cast(n, {self._scope.index_type.dtype.name!r})"
            )
        return self._scope.of(self._scope.index(x).node)

    def item(self, counter: Node) -> Value:
        """Return the number of a round, given its counter."""
        scope = self._scope
        scope.note_counter(counter, self.start, self.stop, self.step)
        value = scope.of(counter)
        if self._first is not None:
            value = self._first - value * self._down
        return WeakValue(scope, value.node)
