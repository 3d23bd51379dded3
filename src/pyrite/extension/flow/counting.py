"""A ``while`` of a kernel that is differentiated: run once for its rounds, then by their number.

What is walked back has to be counted.  So the loop is recorded as it is, of which the number of
rounds alone is taken, and then as a ``for`` over so many, of which everything else is.
"""

from __future__ import annotations

from typing import Any

from pyrite.extension.flow.carry import Carry
from pyrite.extension.flow.loop import While
from pyrite.extension.flow.state import decided
from pyrite.extension.scope import KernelScope
from pyrite.kernel import Value
from pyrite.kernel.ir import Node


class CountedWhile(While):
    """It: see `While` for what is called in which order."""

    def __init__(self, scope: KernelScope, carry: Carry, state: tuple[Any, ...]) -> None:
        super().__init__(scope, carry, state)
        self._rounds: Node | None = None
        self._counter: Node | None = None
        scope.is_counting = True

    def more(self) -> bool:
        """Return whether the condition is to be looked at."""
        is_counting = self._is_python is None and self._rounds is None
        if super().more():
            return True
        if not is_counting or self._is_python is not None:
            return False
        self._scope.is_counting = False
        return super().more()

    def decide(self, condition: Any) -> bool:
        """Take the condition; return whether the body is to be run, or recorded."""
        if self._is_python is None and self._rounds is not None:
            return True
        found = condition if self._is_python else decided(condition)
        if not isinstance(found, Value):
            # Python's own loop, of which each round is written out.
            self._scope.is_counting = False
            return super().decide(found)
        if self._is_python:
            return super().decide(found)
        self._condition = self._scope.close((found.node,))
        self._counter, *rest = self._open(self._scope.index_type)
        self.state = self._carry.begun(rest, is_body=True)
        return True

    def _begin(self) -> None:
        _, *rest = self._open(self._scope.index_type)
        self.state = self._carry.begun(rest, is_body=self._rounds is not None)

    def _finish(self, ends: tuple[Any, ...]) -> None:
        scope, yields = self._scope, self._carry.yields(ends)
        if self._rounds is not None:
            region = scope.close(yields)
            inputs = (scope.index(0).node, self._rounds, *self._initial)
            self._results(scope.emit("for", None, inputs, (1, False, False), (region,)))
            return
        assert self._condition is not None
        assert self._counter is not None
        following = scope.plain.of(self._counter) + 1
        region = scope.close([following.node, *yields])
        regions = (self._condition, region)
        inputs = (scope.index(0).node, *self._initial)
        node = scope.emit("while", None, inputs, None, regions)
        self._rounds = scope.emit("result", scope.index_type, (node,), 0)
