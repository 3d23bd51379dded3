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

What a name is on a way that was left, nothing reads.  So a block that ends by a jump is marked
(``leaves``), as is an ``if`` under a flag, whose other side was left (``guards``): where the two
sides meet, the names are those of the side that goes on.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pyrite.extension.rewriting.names import FLOW, load, store

#: What a jump leaves.
Left = Literal["function", "loop"] | None

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
                return [*done, self._guarded(rest)]
        return done

    def _split(self, branch: ast.If, rest: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Rewrite an ``if`` that may jump, and what stands after it."""
        if _always_jumps(branch.body):
            branch.orelse = [*branch.orelse, *rest]
            return self._statement(branch)
        if _always_jumps(branch.orelse):
            branch.body = [*branch.body, *rest]
            return self._statement(branch)
        following = self._guarded(rest)
        return [*self._statement(branch), following]

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
                body = [_guard(state.looping, body, "loop")]
            else:
                # A condition is not looked at once the loop was left.
                both = ast.BoolOp(ast.And(), [load(state.looping), loop.test])
                loop.test = ast.copy_location(both, loop.test)
        loop.body = body
        after = self._block(otherwise)
        if after and before:
            after = [ast.copy_location(ast.If(load(state.looping), after, []), after[0])]
        return [*before, loop, *after]

    def _guarded(self, rest: Sequence[ast.stmt]) -> ast.stmt:
        """Return the rest of the block at hand, under the flag that says whether it is run."""
        if not self._loops:
            return _guard(_RUNNING, self._block(rest), "function")
        return _guard(self._loops[-1].going, self._block(rest), "loop")

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
        last: Any = made[-1]
        last.leaves = "function" if isinstance(jump, ast.Return) else "loop"
        return [ast.copy_location(s, jump) for s in made]


def left_by(statements: Sequence[ast.stmt]) -> Left:
    """Return what the jumps at the end of a block leave; None where the block may go on."""
    if not statements:
        return None
    last = statements[-1]
    if not isinstance(last, ast.If):
        return getattr(last, "leaves", None)
    sides = (left_by(last.body), guarding(last) or left_by(last.orelse))
    if None in sides:
        return None
    return "loop" if "loop" in sides else "function"


def guarding(branch: ast.If) -> Left:
    """Return what was left where the condition of an ``if`` does not hold, if it is a flag."""
    return getattr(branch, "guards", None)


def _guard(flag: str, body: list[ast.stmt], left: Left) -> ast.stmt:
    # What is said again is known where the kernel decides: where all ways were left, none goes on.
    stays = _set(flag, ast.Constant(False))
    made: Any = ast.copy_location(ast.If(load(flag), body, [stays]), body[0])
    made.guards = left
    return made  # type: ignore[no-any-return]


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
    found = [(node, in_loop)]
    # What stands in the else of a loop leaves the one around it.
    otherwise = getattr(node, "orelse", []) if isinstance(node, ast.For | ast.While) else []
    for child in ast.iter_child_nodes(node):
        is_inside = isinstance(node, ast.For | ast.While) and child not in otherwise
        found += _within(child, in_loop or is_inside)
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
