"""Python as values: expressions with holes for names that are chosen last.

Text of a model's file never becomes code as it is: `literal` writes it as a literal, and names are
made of `pyrite.onnx.naming`.  What is in ``parts`` as text was written by us.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pyrite.types import Array


@dataclass(frozen=True, slots=True)
class Local:
    """A value of the graph, which is a variable of a function."""

    value: str


@dataclass(frozen=True, slots=True)
class Member:
    """A layer (``layer:path``) or a weight (its key) of the model, reached from ``self``."""

    key: str


@dataclass(frozen=True, slots=True)
class Imported:
    """A name of a module of Pyrite, or ``np``."""

    module: str
    name: str


@dataclass(frozen=True, slots=True)
class Operator:
    """An op of ONNX as a function, made at the top of the file."""

    op: str
    domain: str
    version: int
    outputs: int = 1
    elements: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Anchor:
    """The device that the function computes on."""


Part = str | Local | Member | Imported | Operator | Anchor

#: How tightly an expression binds: what may stand in it without parentheses binds tighter.
COMPARISON, OR, XOR, AND, SUM, PRODUCT, UNARY, ATOM = range(8)


@dataclass(frozen=True, slots=True)
class Code:
    """An expression: its parts, and the arguments of a call, which may have lines of their own."""

    parts: tuple[Part, ...]
    binds: int = ATOM
    arguments: tuple[Code, ...] | None = None
    brackets: str = "()"

    def walk(self) -> Iterator[Part]:
        """Give its parts, those of its arguments too."""
        yield from self.parts
        for argument in self.arguments or ():
            yield from argument.walk()

    @property
    def locals(self) -> list[str]:
        """The values that it reads, once for each time."""
        return [part.value for part in self.walk() if isinstance(part, Local)]


def code(template: str, *holes: Code | Part, binds: int = ATOM) -> Code:
    """Return an expression of a template, each ``{}`` filled; what binds less gets parentheses."""
    pieces = template.split("{}")
    assert len(pieces) == len(holes) + 1, template
    parts: list[Part] = [pieces[0]]
    for hole, piece in zip(holes, pieces[1:], strict=True):
        parts += [*_flat(hole), piece]
    return Code(_joined(parts), binds)


def call(function: Code | Part, *arguments: Code, **named: Code) -> Code:
    """Return a call."""
    given = [*arguments, *(_named(name, value) for name, value in named.items())]
    return Code(_joined(_flat(function)), ATOM, tuple(given))


def _named(name: str, value: Code) -> Code:
    return replace(value, parts=_joined([f"{name}=", *value.parts]), binds=ATOM)


def method(x: Code, name: str, *arguments: Code, **named: Code) -> Code:
    """Return a call of a method of an expression."""
    return call(code(f"{{}}.{name}", atom(x)), *arguments, **named)


def infix(operator: str, left: Code, right: Code, binds: int) -> Code:
    """Return two expressions with an operator between them, which binds to the left."""
    first = left if left.binds >= binds > COMPARISON else tighter(left, binds)
    return code(f"{{}} {operator} {{}}", first, tighter(right, binds), binds=binds)


def tighter(x: Code, than: int) -> Code:
    """Return an expression that binds tighter than a level, in parentheses where it has to be."""
    return x if x.binds > than else code("({})", x)


def atom(x: Code) -> Code:
    """Return an expression that a point may follow."""
    return x if x.binds == ATOM else code("({})", x)


def listed(items: Iterable[Code], brackets: str = "()") -> Code:
    """Return a tuple, or a list."""
    return Code((), ATOM, tuple(items), brackets)


def local(value: str) -> Code:
    """Return a value by its variable."""
    return Code((Local(value),))


def pyrite(name: str) -> Code:
    """Return a name of Pyrite."""
    return Code((Imported("pyrite", name),))


def literal(value: Any) -> Code:
    r"""Return a Python value written as Python: numbers, text, None, sequences and small arrays.

    >>> literal((1, "a'b", 0.5)).arguments[1].parts
    ('"a\'b"',)
    """
    if isinstance(value, Code):
        return value
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, tuple | list):
        return listed(map(literal, value), "()" if isinstance(value, tuple) else "[]")
    if isinstance(value, np.generic):
        return _number(value)
    if isinstance(value, str):
        return Code((_text(value),))
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, int):
        return Code((repr(value),), UNARY if value < 0 else ATOM)
    assert value is None, f"no literal of {type(value)}"
    return Code(("None",))


def _text(value: str) -> str:
    """Return text as a literal of ASCII, in the quotes that a formatter would choose."""
    written = ascii(value)
    inner = written[1:-1]
    if written[0] == "'" and '"' not in inner and "\\'" not in inner:
        return f'"{inner}"'
    return written


def _float(value: float) -> Code:
    if math.isfinite(value):
        written = repr(value).replace("e+", "e")
        return Code((written,), UNARY if math.copysign(1.0, value) < 0 else ATOM)
    if math.isnan(value):
        return code("{}.nan", Imported("math", ""))
    return code("{}.inf" if value > 0 else "-{}.inf", Imported("math", ""),
                binds=ATOM if value > 0 else UNARY)  # fmt: skip


def _number(value: Any) -> Code:
    """Return a number by its shortest digits in its own dtype."""
    if value.dtype.kind in "biu":
        return literal(value.item())
    exact = float(value)
    if value.dtype != np.float32 or not math.isfinite(exact):
        return _float(exact)
    return _float(float(np.format_float_scientific(value, unique=True, trim="0")))


def _array(value: Array) -> Code:
    items = [literal(item) for item in value] if value.ndim > 1 else [*map(_number, value.flat)]
    inner = items[0] if not value.ndim else listed(items, "[]")
    if value.dtype == np.int64 and value.ndim == 1 and value.size:
        return inner
    numbers = inner if value.ndim < 2 else literal(value.tolist())
    return call(code("{}.array", Imported("numpy", "")), numbers, code(_dtype(value)))


def _dtype(value: Array) -> str:
    return repr(value.dtype.name).replace("'", '"')


def _flat(hole: Code | Part) -> tuple[Part, ...]:
    if not isinstance(hole, Code):
        return (hole,)
    if hole.arguments is None:
        return hole.parts
    parts: list[Part] = [*hole.parts, hole.brackets[0]]
    for position, argument in enumerate(hole.arguments):
        parts += [", "] if position else []
        parts += _flat(argument)
    before = hole.parts[-1] if hole.parts else "="
    is_tuple = hole.brackets == "()" and isinstance(before, str) and before.endswith("=")
    is_single = is_tuple and len(hole.arguments) == 1
    return (*parts, "," if is_single else "", hole.brackets[1])


def flat(x: Code) -> tuple[Part, ...]:
    """Return all parts of an expression in a row."""
    return _joined(_flat(x))


def least_text(x: Code) -> str:
    """Return an expression with names of one letter."""
    return "".join(part if isinstance(part, str) else "x" for part in flat(x))


def _joined(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Return parts with pieces of text that meet made one."""
    found: list[Part] = []
    for part in parts:
        if isinstance(part, str) and found and isinstance(found[-1], str):
            found[-1] += part
        elif part != "":
            found.append(part)
    return tuple(found)
