"""Liveness: the names whose values may still be read, by a walk from the end to the start."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from pyrite.extension.rewriting.jump import guarding, left_by
from pyrite.extension.rewriting.names import FLOW, assigned, read

Names = frozenset[str]


def live_before(statements: Sequence[ast.stmt], after: Names) -> Names:
    """Return the names that are read by statements, or after them and not set before.

    >>> block = ast.parse("b = a + c; c = 1; d = b").body
    >>> sorted(live_before(block, frozenset("cd")))
    ['a', 'c']
    """
    for statement in reversed(statements):
        if left_by([statement]) == "function":
            after = _flags(after)
        after = _RULES.get(type(statement), _simple)(statement, after)
    return after


def live_at_head(loop: ast.For | ast.While, after: Names) -> Names:
    """Return the names that a round of a loop may read from before it, or that are read after."""
    own = after | read([loop.test]) if isinstance(loop, ast.While) else after
    running = getattr(loop, "running", None)
    live = own if running is None else own | {running}
    while True:
        before = live_before(loop.body, live)
        if isinstance(loop, ast.For):
            before -= assigned([loop.target])
        if before <= live:
            return live
        live |= before


def _simple(statement: ast.stmt, after: Names) -> Names:
    """Return what is live before an assignment or expression.

    What is set is set whole, but for items of a list.
    """
    changed = {
        inner.value.id
        for inner in ast.walk(statement)
        if isinstance(inner, ast.Subscript) and isinstance(inner.value, ast.Name)
    }
    return (after - (assigned([statement]) - changed)) | read([statement])


def _branch(statement: Any, after: Names) -> Names:
    otherwise = _flags(after) if guarding(statement) == "function" else after
    live = live_before(statement.body, after) | live_before(statement.orelse, otherwise)
    return live | read([statement.test])


def _flags(names: Names) -> Names:
    """Return what is read where a function was left: what the rewriting added."""
    return frozenset(name for name in names if name.startswith(FLOW))


def _loop(statement: Any, after: Names) -> Names:
    live = live_at_head(statement, after)
    return live | read([statement.iter]) if isinstance(statement, ast.For) else live


def _with(statement: Any, after: Names) -> Names:
    inside = live_before(statement.body, after) - assigned(statement.items)
    return inside | read(statement.items)


def _ending(statement: Any, _: Names) -> Names:
    return frozenset(read([statement]))


def _opaque(statement: Any, after: Names) -> Names:
    return after | read([statement])


_RULES: dict[type[ast.stmt], Callable[[Any, Names], Names]] = {
    ast.If: _branch, ast.For: _loop, ast.While: _loop, ast.With: _with, ast.Return: _ending,
    ast.Try: _opaque, ast.Match: _opaque, ast.FunctionDef: _opaque, ast.ClassDef: _opaque,
}  # fmt: skip
