"""Branches: both sides are recorded where a value decides, and one runs where Python does."""

from __future__ import annotations

from typing import Any, Final

from pyrite.errors import KernelError
from pyrite.extension.flow.state import (
    Left,
    Nothing,
    carried,
    is_same,
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
        last = self._last or values
        self._last = tuple(
            [o if isinstance(v, Left) else v for o, v in zip(last, values, strict=True)]
        )

    def require_known(self) -> None:
        """Raise KernelError where the kernel decides: what is raised there, Python raises now."""
        if self._is_recorded:
            raise KernelError(
                "raise requires a condition that Python knows, got one of values of the kernel; "
                'write k.check(condition, "message"), or assert, which fail where the kernel runs'
            )

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
        self._unset = next((x for x in (then, otherwise) if type(x) is Unset), None)
        if self._unset is not None:
            return
        self._then, otherwise = like(then, otherwise), like(otherwise, then)
        require_alike(name, self._then, otherwise, _WAYS)
        self._leaves = list(zip(leaves(self._then), leaves(otherwise), strict=True))
        self._kinds = [None if is_same(x, y) else _kind(scope, name, x, y) for x, y in self._leaves]

    def yields(self, side: int) -> list[Node]:
        """Return what a side gives, in the region of that side."""
        if self._unset is not None:
            return []
        pairs = zip(self._leaves, self._kinds, strict=True)
        return [carried(self._scope, pair[side], kind) for pair, kind in pairs if kind is not None]

    def value(self, results: Any) -> Any:
        """Return what the name is."""
        if self._unset is not None:
            return self._unset
        found = [
            _going(*pair) if kind is None else seen(self._scope, next(results), kind)
            for pair, kind in zip(self._leaves, self._kinds, strict=True)
        ]
        return rebuilt(self._then, iter(found))


def _going(x: Any, y: Any) -> Any:
    """Return what is the same on two ways, or stands on the one that goes on."""
    return y if isinstance(x, Left) else x


def _kind(scope: KernelScope, name: str, x: Any, y: Any) -> Any:
    if isinstance(x, Left) or isinstance(y, Left):
        going = _going(x, y)
        # A number stays one that Python knows.
        return kind_of(scope, going) if isinstance(going, Value) else None
    if isinstance(x, Nothing) or isinstance(y, Nothing):
        known = kind_of(scope, y if isinstance(x, Nothing) else x)
        if known is not None:
            return known
    return met(scope, name, x, y, _WAYS)
