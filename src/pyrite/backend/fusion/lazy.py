"""What a handle of Fusion is: a value, or what will be one."""

from __future__ import annotations

from typing import Any

from pyrite.op import Handle
from pyrite.types import TensorType


class Lazy:
    """A tensor of the backend below, once it is computed; until then a result of pending calls.

    ``place`` is the calls that make it, or the last ones that took it as an input, with its number
    among their values.  It is read and written whole, as several threads may use one handle.
    """

    __slots__ = ("__weakref__", "place", "type", "value")

    def __init__(self, type: TensorType, place: tuple[Any, int], value: Handle = None) -> None:
        self.type = type
        self.place = place
        self.value = value


class External(Lazy):
    """A tensor over an application's memory, which it may write to once what reads it is done.

    So the calls that take it run at once: who waits for the device has waited for them.
    """

    __slots__ = ()
