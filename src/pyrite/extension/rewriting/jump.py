"""``break``, ``continue`` and ``return`` as flags: then each block is left at its end alone.

    for j in range(n):            looping = True
        if x[j] > 0.0:            for j in range(n):    # while looping
            break                     if x[j] > 0.0:
        total += x[j]                     looping = False
                                      else:
                                          total += x[j]

What stands after an ``if`` of which one side always jumps goes into its other side; after one that
may jump it stands under the flag.  A flag is a bool of Python where Python alone decides, and a
value of the kernel where that does.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pyrite.extension.rewriting.names import FLOW, load, store

_RUNNING, _RESULT = f"{FLOW}_running", f"{FLOW}_result"


@dataclass
class _Loop:
    """A loop around the statement at hand, and which of its flags are cleared in it."""

    number: int
    cleared: set[str] = field(default_factory=set)

    @property
    def looping(self) -> str:
        return f"{FLOW}_looping_{self.number}"

    @property
    def going(self) -> str:
        return f"{FLOW}_going_{self.number}"


def without_jumps(function: ast.FunctionDef) -> None:
    """Rewrite the body of a function: at most its last statement is a ``return``."""
    Jumps().function(function)


class Jumps:
    """One function's flags."""

    def __init__(self) -> None:
        self._loops: list[_Loop] = []
        self._count = 0
        self._has_result = False

    def function(self, function: ast.FunctionDef) -> None:
        """Rewrite the body of a function."""
        body, last = function.body, function.body[-1]
        tail: list[ast.stmt] = []
        if isinstance(last, ast.Return):
            body, tail = body[:-1], [last]
        if not any(isinstance(n, ast.Return) for s in body for n in _own(s)):
            function.body = self._block(body) + tail
            return
        returns = [n for s in function.body for n in _own(s) if isinstance(n, ast.Return)]
        self._has_result = any(r.value is not None for r in returns)
        start, end = [_set(_RUNNING, ast.Constant(True))], list[ast.stmt]()
        if self._has_result:
            start.append(_set(_RESULT, _nothing()))
            end.append(ast.copy_location(ast.Return(load(_RESULT)), last))
        lowered = self._block([*body, *tail])
        function.body = [ast.copy_location(s, body[0]) for s in start] + lowered + end

    def _block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        done: list[ast.stmt] = []
        for position, statement in enumerate(statements):
            rest = statements[position + 1 :]
            if isinstance(statement, ast.Break | ast.Continue | ast.Return):
                return done + self._cleared(statement)
            may_jump = bool(rest) and _may_jump(statement)
            if isinstance(statement, ast.If) and may_jump:
                return done + self._split(statement, rest)
            done += self._statement(statement)
            if may_jump:
                guard = self._guard()
                following = ast.If(load(guard), self._block(rest), [])
                return [*done, ast.copy_location(following, rest[0])]
        return done

    def _split(self, branch: ast.If, rest: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Rewrite an ``if`` that may jump, and what stands after it."""
        if _always_jumps(branch.body):
            branch.orelse = [*branch.orelse, *rest]
            return self._statement(branch)
        if _always_jumps(branch.orelse):
            branch.body = [*branch.body, *rest]
            return self._statement(branch)
        following = ast.If(load(self._guard()), self._block(rest), [])
        return [*self._statement(branch), ast.copy_location(following, rest[0])]

    def _statement(self, statement: ast.stmt) -> list[ast.stmt]:
        if isinstance(statement, ast.For | ast.While):
            return self._loop(statement)
        for name in ("body", "orelse", "finalbody"):
            inner = getattr(statement, name, None)
            if inner and not isinstance(statement, ast.FunctionDef | ast.ClassDef):
                setattr(statement, name, self._block(inner))
        for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            part.body = self._block(part.body)
        return [statement]

    def _loop(self, loop: Any) -> list[ast.stmt]:
        """Rewrite a loop; ``running`` of the node is the flag that it runs by, if there is one."""
        if isinstance(loop, ast.While) and any(
            isinstance(n, ast.NamedExpr) for n in _own(loop.test)
        ):
            leave = ast.If(ast.UnaryOp(ast.Not(), loop.test), [ast.Break()], [])
            loop.body = [ast.copy_location(leave, loop), *loop.body]
            loop.test = ast.copy_location(ast.Constant(True), loop.test)
        otherwise, loop.orelse = loop.orelse, []
        self._count += 1
        state = _Loop(self._count)
        self._loops.append(state)
        body = self._block(loop.body)
        self._loops.pop()
        before: list[ast.stmt] = []
        if state.going in state.cleared:
            body = [ast.copy_location(_set(state.going, ast.Constant(True)), loop), *body]
        if state.looping in state.cleared:
            loop.running = state.looping
            before = [ast.copy_location(_set(state.looping, ast.Constant(True)), loop)]
            if isinstance(loop, ast.For):
                body = [ast.copy_location(ast.If(load(state.looping), body, []), loop)]
            else:
                # A condition is not looked at once the loop was left.
                both = ast.BoolOp(ast.And(), [load(state.looping), loop.test])
                loop.test = ast.copy_location(both, loop.test)
        loop.body = body
        after = self._block(otherwise)
        if after and before:
            after = [ast.copy_location(ast.If(load(state.looping), after, []), after[0])]
        return [*before, loop, *after]

    def _guard(self) -> str:
        """Return the flag under which the rest of the block at hand is run."""
        if not self._loops:
            return _RUNNING
        return self._loops[-1].going

    def _cleared(self, jump: ast.stmt) -> list[ast.stmt]:
        """Return the assignments that a jump is."""
        made: list[ast.stmt] = []
        if isinstance(jump, ast.Return):
            if self._has_result:
                made.append(_set(_RESULT, jump.value or ast.Constant(None)))
            made.append(_set(_RUNNING, ast.Constant(False)))
        left = self._loops if isinstance(jump, ast.Return) else self._loops[-1:]
        for loop in left:
            flags = [loop.going] if isinstance(jump, ast.Continue) else [loop.going, loop.looping]
            loop.cleared.update(flags)
            made += [_set(flag, ast.Constant(False)) for flag in flags]
        return [ast.copy_location(s, jump) for s in made]


def _set(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([store(name)], value)


def _nothing() -> ast.expr:
    return ast.Attribute(load(FLOW), "nothing", ast.Load())


def _own(node: ast.AST) -> list[ast.AST]:
    """The nodes of a statement, without those of functions inside it."""
    if isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef | ast.AsyncFunctionDef):
        return []
    return [node, *(n for child in ast.iter_child_nodes(node) for n in _own(child))]


def _may_jump(statement: ast.stmt) -> bool:
    """Whether a statement may leave the block that it stands in."""
    return any(
        isinstance(node, ast.Return) or (isinstance(node, ast.Break | ast.Continue) and not inner)
        for node, inner in _within(statement, False)
    )


def _within(node: ast.AST, in_loop: bool) -> list[tuple[ast.AST, bool]]:
    """The nodes of a statement, and whether a loop inside of it is around them."""
    if isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
        return []
    inside = in_loop or isinstance(node, ast.For | ast.While)
    found = [(node, in_loop)]
    for child in ast.iter_child_nodes(node):
        found += _within(child, inside)
    return found


def _always_jumps(statements: Sequence[ast.stmt]) -> bool:
    """Whether the end of a block is never reached."""
    for statement in statements:
        if isinstance(statement, ast.Break | ast.Continue | ast.Return):
            return True
        if isinstance(statement, ast.If):
            if _always_jumps(statement.body) and _always_jumps(statement.orelse):
                return True
    return False
