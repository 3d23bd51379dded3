"""What is asked of, or done to, many objects at once: by a run of a program, a step of training.

By machine code once there is some: an object then takes a tenth of the time.  Objects that lie all
over memory are waited for together so, where Python waits for one after the other.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

T = TypeVar("T")

_new = object.__new__
_put = object.__setattr__

#: A class, the fields that its objects share, and the names of others with their places in a list.
Pattern = tuple[type, dict[str, Any], tuple[tuple[str, int], ...]]


class Code(Protocol):
    """What makes the machine code of a function here."""

    def __call__(
        self, name: str, slow: Callable[..., Any], cls: type, slot: str
    ) -> Callable[..., Any] | None:
        """Return what does what ``slow`` does, for objects of a class with that slot, or None."""
        ...


class Column:
    """A slot of objects of a class.

    ``read`` returns what each of some holds; ``write`` puts a value into each.

    >>> class Place:
    ...     __slots__ = ("x",)
    >>> places, x = [Place(), Place()], Column(Place, "x")
    >>> x.write(places, (1, 2))
    >>> x.read(places)
    [1, 2]
    """

    def __init__(self, cls: type, name: str) -> None:
        self.cls, self.name = cls, name
        self.read: Callable[[Sequence[Any]], list[Any]] = self.read_by_python
        self.write: Callable[[Sequence[Any], Sequence[Any]], None] = self.write_by_python
        _columns.append(self)
        for make in _code:
            self.make_natively(make)

    def read_by_python(self, objects: Sequence[Any]) -> list[Any]:
        """Return what objects hold, be they of the class or not."""
        name = self.name
        return [getattr(one, name) for one in objects]

    def write_by_python(self, objects: Sequence[Any], values: Sequence[Any]) -> None:
        """Put values into as many objects."""
        name = self.name
        for one, value in zip(objects, values, strict=True):
            setattr(one, name, value)

    def make_natively(self, make: Code) -> None:
        """Take machine code from now on, if there is some."""
        self.read = make("read", self.read_by_python, self.cls, self.name) or self.read
        self.write = make("write", self.write_by_python, self.cls, self.name) or self.write


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


def chooser(places: Sequence[int]) -> Callable[[Any], Sequence[Any]]:
    """Return what takes the items at some places out of a list or tuple.

    >>> chooser([2, 0])("abc"), chooser([1])("abc"), chooser([])("abc")
    (('c', 'a'), ('b',), ())
    """
    if len(places) > 1:
        return itemgetter(*places)
    return lambda items: tuple([items[n] for n in places])


def shared(values: Sequence[T]) -> list[T]:
    """Return values that can be hashed; equal ones of one class are one object.

    >>> x, y = shared([(1, 2), tuple([1, 2])])
    >>> x is y
    True
    """
    known: dict[tuple[type, T], T] = {}
    return [known.setdefault((type(value), value), value) for value in values]


def distinct_by_python(objects: Sequence[Any]) -> tuple[list[Any], tuple[int, ...]]:
    """Return the different ones of some objects, and the number of each among these."""
    numbers: dict[int, int] = {}
    found: list[Any] = []
    places: list[int] = []
    for one in objects:
        number = numbers.setdefault(id(one), len(found))
        if number == len(found):
            found.append(one)
        places.append(number)
    return found, tuple(places)


def _references(objects: Sequence[Any], number: int) -> int:
    found = objects[number]
    return sys.getrefcount(found)


#: What is counted of an object that only a list holds: not each Python counts the name.
_HELD_ONCE: Final = _references([object()], 0)


def held_by_python(objects: list[Any]) -> tuple[list[int], list[Any]]:
    """Return the numbers of the objects that more than a list holds, and these objects."""
    count = len(objects)
    numbers = [n for n in range(count) if _references(objects, n) > _HELD_ONCE]
    numbers = [n for n in numbers if objects[n] is not None]
    return numbers, [objects[n] for n in numbers]


def held_as_by_python(objects: list[Any], flags: bytes) -> list[Any] | None:
    """Return the objects that more than a list holds; None unless these are as flags say."""
    numbers, found = held_by_python(objects)
    are_same = len(flags) == len(objects) and numbers == [n for n, flag in enumerate(flags) if flag]
    return found if are_same else None


def distinct(objects: Sequence[Any]) -> tuple[list[Any], tuple[int, ...]]:
    """Return the different ones of some objects, and the number of each among these.

    >>> x, y = object(), object()
    >>> distinct([x, y, x]) == ([x, y], (0, 1, 0))
    True
    """
    return _functions["distinct"](objects)  # type: ignore[no-any-return]


def held(objects: list[Any]) -> tuple[list[int], list[Any]]:
    """Return the numbers of the objects that more than a list holds, and these objects.

    They are different ones; None is none of them.

    >>> kept = [1.5]
    >>> held([[2.5], None, kept])
    ([2], [[1.5]])
    """
    return _functions["held"](objects)  # type: ignore[no-any-return]


def held_as(objects: list[Any], flags: bytes) -> list[Any] | None:
    """Return the objects that more than a list holds; None unless these are as flags say.

    >>> kept = [1.5]
    >>> held_as([[2.5], kept], bytes([0, 1])), held_as([[2.5], kept], bytes([1, 1]))
    ([[1.5]], None)
    """
    return _functions["held_as"](objects, flags)  # type: ignore[no-any-return]


def nodes_by_python(patterns: Sequence[Pattern | None], made: list[Any], first: int) -> int:
    """Put an object of each pattern, from one on, behind what is in a list: their fields are of it.

    Return the number of the first that is None, or how many there are.
    """
    for n in range(first, len(patterns)):
        pattern = patterns[n]
        if pattern is None:
            return n
        cls, shared, others = pattern
        fields = shared.copy()
        for name, place in others:
            fields[name] = made[place]
        node: Any = _new(cls)
        _put(node, "__dict__", fields)
        made.append(node)
    return len(patterns)


def add_nodes(patterns: Sequence[Pattern | None], made: list[Any], first: int) -> int:
    """Put an object of each pattern, from one on, behind what is in a list: their fields are of it.

    Return the number of the first that is None, or how many there are.

    >>> class Place: ...
    >>> made = [1.5]
    >>> add_nodes([(Place, {"x": 1}, (("y", 0),)), None], made, 0), vars(made[1])
    (1, {'x': 1, 'y': 1.5})
    """
    return _functions["nodes"](tuple(patterns), made, first)  # type: ignore[no-any-return]


class _Nothing:
    """What functions have that are of no class."""

    __slots__ = ("nothing",)


_columns: Final[list[Column]] = []
#: What makes machine code, once a runtime has put it here.
_code: Final[list[Code]] = []
_BY_PYTHON: Final[dict[str, Callable[..., Any]]] = {
    "distinct": distinct_by_python, "held": held_by_python, "held_as": held_as_by_python,
    "nodes": nodes_by_python,
}  # fmt: skip
_functions: Final = dict(_BY_PYTHON)


def make_natively(make: Code) -> None:
    """Have all that is here done so, from now on."""
    if _code:
        return
    _code.append(make)
    for column in _columns:
        column.make_natively(make)
    for name, slow in _BY_PYTHON.items():
        _functions[name] = make(name, slow, _Nothing, "nothing") or slow
