"""What names stand for before and after a branch or a loop, and the types in which that meets.

A value of the kernel and a number are carried through; so are those in tuples, lists and frozen
dataclasses.  Anything else, as a tensor or a text, has to be the same on every way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyrite.errors import KernelError
from pyrite.extension.mistake import shown
from pyrite.extension.number import WeakValue, weak_float
from pyrite.extension.scope import KernelScope
from pyrite.extension.unset import Unset
from pyrite.extension.vector import Items
from pyrite.kernel import Value
from pyrite.kernel.ir import BOOL, Node, Type, scalar
from pyrite.op.launch_number import is_settings, replaced, vars_of
from pyrite.symbol import Symbol
from pyrite.types import int32


class Nothing(Unset):
    """What a function returns until it does: it takes the type of what it will."""


class Left(Unset):
    """What a name is on a way that was left by a jump: whatever it is where the two ways meet."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How a value or a number is carried."""

    type: Type
    is_weak: bool


def leaves(value: Any) -> Iterator[Any]:
    """The values in a value: its own, or those of a tuple or a list."""
    if isinstance(value, tuple | list):
        for item in value:
            yield from leaves(item)
    elif is_settings(value):
        yield from leaves(tuple(vars_of(value).values()))
    else:
        yield value


def form(value: Any) -> object:
    """Return what tells tuples and lists of other lengths and nesting apart."""
    if isinstance(value, tuple | list):
        return (type(value), tuple(map(form, value)))
    if is_settings(value):
        return (type(value), form(tuple(vars_of(value).values())))
    return None


def rebuilt(value: Any, found: Iterator[Any]) -> Any:
    """Return a value with other leaves."""
    if is_settings(value):
        return replaced(value, {n: rebuilt(v, found) for n, v in vars_of(value).items()})
    if not isinstance(value, tuple | list):
        return next(found)
    items = [rebuilt(item, found) for item in value]
    return items if isinstance(value, list) else _tuple(type(value), items)


def _tuple(cls: type[Any], items: list[Any]) -> Any:
    if issubclass(cls, Items):
        return cls.of(items)
    return cls(*items) if hasattr(cls, "_fields") else cls(items)


def like(x: Any, other: Any) -> Any:
    """Return as many items that are not known as another value has."""
    if isinstance(x, Nothing | Left) and form(other) is not None:
        return rebuilt(other, iter([x] * len(list(leaves(other)))))
    return x


def snapshot(value: Any) -> Any:
    """Return a value with lists of its own."""
    return rebuilt(value, leaves(value))


def refilled(original: Any, value: Any) -> Any:
    """Return a value, in the list that was there before, which others may hold too."""
    if isinstance(original, list) and isinstance(value, list):
        old = [*original, *[None] * len(value)]
        original[:] = [refilled(o, v) for o, v in zip(old, value, strict=False)]
        return original
    return value


def decided(condition: Any) -> Any:
    """Return a condition as a bool of the kernel, or of Python.  Raises KernelError of vectors."""
    if not isinstance(condition, Value):
        return bool(condition)
    if condition.width != 1:
        raise KernelError(
            f"if, while, and, or, not require one bool, got {shown(condition)}; take one element: "
            "v[0]"
        )
    return condition if condition.dtype.is_bool else condition != 0


def spoken(name: str) -> str:
    """Return what a name is called in errors."""
    return "what a function returns" if name.startswith("_pyrite") else name


def kind_of(scope: KernelScope, x: Any) -> Kind | None:
    """Return how something is carried; None for what is no number."""
    if isinstance(x, Value):
        return Kind(x.type, isinstance(x, WeakValue))
    number = x.value if isinstance(x, Symbol) else x
    if isinstance(number, bool | np.bool_):
        return Kind(BOOL, False)
    if isinstance(number, int | np.integer):
        return Kind(scalar(int32), True)
    if isinstance(number, float | np.floating):
        return Kind(scalar(weak_float(scope)), True)
    return None


def is_same(x: Any, y: Any) -> bool:
    """Whether two ways give the same thing, so that nothing has to be chosen."""
    if x is y:
        return True
    if isinstance(x, Value) and isinstance(y, Value):
        return x.node is y.node and type(x) is type(y)
    if isinstance(x, Value | Unset) or isinstance(y, Value | Unset) or type(x) is not type(y):
        return False
    if isinstance(x, int | float):
        return repr(x) == repr(y)
    return not isinstance(x, Symbol) and bool(np.all(x == y))


def met(scope: KernelScope, name: str, x: Any, y: Any, ways: tuple[str, str]) -> Kind:
    """Return how what a name is on two ways is carried.

    Raises KernelError, with the name and the two ways, where the types do not meet.
    """
    one, other = kind_of(scope, x), kind_of(scope, y)
    if one is None or other is None:
        raise KernelError(
            f"{spoken(name)} requires to be a value or a number where the kernel chooses, got "
            f"{shown(x)} {ways[0]} and {shown(y)} {ways[1]}; use another name, or loop over "
            "k.static(...), which is written out"
        )
    return joined(name, one, other, ways)


def joined(name: str, one: Kind, other: Kind, ways: tuple[str, str]) -> Kind:
    """Return the kind in which two meet: that of the value, or of the float of two numbers."""
    if one == other:
        return one
    if one.is_weak and other.is_weak:
        return one if one.type.dtype.is_float else other
    if one.is_weak or other.is_weak:
        weak, strong = (one, other) if one.is_weak else (other, one)
        is_fraction = weak.type.dtype.is_float
        if strong.type.dtype.is_float or (strong.type.dtype.is_integer and not is_fraction):
            return strong
    elif one.type is other.type:
        return Kind(one.type, False)
    raise KernelError(
        f"{spoken(name)} requires one type, got {one.type} {ways[0]} and {other.type} {ways[1]}; "
        f"cast it: {name} = k.cast({name}, ...)"
    )


def carried(scope: KernelScope, x: Any, kind: Kind) -> Node:
    """Return the node of a value or a number in its kind."""
    if isinstance(x, Nothing | Left):
        return scope.const(0, kind.type).node
    if isinstance(x, np.generic):
        x = x.item()
    return scope.value(x, kind.type).node


def seen(scope: KernelScope, node: Node, kind: Kind) -> Value:
    """Return a node as what a name is: a value, or a number that changes."""
    return WeakValue(scope, node) if kind.is_weak else scope.of(node)


def require_alike(name: str, x: Any, y: Any, ways: tuple[str, str]) -> None:
    """Raise KernelError for tuples or lists of other lengths."""
    if form(x) != form(y):
        raise KernelError(
            f"{spoken(name)} requires as many items on every way, got {_counted(x)} {ways[0]} and "
            f"{_counted(y)} {ways[1]}; use another name"
        )


def _counted(x: Any) -> str:
    return f"a {type(x).__name__} of {len(x)}" if isinstance(x, Sequence) else shown(x)
