"""Many objects of a class at once, given what their slots hold, as a run of a program makes them.

By machine code once there is some: an object then takes a quarter of the time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, ClassVar, Generic, TypeVar

T = TypeVar("T")

_new = object.__new__


class Maker(Generic[T]):
    """Makes objects of a class with these slots.

    ``many`` takes how many there are, and for each slot a tuple or a list of what they hold, or
    what all of them do.

    >>> class Place:
    ...     __slots__ = ("x", "y")
    >>> [(place.x, place.y) for place in Maker(Place, "x", "y").many(2, [1, 2], None)]
    [(1, None), (2, None)]
    """

    #: What makes a faster `many` of a class and its slots, once a runtime has put it here.
    native: ClassVar[Callable[[type, Sequence[str]], Callable[..., Any] | None] | None] = None
    _all: ClassVar[list[Maker[Any]]] = []

    def __init__(self, cls: type[T], *names: str) -> None:
        self.cls, self.names = cls, names
        self.many: Callable[..., list[T]] = self.many_by_python
        Maker._all.append(self)
        self._make_native()

    def many_by_python(self, count: int, *columns: Any) -> list[T]:
        """Return the objects."""
        made = [_new(self.cls) for _ in range(count)]
        for name, column in zip(self.names, columns, strict=True):
            put = vars(owner_of(self.cls, name))[name].__set__
            held = column if column.__class__ in (tuple, list) else repeat(column)
            deque(map(put, made, held), maxlen=0)
        return made

    def _make_native(self) -> None:
        if Maker.native is not None and (many := Maker.native(self.cls, self.names)) is not None:
            self.many = many

    @classmethod
    def make_natively(
        cls, native: Callable[[type, Sequence[str]], Callable[..., Any] | None]
    ) -> None:
        """Have all make objects so, from now on."""
        if cls.native is None:
            cls.native = native
            for maker in cls._all:
                maker._make_native()


def owner_of(cls: type, name: str) -> type:
    """Return the class, or its base, that has a slot of that name."""
    return next(c for c in cls.__mro__ if name in vars(c))
