"""Coordinates that a scalar rule may read besides elements: where its output element lies.

A rule that names ``index`` as a keyword gets the number of its element in row-major order, and one
that names ``at`` its coordinates: ``at[axis]``, of ``at.shape``.  Both are int32.

    iota = custom_op(
        scalar=lambda k, x, *, at: k.cast(at[0], float32) + x, infer=...
    )

Such an op has ``infer``, for its inputs need not have the shape of its output.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pyrite.types import Shape

#: The keywords that no attribute has.
NAMES = ("index", "at")


class Coordinates(Protocol):
    """Where an element lies in the output."""

    @property
    def shape(self) -> Shape:
        """The shape of the output."""
        ...

    def __getitem__(self, axis: int) -> Any:
        """Return the coordinate on an axis."""
        ...


def coordinates_read(rule: Callable[..., Any]) -> tuple[str, ...]:
    """Return which coordinates of its output a scalar rule reads.

    >>> coordinates_read(lambda k, x, *, index: k.cast(index, x))
    ('index',)
    """
    return tuple(name for name in _keywords(rule) if name in NAMES)


def attributes_read(rule: Callable[..., Any], attrs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the attributes that a scalar rule reads: not those that ``**_`` takes in.

    >>> attributes_read(lambda k, x, *, dtype, **_: k.cast(x, dtype), {"dtype": 1, "shape": 2})
    {'dtype': 1}
    """
    code = rule.__code__
    takes_rest = bool(code.co_flags & inspect.CO_VARKEYWORDS)
    has_several = bool(code.co_flags & inspect.CO_VARARGS)
    rest = code.co_argcount + code.co_kwonlyargcount + has_several
    if not takes_rest or not code.co_varnames[rest].startswith("_"):
        return attrs
    named = _keywords(rule)
    return {name: value for name, value in attrs.items() if name in named}


def _keywords(rule: Callable[..., Any]) -> tuple[str, ...]:
    code = rule.__code__
    return code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
