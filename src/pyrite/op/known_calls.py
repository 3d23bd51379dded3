"""Calls that a subscript stands for, known by the type of a tensor and the subscript.

A program writes the same subscripts again and again, and each is a call or two of views; so they
are found out once, and made together from then on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from pyrite.op.binding import callers
from pyrite.op.location import FAILURES, public
from pyrite.op.plan import Form, form_of
from pyrite.op.record import Attributes, Op
from pyrite.types import Shape, TensorType

T = TypeVar("T")

#: How many subscripts are kept.
_KEPT: Final = 2048
_INTEGERS: Final = frozenset({int})
#: What a subscript that is known may have in it, and what ends and steps of its slices may be.
_ITEMS: Final = frozenset({int, slice, type(None), type(...)})
_ENDS: Final = frozenset({int, type(None)})

#: Ops of one input with their attributes, each of what the one before gives.
Calls = Sequence[tuple[Op, Attributes]]


class KnownCalls:
    """The calls of one input that subscripts stand for, which ``find`` finds out.

    ``known`` has them, with the forms of their attributes, by the number of the tensor's type and
    the items of the subscript; machine code looks there (`subscript.ll`).
    """

    __slots__ = ("find", "known")

    def __init__(self, find: Callable[[TensorType, Any], Calls]) -> None:
        self.find = find
        self.known: dict[tuple[Any, ...], tuple[tuple[Op, Attributes, Form | None], ...]] = {}

    def calls_of(
        self, type: TensorType, subscript: Any
    ) -> tuple[tuple[Op, Attributes, Form | None], ...] | None:
        """Return the calls, None for a subscript of arrays, and where sizes are symbols."""
        key = _key(type, subscript)
        if key is None:
            return None
        found = self.known.get(key)
        if found is None:
            if len(self.known) >= _KEPT:
                self.known.clear()
            calls = self.find(type, subscript)
            found = self.known[key] = tuple(
                [(op, attrs, form_of(op, attrs)) for op, attrs in calls]
            )
        return found


def call_known(of: KnownCalls, x: Any, subscript: Any) -> Any:
    """Return what the calls give that a subscript of a tensor stands for; None of another one."""
    calls = of.calls_of(x._type, subscript)
    if calls is None:
        return None
    for op, attrs, form in calls:
        x = callers[1](op, (x,), attrs, form)
    return x


#: What does what `call_known` does, where somebody can do it faster.
known_callers: Final[list[Callable[[KnownCalls, Any, Any], Any]]] = [call_known]


def of_subscripts(
    find: Callable[[TensorType, Any], Calls],
) -> Callable[[Callable[[T, Any], T]], Callable[[T, Any], T]]:
    """Have a method make the calls of subscripts that are known, and do as it says of others."""
    known = KnownCalls(find)

    def decorate(function: Callable[[T, Any], T]) -> Callable[[T, Any], T]:
        otherwise = public(function)

        @functools.wraps(function)
        def wrapped(x: T, subscript: Any) -> T:
            try:
                made = known_callers[0](known, x, subscript)
            except FAILURES:
                made = None  # what is done otherwise says the user's line
            return otherwise(x, subscript) if made is None else made

        return wrapped

    return decorate


def _key(type: TensorType, subscript: Any) -> tuple[Any, ...] | None:
    """Return what tells subscripts of integers, slices, None and dots apart, and types."""
    key = items_key(subscript, type.shape)
    return None if key is None or not type.key else (type.key, *key)


def items_key(subscript: Any, shape: Shape) -> tuple[Any, ...] | None:
    """Return what tells subscripts of integers, slices, None and dots apart.

    None for any other, and for sizes that are more than numbers.  A slice is its class, then its
    ends and its step: older Pythons have no hash of it.
    """
    items = subscript if subscript.__class__ is tuple else (subscript,)
    if not _ITEMS.issuperset(map(type, items)) or not _INTEGERS.issuperset(map(type, shape)):
        return None
    parts: list[Any] = []
    for item in items:
        if item.__class__ is not slice:
            parts.append(item)
            continue
        ends = (item.start, item.stop, item.step)
        if not _ENDS.issuperset(map(type, ends)):
            return None
        parts += (slice, *ends)
    return tuple(parts)
