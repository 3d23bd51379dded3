"""Loops: recorded over a `range` and over a condition of values, and written out over all else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from pyrite.errors import KernelError
from pyrite.extension.flow.carry import Carry
from pyrite.extension.flow.spans import Span
from pyrite.extension.flow.state import decided
from pyrite.extension.scope import KernelScope
from pyrite.kernel import Value
from pyrite.kernel.ir import Node, Region, Type


class Rounds:
    """A ``for`` over what Python knows: each round is written out.

    ``state`` has the values of the names, ``item`` what the loop is over; see
    `pyrite.extension.rewriting.statement`.
    """

    def __init__(
        self,
        items: Iterator[Any],
        names: Sequence[str],
        state: tuple[Any, ...],
        running: str | None,
    ) -> None:
        self._items = items
        self._running = None if running is None else names.index(running)
        self.state = state
        self.item: Any = None

    def more(self) -> bool:
        """Return whether a round is to be run."""
        if self._running is not None and self.state[self._running] is False:
            return False
        try:
            self.item = next(self._items)
        except StopIteration:
            return False
        return True

    def end(self, *state: Any) -> None:
        """End a round, after which the names have values."""
        self.state = state


class RecordedLoop(ABC):
    """A loop that is recorded: its body again and again, until the types that it carries stay."""

    def __init__(self, scope: KernelScope, carry: Carry, state: tuple[Any, ...]) -> None:
        self._scope = scope
        self._carry = carry
        self._ends: tuple[Any, ...] | None = None
        self._initial: list[Node] = []
        self._memories = 0
        self.state = state
        self.item: Any = None

    def more(self) -> bool:
        """Return whether the body is to be recorded, or recorded again."""
        if self._ends is not None:
            ends, self._ends = self._ends, None
            if self._carry.settle(ends):
                self._finish(ends)
                return False
            self._discard()
        self._initial = self._carry.initial()
        self._memories = self._scope.memories()
        self._begin()
        return True

    def end(self, *state: Any) -> None:
        """End the body, after which the names have values."""
        self._ends = state

    @abstractmethod
    def _begin(self) -> None:
        """Open the region of the body, or of what stands before it."""

    @abstractmethod
    def _finish(self, ends: tuple[Any, ...]) -> None:
        """Close the regions, and set the state after the loop."""

    def _discard(self) -> None:
        self._scope.discard()
        self._scope.forget_memories(self._memories)

    def _open(self, *types: Type) -> tuple[Node, ...]:
        """Open a region with parameters: of some types, and of what is carried."""
        every = (*types, *self._carry.types)
        parameters = tuple(Node("parameter", t, (), i) for i, t in enumerate(every))
        self._scope.open(parameters)
        return parameters

    def _results(self, node: Node, skipped: int = 0) -> None:
        found = [
            self._scope.emit("result", type, (node,), i + skipped)
            for i, type in enumerate(self._carry.types)
        ]
        self.state = self._carry.ended(found)


class Counted(RecordedLoop):
    """A ``for`` over a `range`, up or down, that nothing leaves early."""

    def __init__(
        self, scope: KernelScope, span: Span, carry: Carry, state: tuple[Any, ...]
    ) -> None:
        super().__init__(scope, carry, state)
        self._span = span

    def _begin(self) -> None:
        counter, *rest = self._open(self._scope.index_type)
        self.item = self._span.item(counter)
        self.state = self._carry.begun(rest, is_body=True)

    def _finish(self, ends: tuple[Any, ...]) -> None:
        region = self._scope.close(self._carry.yields(ends))
        span = self._span
        inputs = (span.start.node, span.stop.node, *self._initial)
        node = self._scope.emit("for", None, inputs, (span.step, False, False), (region,))
        self._results(node)


class Leaving(RecordedLoop):
    """A ``for`` over a `range` that a ``break`` may leave: a loop while neither has ended it."""

    def __init__(
        self, scope: KernelScope, span: Span, carry: Carry, state: tuple[Any, ...], running: int
    ) -> None:
        super().__init__(scope, carry, state)
        self._span = span
        self._running = running
        self._condition: Region | None = None
        self._counter: Value = span.start

    def _begin(self) -> None:
        scope = self._scope
        scope.note_open_ended()
        counter, *rest = self._open(scope.index_type)
        is_running = self._carry.begun(rest, is_body=False)[self._running]
        decided = scope.plain.of(counter) < scope.plain.of(self._span.stop.node)
        both = scope.of(decided.node) & is_running
        self._condition = scope.close((both.node,))
        counter, *rest = self._open(scope.index_type)
        self._counter = scope.plain.of(counter)
        self.item = self._span.item(counter)
        self.state = self._carry.begun(rest, is_body=True)

    def _finish(self, ends: tuple[Any, ...]) -> None:
        assert self._condition is not None
        following = self._counter + self._span.step
        region = self._scope.close([following.node, *self._carry.yields(ends)])
        inputs = (self._span.start.node, *self._initial)
        node = self._scope.emit("while", None, inputs, None, (self._condition, region))
        self._results(node, skipped=1)


class While(RecordedLoop):
    """A ``while``: recorded, unless its condition is Python's whatever the kernel does."""

    def __init__(self, scope: KernelScope, carry: Carry, state: tuple[Any, ...]) -> None:
        super().__init__(scope, carry, state)
        self._before = state
        self._condition: Region | None = None
        self._is_python: bool | None = None

    def more(self) -> bool:
        """Return whether the condition is to be looked at."""
        if self._is_python is None:
            return super().more()
        return self._is_python

    def decide(self, condition: Any) -> bool:
        """Take the condition; return whether the body is to be run, or recorded."""
        condition = condition if self._is_python else decided(condition)
        if self._is_python is None and not isinstance(condition, Value):
            self._discard()
            self._is_python = True
            self.state = self._before
        if self._is_python:
            self._is_python = _known(condition)
            return self._is_python
        self._scope.note_open_ended()
        self._condition = self._scope.close((condition.node,))
        self.state = self._carry.begun(self._open(), is_body=True)
        return True

    def end(self, *state: Any) -> None:
        """End the body, after which the names have values."""
        if self._is_python:
            self.state = state
        else:
            super().end(*state)

    def _begin(self) -> None:
        self.state = self._carry.begun(self._open(), is_body=False)

    def _finish(self, ends: tuple[Any, ...]) -> None:
        assert self._condition is not None
        region = self._scope.close(self._carry.yields(ends))
        node = self._scope.emit(
            "while", None, tuple(self._initial), None, (self._condition, region)
        )
        self._results(node)


def _known(condition: Any) -> bool:
    if isinstance(condition, Value):
        raise KernelError(
            "while requires a condition that Python knows in each round or in none, got a value of "
            "the kernel after rounds of Python; set what it reads to a value before the loop"
        )
    return bool(condition)
