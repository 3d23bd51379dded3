"""What a handle of Fusion is: one of the backend below, or what will be one.

A handle of the backend below is a value as it is: what ran at once, or came from the host, costs no
object more.  `Lazy` is what pending calls will compute, and what they have computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from operator import is_not
from typing import Any

from pyrite.columns import Column
from pyrite.op import Handle
from pyrite.types import TensorType


class Lazy:
    """A tensor of the backend below, once it is computed; until then a result of pending calls.

    ``place`` is the calls that make it, with its number among their results.
    """

    __slots__ = ("__weakref__", "place", "type", "value")

    def __init__(self, type: TensorType, place: tuple[Any, int], value: Handle = None) -> None:
        self.type = type
        self.place = place
        self.value = value


_values = Column(Lazy, "value")

#: The place of what no calls make.
NOWHERE: tuple[None, int] = (None, 0)


class External(Lazy):
    """A tensor over an application's memory, which it may write to once what reads it is done.

    So the calls that take it run at once: who waits for the device has waited for them.
    """

    __slots__ = ()


def known_value(handle: Handle) -> Handle:
    """Return the handle of the backend below, where it is known; else the handle itself."""
    if isinstance(handle, Lazy) and handle.value is not None:
        return handle.value
    return handle


def known_values(handles: Sequence[Handle]) -> Sequence[Handle]:
    """Return the handles of the backend below, where all are known; else the handles themselves.

    So what lasts, as a model, is of half as many objects, which the next step looks at.
    """
    if {*map(type, handles)} != {Lazy}:
        return handles
    values = _values.read(handles)
    return values if all(map(is_not, values, repeat(None))) else handles


def has_lazy(inputs: Sequence[Any]) -> bool:
    """Whether there is a `Lazy` among the inputs of a call."""
    # A generator would take three times as long: this is run for every op of an application.
    for i in inputs:
        if isinstance(i, Lazy):
            return True
    return False
