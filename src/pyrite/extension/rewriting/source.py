"""The text of a function, and the function made of it, of the same lines, cells and globals."""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from pyrite.errors import KernelError
from pyrite.extension.rewriting.jump import without_jumps
from pyrite.extension.rewriting.names import FLOW, captured, load, store
from pyrite.extension.rewriting.statement import Statements

Function = Callable[..., Any]


class Source:
    """The lines of a function as they were when it was made, and its code when it is asked for."""

    def __init__(self, function: types.FunctionType) -> None:
        self._name = function.__name__
        self._file = function.__code__.co_filename
        self._free = function.__code__.co_freevars
        try:
            lines, self._first = inspect.getsourcelines(function)
        except (OSError, TypeError, IndentationError, SyntaxError):
            lines = []
        self._text = "".join(lines)
        self._code: types.CodeType | None = None

    @property
    def code(self) -> types.CodeType | None:
        """The code that records; None where there is no text, as of a lambda or of ``python -c``.

        Raises KernelError at the line of what cannot be recorded.
        """
        if self._code is None and (tree := self._tree()) is not None:
            self._code = self._compiled(tree)
        return self._code

    def _tree(self) -> ast.FunctionDef | None:
        """Return the function's tree, with the lines and columns of its file."""
        if not self._text:
            return None
        indent = self._text[0] in " \t"
        try:
            module = ast.parse("if 1:\n" * indent + self._text)
        except SyntaxError:  # the line of a lambda
            return None
        ast.increment_lineno(module, self._first - 1 - indent)
        found = module.body[0].body[0] if isinstance(module.body[0], ast.If) else module.body[0]
        if isinstance(found, ast.AsyncFunctionDef):
            raise Statements(self._file, frozenset()).expressions.refused(
                found, "async", "a kernel does not wait"
            )
        is_it = isinstance(found, ast.FunctionDef) and found.name == self._name
        return found if is_it else None  # type: ignore[return-value]

    def _compiled(self, tree: ast.FunctionDef) -> types.CodeType:
        _rewrite(tree, self._file)
        # Free names are those of a function around it; the flow is one more.
        free = [*self._free, FLOW]
        own = [] if self._name in self._free else [ast.Global([self._name])]
        outer = ast.FunctionDef(
            "_outer", _no_parameters(),
            [*own, ast.Assign([store(n) for n in free], ast.Constant(None)), tree], [],
        )  # fmt: skip
        module = ast.fix_missing_locations(ast.Module([outer], []))
        code = _inner(_inner(compile(module, self._file, "exec", dont_inherit=True), "_outer"),
                      self._name)  # fmt: skip
        return code


def _rewrite(tree: ast.FunctionDef, file: str) -> None:
    tree.decorator_list = []
    tree.returns = None
    tree.args.defaults, tree.args.kw_defaults = [], [None] * len(tree.args.kwonlyargs)
    for argument in ast.walk(tree.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    always = frozenset(captured(tree))
    without_jumps(tree)
    statements = Statements(file, always)
    statements.expressions.generic_visit(tree.args)
    tree.body = statements.block(tree.body, frozenset())
    parameters = {a.arg for a in ast.walk(tree.args) if isinstance(a, ast.arg)}
    for name in sorted(statements.unset - parameters, reverse=True):
        unset = ast.Call(ast.Attribute(load(FLOW), "unset", ast.Load()), [ast.Constant(name)], [])
        first = ast.copy_location(ast.Assign([store(name)], unset), tree.body[0])
        tree.body.insert(0, first)


def _no_parameters() -> ast.arguments:
    return ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])


def _inner(code: types.CodeType, name: str) -> types.CodeType:
    return next(c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == name)


#: By code, which all functions of one ``def`` share.
_SOURCES: WeakKeyDictionary[types.CodeType, Source] = WeakKeyDictionary()


def source_of(function: types.FunctionType) -> Source:
    """Return the text of a function; read once."""
    found = _SOURCES.get(function.__code__)
    if found is None:
        found = _SOURCES[function.__code__] = Source(function)
    return found


def bound(function: Function, flow: object) -> Function:
    """Return a function rewritten, which records by ``flow``; the function itself without a text.

    It reads the cells and globals of the first, which may change.
    """
    if not isinstance(function, types.FunctionType):
        return function
    if function.__code__.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE):
        error = KernelError(
            f"a kernel requires functions that return, got the generator {function.__name__}; "
            "return a tuple, or loop where it is called"
        )
        error.location = f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"
        raise error
    code = source_of(function).code
    if code is None:
        return function
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[FLOW] = types.CellType(flow)
    closure = tuple(cells[name] for name in code.co_freevars)
    made = types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, closure
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made
