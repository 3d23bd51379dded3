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

    __slots__ = ("__weakref__", "is_external", "place", "type", "value")

    def __init__(self, type: TensorType, place: Any, value: Handle | None = None) -> None:
        self.type = type
        self.place: tuple[Any, int] = place
        self.value = value
        #: Whether its memory is an application's, which may write to it once it asks for a flush.
        self.is_external = False
