"""What a loop of a kernel carries from round to round, and in which types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pyrite.extension.flow.state import (
    Kind,
    Left,
    Nothing,
    carried,
    is_same,
    joined,
    kind_of,
    leaves,
    like,
    met,
    rebuilt,
    refilled,
    require_alike,
    seen,
    snapshot,
)
from pyrite.extension.scope import KernelScope
from pyrite.extension.unset import Unset
from pyrite.kernel.ir import BOOL, Node

_WAYS: Final = ("before the loop", "after a round")


class Carry:
    """The names of a loop: their values before it, and the kinds in which rounds hand them on.

    A kind is what is known so far: the body is recorded with it, and again when the values at its
    end say otherwise.  ``running`` is the flag that is true in the body, whatever it was before.
    """

    def __init__(
        self, scope: KernelScope, names: Sequence[str], values: tuple[Any, ...], running: str | None
    ) -> None:
        self._scope = scope
        self._names = names
        self._originals = values
        self._values: tuple[Any, ...] = snapshot(values)
        self._running = running
        self._kinds = [
            [None if isinstance(x, Unset) else kind_of(scope, x) for x in leaves(value)]
            for value in values
        ]

    @property
    def types(self) -> list[Any]:
        """The types of what is carried, in order."""
        return [k.type for kinds in self._kinds for k in kinds if k is not None]

    def initial(self) -> list[Node]:
        """Return the nodes of what is carried into the first round."""
        return self._nodes(self._values)

    def begun(self, parameters: Sequence[Node], *, is_body: bool) -> tuple[Any, ...]:
        """Return the values of the names in a region, of its parameters."""
        nodes = iter(parameters)
        found = [self._of(position, nodes) for position in range(len(self._names))]
        if is_body and self._running is not None:
            found[self._names.index(self._running)] = True
        return tuple(found)

    def settle(self, ends: tuple[Any, ...]) -> bool:
        """Take in the values at the end of a round; return whether they have the kinds known."""
        before = [list(kinds) for kinds in self._kinds]
        for position, end in enumerate(ends):
            self._settle(position, end)
        return before == self._kinds

    def yields(self, ends: tuple[Any, ...]) -> list[Node]:
        """Return the nodes of the values at the end of a round."""
        return self._nodes(ends)

    def ended(self, results: Sequence[Node]) -> tuple[Any, ...]:
        """Return the values of the names after the loop."""
        return self.begun(results, is_body=False)

    def _nodes(self, values: tuple[Any, ...]) -> list[Node]:
        return [
            carried(self._scope, x, kind)
            for value, known, kinds in zip(values, self._values, self._kinds, strict=True)
            if any(kinds)
            for x, kind in zip(leaves(like(value, known)), kinds, strict=True)
            if kind is not None
        ]

    def _of(self, position: int, nodes: Iterator[Node]) -> Any:
        value, kinds = self._values[position], self._kinds[position]
        found = [
            x if kind is None else seen(self._scope, next(nodes), kind)
            for x, kind in zip(leaves(value), kinds, strict=True)
        ]
        return refilled(self._originals[position], rebuilt(value, iter(found)))

    def _settle(self, position: int, end: Any) -> None:
        value = self._values[position]
        if isinstance(value, Nothing):
            self._grow(position, end)
        elif isinstance(value, Unset) or isinstance(end, Left):
            return
        require_alike(self._names[position], self._values[position], end, _WAYS)
        self._settle_leaves(position, end)

    def _grow(self, position: int, end: Any) -> None:
        """Give a result that was not returned yet the items of one that is."""
        count = len(list(leaves(end)))
        values = list(self._values)
        values[position] = rebuilt(end, iter([values[position]] * count))
        self._values = tuple(values)
        if len(self._kinds[position]) != count:
            self._kinds[position] = [None] * count

    def _settle_leaves(self, position: int, end: Any) -> None:
        name, kinds = self._names[position], self._kinds[position]
        pairs = zip(leaves(self._values[position]), leaves(end), strict=True)
        for i, (x, y) in enumerate(pairs):
            kinds[i] = self._settled(name, kinds[i], x, y)

    def _settled(self, name: str, known: Kind | None, x: Any, y: Any) -> Kind | None:
        if isinstance(x, Nothing):
            now = None if isinstance(y, Unset) else kind_of(self._scope, y)
            return now or known
        if known is None:
            return None if is_same(x, y) else met(self._scope, name, x, y, _WAYS)
        now = kind_of(self._scope, y)
        if now is None:
            return met(self._scope, name, x, y, _WAYS)
        if known.type is BOOL and now.type is BOOL:
            return known
        return joined(name, known, now, _WAYS)
