"""Branches and loops as calls of `pyrite.extension.flow`, in the place and the scope of the first.

    if c:                     branch = _pyrite.branch(c)
        a = f(a)              branch.keep(a)
                              if branch.then():
                                  a = f(a)
                                  branch.end(a)
                              (a,) = branch.kept()
                              if branch.otherwise():
                                  branch.end(a)
                              (a,) = branch.joined("a")

    for i in range(n):        loop = _pyrite.for_(range(n), ("t",), (t,), None)
        t += x[i]             while loop.more():
                                  (t,) = loop.state
                                  i = loop.item
                                  t += x[i]
                                  loop.end(t)
                              (t,) = loop.state

    while t < n:              loop = _pyrite.while_(("t",), (t,), None)
        t *= 2                while loop.more():
                                  (t,) = loop.state
                                  if loop.decide(t < n):
                                      (t,) = loop.state
                                      t *= 2
                                      loop.end(t)
                              (t,) = loop.state

Of a value both sides of a branch are written, and the body of a loop once or more, until the types
of what it carries are known.  The names are those that are set inside and read afterwards, or in
the next round.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from pyrite.extension.rewriting.expression import Expressions, together
from pyrite.extension.rewriting.jump import Left, guarding, left_by
from pyrite.extension.rewriting.liveness import Names, live_at_head, live_before
from pyrite.extension.rewriting.names import FLOW, assigned, load, store


class Statements:
    """Rewrites the statements of one function; ``always`` are names that may be read at any time.

    ``unset`` collects the names that need a value before the first statement.
    """

    def __init__(self, file: str, always: Names) -> None:
        self.expressions = Expressions(file)
        self.unset: set[str] = set()
        self._always = always
        self._count = 0

    def block(self, statements: Sequence[ast.stmt], after: Names) -> list[ast.stmt]:
        """Return statements rewritten, given the names that are read after them."""
        made: list[list[ast.stmt]] = []
        for statement in reversed(statements):
            before = live_before([statement], after)
            made.append(self._statement(statement, after | self._always))
            after = before
        return [s for part in reversed(made) for s in part] or [ast.Pass()]

    def _statement(self, statement: Any, after: Names) -> list[ast.stmt]:
        if isinstance(statement, ast.If):
            return self._branch(statement, after)
        if isinstance(statement, ast.For):
            return self._for(statement, after)
        if isinstance(statement, ast.While):
            return self._while(statement, after)
        if isinstance(statement, ast.Global | ast.Nonlocal):
            raise self.expressions.refused(
                statement, "global or nonlocal", "what a kernel sets are its outputs"
            )
        if isinstance(statement, ast.AsyncFor | ast.AsyncWith | ast.AsyncFunctionDef):
            raise self.expressions.refused(statement, "async", "a kernel does not wait")
        if isinstance(statement, ast.With | ast.Try | ast.Match):
            return [self._nested(statement, after)]
        return [self.expressions.visit(statement)]

    def _nested(self, statement: Any, after: Names) -> ast.stmt:
        """Rewrite a statement with blocks that Python itself runs."""
        inside = after | live_before([statement], after)
        for name in ("body", "orelse", "finalbody"):
            if getattr(statement, name, None):
                setattr(statement, name, self.block(getattr(statement, name), inside))
        for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            part.body = self.block(part.body, inside)
        for item in getattr(statement, "items", ()):
            item.context_expr = self.expressions.visit(item.context_expr)
        if isinstance(statement, ast.Match):
            statement.subject = self.expressions.visit(statement.subject)
        made: ast.stmt = statement
        return made

    def _branch(self, branch: ast.If, after: Names) -> list[ast.stmt]:
        joined = sorted(assigned([*branch.body, *branch.orelse]) & after)
        otherwise = live_before(branch.orelse, after) | after
        again = sorted(assigned(branch.body) & otherwise)
        self.unset.update(joined, again)
        name = self._name("branch")
        left = (left_by(branch.body), guarding(branch) or left_by(branch.orelse))
        sides = [
            [*self._raising(self.block(side, after), name), self._end_of(name, joined, by)]
            for side, by in zip((branch.body, branch.orelse), left, strict=True)
        ]
        names: list[ast.expr] = [ast.Constant(n) for n in joined]
        made = [
            _set(name, self.expressions.call(branch, "branch", [self._visited(branch.test)])),
            ast.Expr(self._ask(name, "keep", _loaded(again))),
            ast.If(self._ask(name, "then"), sides[0], []),
            _unpack(again, self._ask(name, "kept")),
            ast.If(self._ask(name, "otherwise"), sides[1], []),
            _unpack(joined, self._ask(name, "joined", names)),
        ]
        if not again:
            del made[3], made[1]
        return self._placed(branch, made)

    def _raising(self, side: list[ast.stmt], branch: str) -> list[ast.stmt]:
        """Return a side of a branch that asks, before a ``raise``, whether Python decides there."""
        made: list[ast.stmt] = []
        for statement in side:
            if isinstance(statement, ast.Raise):
                asked: ast.stmt = ast.Expr(self._ask(branch, "require_known"))
                _place(asked, statement)
                made.append(asked)
            made.append(statement)
        return made

    def _for(self, loop: ast.For, after: Names) -> list[ast.stmt]:
        live = live_at_head(loop, after) | after
        carried = sorted(assigned([loop.target, *loop.body]) & live)
        name = self._name("loop")
        given = [self._visited(loop.iter), *self._head(loop, carried)]
        body = [
            _unpack(carried, self._state(name)),
            ast.Assign([loop.target], ast.Attribute(load(name), "item", ast.Load())),
            *self.block(loop.body, live),
            self._end_of(name, carried, left_by(loop.body)),
        ]
        return self._opened(loop, name, "for_", given, body, carried)

    def _while(self, loop: ast.While, after: Names) -> list[ast.stmt]:
        live = live_at_head(loop, after) | after
        carried = sorted(assigned(loop.body) & live)
        name = self._name("loop")
        body = [
            _unpack(carried, self._state(name)),
            *self.block(loop.body, live),
            self._end_of(name, carried, left_by(loop.body)),
        ]
        decided = self._ask(name, "decide", [self._visited(loop.test)])
        rounds: list[ast.stmt] = [_unpack(carried, self._state(name)), ast.If(decided, body, [])]
        return self._opened(loop, name, "while_", self._head(loop, carried), rounds, carried)

    def _opened(
        self,
        loop: ast.For | ast.While,
        name: str,
        function: str,
        given: list[ast.expr],
        rounds: list[ast.stmt],
        carried: Sequence[str],
    ) -> list[ast.stmt]:
        self.unset.update(carried)
        return self._placed(loop, [
            _set(name, self.expressions.call(loop, function, given)),
            ast.While(self._ask(name, "more"), rounds, []),
            _unpack(carried, self._state(name)),
        ])  # fmt: skip

    def _head(self, loop: ast.For | ast.While, carried: Sequence[str]) -> list[ast.expr]:
        """Return what a loop gets: the names that it carries, their values, its flag."""
        running = ast.Constant(getattr(loop, "running", None))
        return [_names(carried), together(carried, ast.Load), running]

    def _visited(self, value: ast.expr) -> ast.expr:
        made: ast.expr = self.expressions.visit(value)
        return made

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{FLOW}_{kind}_{self._count}"

    def _ask(self, name: str, method: str, arguments: Sequence[ast.expr] = ()) -> ast.expr:
        function = ast.Attribute(load(name), method, ast.Load())
        return ast.Call(function, list(arguments), [])

    def _end_of(self, name: str, names: Sequence[str], left: Left) -> ast.stmt:
        """Return the end of a block, with what names are there: nothing where a jump ends it."""
        return ast.Expr(self._ask(name, "end", [_ending(n, left) for n in names]))

    def _state(self, name: str) -> ast.expr:
        return ast.Attribute(load(name), "state", ast.Load())

    def _placed(self, at: ast.stmt, made: list[ast.stmt]) -> list[ast.stmt]:
        """Give new statements the line of the old one; what stood in it has its own."""
        for statement in made:
            _place(statement, at)
        return made


def _place(node: ast.AST, at: ast.stmt) -> None:
    """Give a node and those inside it that have none the place of a statement's head."""
    if "lineno" in node._attributes and not hasattr(node, "lineno"):
        ast.copy_location(node, at)
        # The head of a block, not all of it.
        node.end_lineno = node.lineno  # type: ignore[attr-defined]
        node.end_col_offset = node.col_offset  # type: ignore[attr-defined]
    for child in ast.iter_child_nodes(node):
        _place(child, at)


def _set(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([store(name)], value)


def _unpack(names: Sequence[str], value: ast.expr) -> ast.stmt:
    if not names:
        return ast.Expr(value)
    return ast.Assign([together(names, ast.Store)], value)


def _loaded(names: Sequence[str]) -> list[ast.expr]:
    return [load(n) for n in names]


def _ending(name: str, left: Left) -> ast.expr:
    if left is None or name.startswith(FLOW):
        return load(name)
    if left == "function":
        return ast.Attribute(load(FLOW), "left", ast.Load())
    # What is set when a loop is left may be read after it.
    function = ast.Attribute(load(FLOW), "if_set", ast.Load())
    return ast.Call(function, [load(name)], [])


def _names(names: Sequence[str]) -> ast.expr:
    return ast.Tuple([ast.Constant(n) for n in names], ast.Load())
