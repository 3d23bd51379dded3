"""What a function reads besides its arguments: globals, cells, defaults, and those of its helpers.

Their names are in the code.  Functions of an application are followed, the methods of its modules
too; libraries are not, as nobody changes them.  What a name stands for is compared by identity, and
what holds only plain values by these.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from pyrite.compiled.arguments import Same, form_of
from pyrite.content.names import Path, is_of_library, names_of
from pyrite.tensor.tree import TreeNode

_MISSING = object()


class Environment:
    """What some functions read, as it was found; ``changed`` says what is another now."""

    def __init__(self, functions: Iterable[object]) -> None:
        self._reads: list[_Read] = []
        self._seen: set[int] = set()
        self._classes: set[type] = set()
        self._kept: list[object] = []
        for function in functions:
            self._follow(function)

    def changed(self) -> str | None:
        """Return the name of what has changed, or None."""
        for read in self._reads:
            if read.has_changed():
                return read.name
        return None

    def _follow(self, value: Any) -> None:
        if isinstance(value, TreeNode):
            self._follow_class(type(value))
            return
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        self._kept.append(value)
        if isinstance(value, partial):
            self._follow(value.func)
        elif isinstance(value, types.MethodType):
            self._follow(value.__func__)
        elif isinstance(value, types.FunctionType) and not is_of_library(value.__module__):
            self._function(value)
        elif hasattr(value, "__wrapped__"):
            self._follow(value.__wrapped__)

    def _follow_class(self, of: type[TreeNode]) -> None:
        """Follow the methods of a module.  To hold the module would be to hold its memory."""
        if of not in self._classes:
            self._classes.add(of)
            for method in _methods(of):
                self._follow(method)

    def _function(self, function: types.FunctionType) -> None:
        name = function.__name__
        self._note(f"the code of {name}", lambda: function.__code__)
        self._note(f"the defaults of {name}", lambda: function.__defaults__)
        self._note(f"the defaults of {name}", lambda: function.__kwdefaults__)
        names = names_of(function.__code__)
        for path in names.globals:
            self._path(path, partial(_global, function.__globals__, path[0]))
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        for path in names.cells:
            if path[0] in cells:
                self._path(path, partial(_held, cells[path[0]]))
        if (wrapped := getattr(function, "__wrapped__", None)) is not None:
            self._follow(wrapped)

    def _path(self, path: Path, read: Callable[[], Any]) -> None:
        """Note what a name stands for, and of a module the attributes that are read of it."""
        name, *rest = path
        value = read()
        if isinstance(value, types.ModuleType):
            if rest and not is_of_library(value.__name__):
                self._path((f"{name}.{rest[0]}", *rest[1:]), partial(_attribute, read, rest[0]))
            return
        self._note(name, read)
        if rest and rest[0] in _fields(value):
            self._path((f"{name}.{rest[0]}", *rest[1:]), partial(_attribute, read, rest[0]))
        self._follow(value)

    def _note(self, name: str, read: Callable[[], Any]) -> None:
        value = read()
        self._reads.append(_Read(name, read, value, _form(value)))


class _Read(NamedTuple):
    """How a thing is called and looked up, and what it was."""

    name: str
    look: Callable[[], Any]
    value: Any
    form: Hashable

    def has_changed(self) -> bool:
        now = self.look()
        if now is self.value and type(now) not in _CHANGING:
            return False
        return _form(now) != self.form


def _form(value: Any) -> Hashable:
    """Return the form of a value: plain ones by content, also in lists and dicts."""
    return form_of(value, _form) if type(value) in _BY_CONTENT else Same(value)


_CHANGING = frozenset({list, dict, tuple})
_BY_CONTENT = frozenset({type(None), bool, int, float, complex, str, bytes}) | _CHANGING


def _fields(value: Any) -> Mapping[str, Any]:
    """Return the attributes of an object that may be given others; a module's stay."""
    if isinstance(value, TreeNode | type | types.FunctionType):
        return {}
    found: Mapping[str, Any] = getattr(value, "__dict__", {})
    return found


def _methods(cls: type) -> Iterator[object]:
    """Give the methods of a class of an application."""
    for base in cls.__mro__:
        if not is_of_library(base.__module__):
            for member in vars(base).values():
                yield member.__func__ if isinstance(member, staticmethod | classmethod) else member


def _global(namespace: dict[str, Any], name: str) -> Any:
    return namespace.get(name, _MISSING)


def _held(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def _attribute(read: Callable[[], Any], name: str) -> Any:
    return getattr(read(), name, _MISSING)
