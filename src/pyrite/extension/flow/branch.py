"""Branches: both sides are recorded where a value decides, and one runs where Python does."""

from __future__ import annotations

from typing import Any, Final

from pyrite.extension.flow.state import (
    Nothing,
    Unset,
    carried,
    form,
    is_same,
    kind_of,
    leaves,
    met,
    rebuilt,
    refilled,
    require_alike,
    seen,
    snapshot,
)
from pyrite.extension.scope import KernelScope
from pyrite.kernel import Value
from pyrite.kernel.ir import Node

_WAYS: Final = ("where the condition holds", "where it does not")


class Branch:
    """An ``if`` that is being run: see `pyrite.extension.rewriting.statement`."""

    def __init__(self, scope: KernelScope, condition: Any) -> None:
        self._scope = scope
        self._condition = condition
        self._sides: list[tuple[Any, tuple[Any, ...]]] = []
        self._kept: tuple[Any, ...] = ()
        self._contents: tuple[Any, ...] = ()
        self._last: tuple[Any, ...] = ()

    @property
    def _is_recorded(self) -> bool:
        return isinstance(self._condition, Value)

    def then(self) -> bool:
        """Return whether the first side is run, or recorded."""
        if not self._is_recorded:
            return bool(self._condition)
        self._scope.open()
        return True

    def otherwise(self) -> bool:
        """Return whether the other side is run, or recorded."""
        if not self._is_recorded:
            return not self._condition
        self._scope.open()
        return True

    def keep(self, *values: Any) -> None:
        """Take what the first side changes, for the other side."""
        self._kept = values
        self._contents = snapshot(values)

    def kept(self) -> tuple[Any, ...]:
        """Return what the first side changed as it was."""
        if not self._is_recorded:
            return self._kept
        return tuple(map(refilled, self._kept, self._contents))

    def end(self, *values: Any) -> None:
        """End a side, at which the names have values."""
        if self._is_recorded:
            self._sides.append((self._scope.suspend(), snapshot(values)))
        else:
            self._sides.append((None, values))
        self._last = values

    def joined(self, *names: str) -> tuple[Any, ...]:
        """Return the values of the names after it.  Raises KernelError where they do not meet."""
        if not self._is_recorded:
            return self._sides[0][1]
        (one, then), (other, otherwise) = self._sides
        merges = [_Merge(self._scope, *each) for each in zip(names, then, otherwise, strict=True)]
        regions = []
        for side, region in enumerate((one, other)):
            self._scope.resume(region)
            regions.append(self._scope.close([n for m in merges for n in m.yields(side)]))
        node = self._scope.emit("if", None, (self._condition.node,), None, tuple(regions))
        results = iter(
            [
                self._scope.emit("result", y.type, (node,), i)
                for i, y in enumerate(regions[0].yields)
            ]
        )
        found = [m.value(results) for m in merges]
        return tuple(map(refilled, self._last, found))


class _Merge:
    """What one name is after a branch."""

    def __init__(self, scope: KernelScope, name: str, then: Any, otherwise: Any) -> None:
        self._scope = scope
        self._then = then
        self._is_unset = isinstance(then, Unset) != isinstance(otherwise, Unset)
        if isinstance(then, Nothing) or isinstance(otherwise, Nothing):
            self._is_unset = False
            then, otherwise = _like(then, otherwise), _like(otherwise, then)
            self._then = then
        if self._is_unset:
            self._unset = then if isinstance(then, Unset) else otherwise
            return
        require_alike(name, then, otherwise, _WAYS)
        self._leaves = list(zip(leaves(then), leaves(otherwise), strict=True))
        self._kinds = [None if is_same(x, y) else _kind(scope, name, x, y) for x, y in self._leaves]

    def yields(self, side: int) -> list[Node]:
        """Return what a side gives, in the region of that side."""
        if self._is_unset:
            return []
        pairs = zip(self._leaves, self._kinds, strict=True)
        return [carried(self._scope, pair[side], kind) for pair, kind in pairs if kind is not None]

    def value(self, results: Any) -> Any:
        """Return what the name is."""
        if self._is_unset:
            return self._unset
        found = [
            pair[0] if kind is None else seen(self._scope, next(results), kind)
            for pair, kind in zip(self._leaves, self._kinds, strict=True)
        ]
        return rebuilt(self._then, iter(found))


def _like(x: Any, other: Any) -> Any:
    """Return as many results that were not returned yet as the other side returns."""
    if isinstance(x, Nothing) and form(other) is not None:
        return rebuilt(other, iter([x] * len(list(leaves(other)))))
    return x


def _kind(scope: KernelScope, name: str, x: Any, y: Any) -> Any:
    if isinstance(x, Nothing) or isinstance(y, Nothing):
        known = kind_of(scope, y if isinstance(x, Nothing) else x)
        if known is not None:
            return known
    return met(scope, name, x, y, _WAYS)
