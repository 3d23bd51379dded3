"""The functions that a rewritten kernel calls: see `pyrite.extension.rewriting`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyrite.extension.flow.branch import Branch
from pyrite.extension.flow.carry import Carry
from pyrite.extension.flow.counting import CountedWhile
from pyrite.extension.flow.loop import Counted, Leaving, RecordedLoop, Rounds, While
from pyrite.extension.flow.spans import Range, Span
from pyrite.extension.flow.state import Left, Nothing, decided
from pyrite.extension.flow.words import Called
from pyrite.extension.printing import Joined
from pyrite.extension.scope import KernelScope
from pyrite.extension.unset import Unset
from pyrite.kernel import Value
from pyrite.kernel.ir import Node
from pyrite.symbol import Symbol

#: Nodes of these kinds may be computed where they are not wanted: they neither read nor fail.
_FREE = frozenset(
    ("const", "builtin", "alu", "cast", "bitcast", "select", "splat", "make", "extract")
)


class Flow:
    """The control flow of one kernel that is being recorded."""

    def __init__(self, scope: KernelScope) -> None:
        self._scope = scope
        self._called = Called(scope, self)
        #: What a function returns, until it does.
        self.nothing = Nothing("what is returned")
        #: What names are on a way that was left.
        self.left = Left("a name")

    def unset(self, name: str) -> Unset:
        """Return what a name is before it is set."""
        return Unset(name)

    def if_set(self, value: Any) -> Any:
        """Return what a name is where a loop is left: what was not set there, nothing reads."""
        return self.left if isinstance(value, Unset) else value

    def called(self, function: Any) -> Any:
        """Return what is called in the place of a function."""
        return self._called.instead_of(function)

    # ---- statements ----

    def branch(self, condition: Any) -> Branch:
        """Open an ``if``."""
        return Branch(self._scope, decided(condition))

    def for_(
        self, items: Any, names: tuple[str, ...], state: tuple[Any, ...], running: str | None
    ) -> Rounds | RecordedLoop:
        """Open a ``for``."""
        span = self._span(items)
        if span is None:
            return Rounds(iter(items), names, state, running)
        if running is None or self._scope.walks_back:
            # If a loop is left early, its other rounds do nothing: its body is under a flag.
            return Counted(self._scope, span, Carry(self._scope, names, state, None), state)
        carry = Carry(self._scope, names, state, running)
        return Leaving(self._scope, span, carry, state, names.index(running))

    def while_(self, names: tuple[str, ...], state: tuple[Any, ...], running: str | None) -> While:
        """Open a ``while``."""
        kind = CountedWhile if self._scope.walks_back else While
        return kind(self._scope, Carry(self._scope, names, state, running), state)

    def require(self, condition: Any, message: Callable[[], Any]) -> None:
        """Run an ``assert``."""
        found = decided(condition)
        if isinstance(found, Value):
            self._scope.check(found, str(message()))
        elif not found:
            raise AssertionError(message())

    def _span(self, items: Any) -> Span | None:
        """Return the span of a `range`; None for what is written out, as a range of one round."""
        if isinstance(items, range):
            if len(items) < 2:
                return None
            return Span(self._scope, items.start, items.stop, items.step)
        if isinstance(items, Range):
            return Span(self._scope, items.start, items.stop, items.step)
        return None

    # ---- expressions ----

    def all_(self, first: Any, *later: Callable[[], Any]) -> Any:
        """Return the first operand that is false, or the last: ``and``."""
        for operand in later:
            first = self._both(first, operand, stays=False)
        return first

    def any_(self, first: Any, *later: Callable[[], Any]) -> Any:
        """Return the first operand that is true, or the last: ``or``."""
        for operand in later:
            first = self._both(first, operand, stays=True)
        return first

    def _both(self, first: Any, later: Callable[[], Any], *, stays: bool) -> Any:
        """Return ``first and later()``, or with ``stays`` ``first or later()``."""
        if not isinstance(first, Value | Symbol):
            return first if bool(first) is stays else later()
        condition = decided(first)
        if not isinstance(condition, Value):
            return condition if condition is stays else later()
        if self._is_free(later):
            other = decided(later())
            if not isinstance(other, Value):
                other = self._scope.const(bool(other), condition.type)
            return condition | other if stays else condition & other
        sides = (lambda: True, lambda: decided(later()))
        return self._chosen(condition, *(sides if stays else (sides[1], lambda: False)))

    def not_(self, operand: Any) -> Any:
        """Return ``not operand``."""
        found = decided(operand) if isinstance(operand, Value | Symbol) else operand
        return ~found if isinstance(found, Value) else not found

    def choose(self, condition: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
        """Return ``then() if condition else otherwise()``."""
        found = decided(condition)
        if not isinstance(found, Value):
            return then() if found else otherwise()
        return self._chosen(found, then, otherwise)

    def _chosen(
        self, condition: Value, then: Callable[[], Any], otherwise: Callable[[], Any]
    ) -> Any:
        branch = Branch(self._scope, condition)
        branch.then()
        branch.end(then())
        branch.otherwise()
        branch.end(otherwise())
        return branch.joined("a conditional expression")[0]

    def power(self, x: Any, y: Any) -> Any:
        """Return ``x ** y``."""
        if isinstance(x, Value) or isinstance(y, Value):
            return self._scope.math.pow(x, y)
        return x**y

    def text(self, *pieces: Any) -> str | Joined:
        """Return an f-string; of values of the kernel what will be one when it is printed."""
        return Joined.of(*pieces)

    def _is_free(self, operand: Callable[[], Any]) -> bool:
        """Whether an operand may be computed in any case: recorded once, to look at it."""
        self._scope.open()
        operand()
        return all(node.kind in _FREE for node in self._dropped())

    def _dropped(self) -> list[Node]:
        return self._scope.suspend().body
