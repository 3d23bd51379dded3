"""The numbers among the attributes of an op that its kernels get when they are launched.

They stand alone, or are fields of a frozen dataclass: ``k.math.sqrt(settings.gravity)``.  Nothing
is looked up by them: not the plan of a call, not its kernel, not what was recorded of it.
"""

from __future__ import annotations

import dataclasses
import dis
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, Final

from pyrite.types import Number

Attributes = Mapping[str, Any]

#: The name of an attribute, and of a field of it, "" for itself.
Path = tuple[str, str]


def numbers_among(attrs: Attributes, static: frozenset[str]) -> tuple[Path, ...]:
    """Return where the numbers are that are given at launch."""
    found: list[Path] = []
    for name, value in attrs.items():
        if name in static:
            continue
        if is_number(value):
            found.append((name, ""))
        elif is_settings(value):
            found += [(name, field) for field, v in vars_of(value).items() if is_number(v)]
    return tuple(found)


def number_at(attrs: Attributes, path: Path) -> Number:
    """Return the number at a place."""
    name, field = path
    number: Number = getattr(attrs[name], field) if field else attrs[name]
    return number


def with_numbers(attrs: Attributes, numbers: Mapping[Path, Any]) -> dict[str, Any]:
    """Return attributes with others in the places of numbers."""
    found = dict(attrs)
    fields: dict[str, dict[str, Any]] = {}
    for (name, field), number in numbers.items():
        if field:
            fields.setdefault(name, {})[field] = number
        else:
            found[name] = number
    for name, changed in fields.items():
        found[name] = replaced(attrs[name], changed)
    return found


def without_numbers(attrs: Attributes, paths: tuple[Path, ...]) -> dict[str, Any]:
    """Return what a kernel depends on of attributes: those without numbers, and the others' rest.

    A number of a dataclass is replaced by a zero of its type.
    """
    zeros = {path: type(number_at(attrs, path))(0) for path in paths if path[1]}
    left = with_numbers(attrs, zeros)
    return {name: value for name, value in left.items() if (name, "") not in paths}


def is_settings(value: Any) -> bool:
    """Whether an attribute is an instance of a frozen dataclass."""
    made = getattr(type(value), "__dataclass_params__", None)
    return made is not None and bool(made.frozen)


def vars_of(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass."""
    kind: Any = type(value)
    return {name: getattr(value, name) for name in _fields(kind)}


@lru_cache(maxsize=256)
def _fields(kind: Any) -> tuple[str, ...]:
    return tuple([field.name for field in dataclasses.fields(kind)])


def replaced(value: Any, changed: Mapping[str, Any]) -> Any:
    """Return a dataclass with other fields, which its own checks do not see."""
    made = object.__new__(type(value))
    for name, old in vars_of(value).items():
        object.__setattr__(made, name, changed.get(name, old))
    return made


def is_number(value: Any) -> bool:
    """Whether it is given at launch: a finite number of Python, and no bool."""
    return type(value) is int or (type(value) is float and math.isfinite(value))


def form_without_numbers(value: Any, content: Callable[[Any], Any]) -> tuple[Any, ...] | None:
    """Return what tells a number, or settings, from others that differ in more than numbers.

    None for what has no numbers that are given at launch.
    """
    if is_number(value):
        return (_GIVEN,)
    if not is_settings(value):
        return None
    fields = vars_of(value)
    if getattr(value, "__dict__", fields).keys() - fields.keys():
        return None  # it holds more than its fields say
    found = [(type(x), _GIVEN if is_number(x) else content(x)) for x in fields.values()]
    return tuple(found) if any(x is _GIVEN for _, x in found) else None


class _Given:
    """Stands for a number that a launch gives."""


_GIVEN: Final = _Given()


def are_same(x: Sequence[Number], y: Sequence[Number]) -> bool:
    """Whether finite numbers of the same classes are the same: 0.0 equals -0.0, and is not it."""
    return x == y and (0 not in x or repr(x) == repr(y))


# ---- whether a rule looks at them ----

#: By these code sees local variables that it does not name.
_WHOLE: Final = frozenset({"locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe"})


def may_read(function: Any, name: str) -> bool:
    """Whether a function may look at the argument that it gets by this name: told by its code.

    What is never loaded cannot be read, unless by a look at all local variables at once.

    >>> def rule(x, *, order, scale, **rest):
    ...     return (x.shape[:order], rest)
    >>> may_read(rule, "order"), may_read(rule, "scale"), may_read(rule, "limit")
    (True, False, True)
    """
    return type(function) is not FunctionType or _may_read(function.__code__, name)


@lru_cache(maxsize=1024)
def _may_read(code: CodeType, name: str) -> bool:
    if _WHOLE.intersection(code.co_names) or name in code.co_cellvars:
        return True
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if name not in named:
        # It is among ``**rest``, the last of the parameters, if there is one.
        count = len(named) + bool(code.co_flags & _VARARGS)
        if not code.co_flags & _VARKEYWORDS:
            return True
        name = code.co_varnames[count]
        if name in code.co_cellvars:
            return True
    return any(_names(instruction.argval, name) for instruction in dis.get_instructions(code))


_VARARGS: Final = 0x04
_VARKEYWORDS: Final = 0x08


def _names(argument: Any, name: str) -> bool:
    """Whether the argument of an instruction is a name, or has it among several."""
    return argument == name or (type(argument) is tuple and name in argument)
