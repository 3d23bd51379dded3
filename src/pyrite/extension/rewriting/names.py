"""The names that statements set and read, and those that the rewriting adds."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

#: What the functions of `pyrite.extension.flow` are called in a function that was rewritten.
FLOW = "_pyrite"

#: Where names of an inner function stand, which are its own.
_INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def load(name: str) -> ast.Name:
    """Return a name that is read."""
    return ast.Name(name, ast.Load())


def store(name: str) -> ast.Name:
    """Return a name that is set."""
    return ast.Name(name, ast.Store())


def assigned(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that statements set, those of the lists among them whose items they set."""
    found: set[str] = set()
    for node in nodes:
        for inner in _own(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                found.add(inner.id)
            elif isinstance(inner, ast.FunctionDef | ast.ClassDef):
                found.add(inner.name)
            elif isinstance(inner, ast.alias):
                found.add((inner.asname or inner.name).partition(".")[0])
            elif isinstance(inner, ast.Subscript) and isinstance(inner.ctx, ast.Store):
                if isinstance(inner.value, ast.Name):
                    found.add(inner.value.id)
    return found


def read(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that statements or expressions read, and functions inside them too."""
    found = set()
    for node in nodes:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
                found.add(inner.id)
            elif isinstance(inner, ast.AugAssign) and isinstance(inner.target, ast.Name):
                found.add(inner.target.id)
    return found


def captured(function: ast.FunctionDef) -> set[str]:
    """Return the names that functions inside a function read, whenever they are called."""
    inner = [n for n in ast.walk(function) if isinstance(n, _INNER) and n is not function]
    return read(inner)


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a statement, without what belongs to functions inside it."""
    yield node
    if isinstance(node, (*_INNER, *_COMPREHENSIONS)):
        return
    for child in ast.iter_child_nodes(node):
        yield from _own(child)
