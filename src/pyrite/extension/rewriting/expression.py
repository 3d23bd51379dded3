"""Expressions that ask for a bool, and calls, as calls of `pyrite.extension.flow`."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from pyrite.errors import KernelError
from pyrite.extension.rewriting.names import FLOW, load, store


class Expressions(ast.NodeTransformer):
    """Rewrites ``and``, ``or``, ``not``, ``a if c else b``, chained comparisons, ``**``, calls.

    What may not be computed is the body of a lambda, which the call decides to make.
    """

    def __init__(self, file: str) -> None:
        self.file = file

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """A and b: ``_pyrite.all_(a, lambda: b)``."""
        self._require_no_names(node.values[1:])
        first, *rest = [self.visit(v) for v in node.values]
        name = "all_" if isinstance(node.op, ast.And) else "any_"
        return self.call(node, name, [first, *map(_later, rest)])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Not a."""
        self.generic_visit(node)
        return self.call(node, "not_", [node.operand]) if isinstance(node.op, ast.Not) else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """A ** b."""
        self.generic_visit(node)
        if isinstance(node.op, ast.Pow):
            return self.call(node, "power", [node.left, node.right])
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        """A if c else b: ``_pyrite.choose(c, lambda: a, lambda: b)``."""
        self._require_no_names([node.body, node.orelse])
        sides = [_later(self.visit(v)) for v in (node.body, node.orelse)]
        return self.call(node, "choose", [self.visit(node.test), *sides])

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """A < b < c: each operand is computed once."""
        self.generic_visit(node)
        if len(node.ops) == 1:
            return node
        operands = [node.left, *node.comparators]
        names = [f"{FLOW}_{i}" for i in range(len(operands))]
        tests: list[ast.expr] = [
            ast.Compare(load(names[i]), [op], [load(names[i + 1])]) for i, op in enumerate(node.ops)
        ]
        together = self.call(node, "all_", [tests[0], *map(_later, tests[1:])])
        chain = ast.Lambda(_parameters(names), together)
        return ast.copy_location(ast.Call(chain, operands, []), node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """f(x): ``_pyrite.called(f)(x)``."""
        self.generic_visit(node)
        node.func = self.call(node.func, "called", [node.func])
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        """f"a{b:c}": ``_pyrite.text("a", (b, "c"))``."""
        parts: list[ast.expr] = []
        for part in node.values:
            if not isinstance(part, ast.FormattedValue):
                parts.append(part)
            elif part.conversion != -1:
                parts.append(ast.JoinedStr([part]))
            else:
                spec = part.format_spec or ast.Constant("")
                parts.append(ast.Tuple([self.visit(part.value), spec], ast.Load()))
        return self.call(node, "text", parts)

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        """Assert a, b: ``_pyrite.require(a, lambda: b)``."""
        text = ast.copy_location(ast.Constant(f"assert {ast.unparse(node.test)}"), node)
        self.generic_visit(node)
        asked = self.call(node, "require", [node.test, _later(node.msg or text)])
        return ast.copy_location(ast.Expr(asked), node)

    def visit_Await(self, node: ast.AST) -> ast.AST:
        """Refuse: a kernel is no coroutine and no generator."""
        raise self.refused(node, "await, yield and yield from", "return what is computed")

    visit_Yield = visit_YieldFrom = visit_Await

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Leave it: a function inside is rewritten when it is called."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.Nonlocal):
                raise self.refused(inner, "nonlocal", "return the value, and set it outside")
        return node

    def call(self, at: ast.AST, name: str, arguments: Sequence[ast.expr]) -> ast.expr:
        """Return a call of a function of `pyrite.extension.flow`, in the place of a node."""
        function = ast.Attribute(load(FLOW), name, ast.Load())
        return ast.copy_location(ast.Call(function, list(arguments), []), at)

    def refused(self, node: Any, what: str, fix: str) -> KernelError:
        """Return the error of something that a kernel cannot have, at its line."""
        error = KernelError(f"a kernel requires statements that can be recorded, got {what}; {fix}")
        error.location = f"{self.file}:{node.lineno}"
        return error

    def _require_no_names(self, parts: Sequence[ast.expr]) -> None:
        for part in parts:
            for inner in ast.walk(part):
                if isinstance(inner, ast.NamedExpr):
                    raise self.refused(
                        inner, ":= where it may not be reached", "set the name in a line before"
                    )


def _later(value: ast.expr) -> ast.expr:
    return ast.copy_location(ast.Lambda(_parameters([]), value), value)


def _parameters(names: Sequence[str]) -> ast.arguments:
    return ast.arguments(
        posonlyargs=[], args=[ast.arg(n) for n in names], kwonlyargs=[], kw_defaults=[],
        defaults=[],
    )  # fmt: skip


def together(names: Sequence[str], context: type[ast.expr_context]) -> ast.expr:
    """Return a tuple of names."""
    make = store if context is ast.Store else load
    return ast.Tuple([make(n) for n in names], context())
